"""The evaluator chooses a plan only if it is surely better; links limit hyperperiods."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from metronome_opt.allocation.slots.evaluator import REPLICATIONS, PlanEvaluator
from metronome_opt.allocation.slots.periods import hyperperiods_fit
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.instance import Instance
from tests.allocation.slots.cases import NESTED, TIGHT, evaluator_of
from tests.builders import job, network

FREE = Plan(TIGHT.unshifted)
GATED = Plan(TIGHT.unshifted, dict.fromkeys("abc", 21))
OTHER = Plan(TIGHT.unshifted, dict.fromkeys("abc", 22))

Slowdown = Callable[[int], float]  # of job "b", given a seed


def test_loss_outweighs_gain() -> None:
    isolated = network(job("a", 20, (0, 6, 100), jitter=0.0))
    evaluator = evaluator_of(isolated)
    # Slower by 10 %, of which 2 % are allowed, and 8 % count ten times.
    assert evaluator.values(Plan({"a": 0}, {"a": 22}))[0] == pytest.approx(1.1 + 10 * 0.08)


def test_hyperperiods_stay_within_limit() -> None:
    crowd = network(job("a", 20, (0, 9, 60)), job("b", 22, (0, 9, 60)))
    limited = Instance.from_dict(crowd.to_dict(), hyperperiod_limit=220)
    assert hyperperiods_fit(crowd, ["link"], {}, {"a": 21})
    assert not hyperperiods_fit(limited, ["link"], {}, {"a": 21})
    assert hyperperiods_fit(limited, ["link"], {}, {"a": 22})
    # Nor longer than what can be walked through.
    equal = network(job("a", 100, (0, 9, 60)), job("b", 100, (0, 9, 60)))
    assert hyperperiods_fit(equal, ["link"], {}, {"a": 149, "b": 134})
    assert not hyperperiods_fit(equal, ["link"], {}, {"a": 149, "b": 139})
    assert hyperperiods_fit(equal, [], {}, {"a": 149, "b": 139})


def scripted(
    slowdowns: dict[int, Slowdown], monkeypatch: pytest.MonkeyPatch, limit: str = "2/100"
) -> tuple[PlanEvaluator, list[int]]:
    """Return an evaluator with what job "b" takes by its period, 0 if free, and the seeds used.

    Job "a" takes 1.5 free and 1.2 gated, job "c" always 1.2.
    """
    used: list[int] = []

    def replicate(simulator: PlanSimulator, plan: Plan) -> Floats:
        used.extend(simulator.seeds)
        period = plan.periods.get("b", 0)
        first = 1.2 if period else 1.5
        return np.array([[first, slowdowns[period](seed), 1.2] for seed in simulator.seeds])

    monkeypatch.setattr(PlanSimulator, "replicate", replicate)
    return evaluator_of(TIGHT, max_loss=Fraction(limit)), used


def always(value: float) -> Slowdown:
    return lambda _: value


@pytest.mark.parametrize(
    ("limit", "loss", "is_chosen"),
    [("2/100", 0.019, True), ("2/100", 0.021, False), ("5/100", 0.04, True)],
)
def test_no_job_loses_more_than_the_limit(
    limit: str, loss: float, is_chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator, _ = scripted({0: always(1.0), 21: always(1 + loss)}, monkeypatch, limit)
    assert (evaluator.best(FREE, [GATED]) is GATED) is is_chosen
    assert evaluator.is_within_loss(GATED) is is_chosen


def test_a_clear_case_takes_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator, used = scripted({0: always(1.0), 21: always(1.0)}, monkeypatch)
    assert evaluator.best(FREE, [GATED]) is GATED
    assert set(used) == set(range(REPLICATIONS))


def test_what_is_not_sure_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of 1 % in the mean may be one of 2 %, as long as there are few replications."""
    evaluator, used = scripted(
        {0: always(1.0), 21: lambda seed: 1.01 + (0.03 if seed % 2 else -0.03)}, monkeypatch
    )
    assert evaluator.best(FREE, [GATED]) is GATED
    # 0.01 + t * 0.03 / (n - 1) ** 0.5 of n replications is above 0.02 for 8, 16, 24 and 32 of them,
    # where t is 2.517, 2.249, 2.177 and 2.144, and for 40, where it is 2.125; below for 48.
    assert max(used) == 47


def test_what_is_never_sure_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator, used = scripted(
        {0: always(1.0), 21: lambda seed: 1.0199 + (0.03 if seed % 2 else -0.03)}, monkeypatch
    )
    assert evaluator.best(FREE, [GATED]) is FREE
    assert max(used) == 24 * REPLICATIONS - 1


def test_the_best_of_several_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = {0: always(1.1), 21: always(1.05), 22: always(1.02)}
    evaluator, _ = scripted(levels, monkeypatch)
    assert evaluator.best(FREE, [GATED, OTHER]) is OTHER
    assert evaluator.best(FREE, [OTHER, GATED]) is OTHER
    assert evaluator.best(GATED, [OTHER], gain=0.02) is GATED  # it gains 0.03 of one job in three


def test_what_a_change_costs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator, _ = scripted({0: always(1.0), 21: always(1.0)}, monkeypatch)
    costly = evaluator_of(
        TIGHT, max_loss=None, change_costs=lambda plan: np.full(3, 0.2 if plan.periods else 0.0)
    )
    assert evaluator.best(FREE, [GATED]) is GATED  # 0.3 of one job in three
    assert costly.best(FREE, [GATED]) is FREE


def test_free_jobs_are_the_base() -> None:
    evaluator = evaluator_of(NESTED)
    free = Plan(NESTED.unshifted)
    assert evaluator.values(free)[0] == evaluator.simulator.value(evaluator.base)
    assert np.allclose(evaluator.base, evaluator.simulator.slowdowns(free))
    assert evaluator.is_within_loss(free)
    gated = Plan({"a": 0, "b": 8}, {"a": 40, "b": 20})
    assert np.allclose(evaluator.slowdowns(gated), evaluator.simulator.slowdowns(gated))
    other = evaluator_of(NESTED, base=gated)
    assert np.array_equal(other.base, evaluator.slowdowns(gated))


def test_a_plan_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it was asked about, the time limit was exceeded."""
    evaluator = evaluator_of(NESTED)
    simulated: list[Plan] = []
    real = evaluator.simulator.replicate

    def counted(plan: Plan) -> Floats:
        simulated.append(plan)
        return real(plan)

    monkeypatch.setattr(evaluator.simulator, "replicate", counted)
    first, second = Plan({"a": 0, "b": 3}, {"b": 20}), Plan({"b": 3, "a": 0}, {"a": 40})
    values = [evaluator.values(plan)[0] for plan in (first, second)]
    again = [Plan({"b": 3, "a": 0}, periods) for periods in ({"b": 20}, {"a": 40})]
    assert [evaluator.values(plan)[0] for plan in again] == values
    assert evaluator.values(Plan(NESTED.unshifted))[0] == evaluator.simulator.value(evaluator.base)
    assert simulated == [first, second]
