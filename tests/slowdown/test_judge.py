"""What a plan is worth, and which periods jobs may be given together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.slowdown.evaluator import PlanEvaluator
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.plan_search import is_short
from metronome_opt.slowdown.simulator import PlanSimulator
from tests.builders import job, network
from tests.slowdown.cases import NESTED, TIGHT


def test_harm_outweighs_gain() -> None:
    alone = network(job("a", 20, (0, 6, 100), jitter=0.0))
    judge = PlanEvaluator(alone, range(1))
    # Slower by 1 %, which is allowed, and by 10 %: 9 % of it ten times more.
    assert judge.value(Plan({"a": 0}, {"a": 22})) == pytest.approx(1.1 + 10 * 0.09)


def test_hyperperiods_stay_within_limit() -> None:
    crowd = network(job("a", 20, (0, 9, 60)), job("b", 22, (0, 9, 60)))
    limited = Instance.from_dict(crowd.to_dict(), hyperperiod_limit=220)
    assert is_short(crowd, ["link"], {}, {"a": 21})
    assert not is_short(limited, ["link"], {}, {"a": 21})
    assert is_short(limited, ["link"], {}, {"a": 22})
    # Nor longer than what the judge can walk through.
    alike = network(job("a", 100, (0, 9, 60)), job("b", 100, (0, 9, 60)))
    assert is_short(alike, ["link"], {}, {"a": 149, "b": 134})
    assert not is_short(alike, ["link"], {}, {"a": 149, "b": 139})
    assert is_short(alike, [], {}, {"a": 149, "b": 139})


def judge_of(
    losses: Callable[[float, int], float], monkeypatch: pytest.MonkeyPatch
) -> tuple[PlanEvaluator, Plan]:
    """Return a judge in whose simulations jobs lose a share under a plan, and that plan.

    The share is a function of the factor on jitter, and the seed.
    """
    plan = Plan(TIGHT.unshifted, dict.fromkeys("abc", 21))

    def by_seed(player: PlanSimulator, given: Plan) -> Floats:
        gated = given == plan
        rows = [1.2 * (1 + gated * losses(player.noise, seed)) for seed in player.seeds]
        return np.array([[1.2, row, 1.2] for row in rows])

    monkeypatch.setattr(PlanSimulator, "by_seed", by_seed)
    return PlanEvaluator(TIGHT, range(4)), plan


@pytest.mark.parametrize("noise", [0.5, 1.0, 2.0])
def test_harm_at_one_jitter_counts(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(share: float) -> Callable[[float, int], float]:
        return lambda *of: share if of[0] == noise else -0.1

    judge, plan = judge_of(lost(0.009), monkeypatch)
    assert judge.is_harmless(plan)
    judge, plan = judge_of(lost(0.011), monkeypatch)
    assert not judge.is_harmless(plan)


def test_upper_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of 0.5 % in the mean may be one of 1 %, as long as there are few seeds."""
    played: set[int] = set()

    def uneven(_: float, seed: int) -> float:
        played.add(seed)
        return 0.005 + (0.008 if seed % 2 else -0.008)

    judge, plan = judge_of(uneven, monkeypatch)
    assert judge.is_harmless(plan)
    # 0.005 + t * 0.008 / (n - 1) ** 0.5 of n seeds is above 0.01 for 4, 8, 12 and 16 of them, where
    # t is 4.541, 2.998, 2.718 and 2.602, and below for 20, where it is 2.539.
    assert played == set(range(20))
    judge, plan = judge_of(lambda *of: 5 * uneven(*of) - 0.016, monkeypatch)  # 0.9 % in the mean
    assert not judge.is_harmless(plan)
    assert played == set(range(64))


def test_a_loss_by_chance_does_not_count_as_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first four seeds lose 2 % in the mean, give or take; the others nothing."""
    judge, plan = judge_of(lambda *of: 0.08 * (of[1] == 3), monkeypatch)
    assert judge.is_harmless(plan)


def test_what_is_certain_harm_is_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    played: set[int] = set()

    def much(_: float, seed: int) -> float:
        played.add(seed)
        return 0.05 + 0.001 * seed

    judge, plan = judge_of(much, monkeypatch)
    assert not judge.is_harmless(plan)
    assert played == set(range(4))


def test_unshifted_jobs_do_no_harm() -> None:
    judge = PlanEvaluator(NESTED, range(1))
    assert judge.value(Plan(NESTED.unshifted)) == judge.player.value(judge.base)
    assert np.allclose(judge.base, judge.player.slowdowns(Plan(NESTED.unshifted)))
    assert judge.is_harmless(Plan(NESTED.unshifted))
    later = Plan({"a": 0, "b": 3})
    assert np.allclose(judge.slowdowns(later), judge.player.slowdowns(later))
    assert not np.allclose(judge.slowdowns(later), judge.base)
    assert np.array_equal(PlanEvaluator(NESTED, range(1), base=later).base, judge.slowdowns(later))


def test_plan_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it was asked about, the time limit was exceeded."""
    judge = PlanEvaluator(NESTED, range(1))
    played: list[Plan] = []
    real = judge.player.by_seed

    def counted(plan: Plan) -> Floats:
        played.append(plan)
        return real(plan)

    monkeypatch.setattr(judge.player, "by_seed", counted)
    first, second = Plan({"a": 0, "b": 3}), Plan({"b": 3, "a": 0}, {"a": 40})
    values = [judge.value(plan) for plan in (first, second)]
    assert [judge.value(Plan({"b": 3, "a": 0}, periods)) for periods in ({}, {"a": 40})] == values
    assert judge.value(Plan(NESTED.unshifted)) == judge.player.value(judge.base)
    assert played == [first, second]
