"""Delay, strict order of weights, limits of loss, and fronts hold what they state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import gcd
from random import Random

import pytest

from metronome_opt import pareto
from metronome_opt.allocation.slots.evaluator import PlanEvaluator, is_better, lowest
from metronome_opt.allocation.slots.front import slowdown_front
from metronome_opt.allocation.slots.periods import CUSHION_SLOTS
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.problem.result import Result
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import verify_schedule
from tests.allocation.slots.cases import (
    NESTED,
    assert_sound,
    evaluator_of,
    expected_of,
    minimum,
    unshifted_of,
)
from tests.builders import job, network

CHANCE = 0.005


def drawn(seed: int, jobs: int = 2) -> Instance:
    """Return jobs on a link, the first one of the largest weight."""
    draw = Random(seed)
    made = []
    for number, name in enumerate("abc"[:jobs]):
        period = draw.randint(20, 30)
        burst = (0, draw.randint(period // 4, period // 2), 100)
        made.append(job(name, period, burst, weight=4 - number))
    return network(*made)


def alternatives(pair: Instance, judge: PlanEvaluator) -> Iterator[Plan]:
    """Yield plans of all periods that harm no job, both jobs as far apart as they can be."""
    one, two = pair.jobs
    cushion = CUSHION_SLOTS
    yield Plan(pair.unshifted)
    first, second = (
        range(each.period, int(most * each.period) + 1)
        for each, most in zip(pair.jobs, judge.limits.tolist(), strict=True)
    )
    for p, q in ((p, q) for p in first for q in second):
        room = gcd(p, q) - one.phases[0].length - two.phases[0].length - 2 * cushion
        if room >= 0:
            offset = one.phases[0].length + cushion + room // 2
            yield Plan({"a": 0, "b": offset % q}, {"a": p, "b": q})


@pytest.mark.parametrize("seed", range(5))
def test_heaviest_job_is_as_fast_as_in_any_alternative(seed: int) -> None:
    pair = drawn(seed)
    result = minimum(pair, objective="lexicographic")
    assert_sound(result, within_loss=True)
    judge = evaluator_of(pair, 1000, periods=200)
    best = min(
        judge.slowdowns(plan)[0] for plan in alternatives(pair, judge) if judge.is_within_loss(plan)
    )
    assert judge.slowdowns(Plan.of(pair, result.schedule))[0] <= best + CHANCE
    assert result.notes[0].startswith("slowdown by weight: ")


def test_delay_is_stated_and_checked() -> None:
    result = minimum(NESTED, objective=("slowdown", "delay"))
    assert_sound(result)
    times = expected_of(result)
    delay = sum(times[each.name] / (5 * each.period) for each in NESTED.jobs) / 2 - 1
    assert result.schedule.objectives["delay"] == delay
    assert [level.name for level in result.levels] == ["slowdown", "delay"]
    assert minimum(NESTED).schedule.objectives["delay"] == delay
    wrong = {**result.schedule.objectives, "delay": delay + 1}
    (fault,) = verify_schedule(NESTED, result.schedule.model_copy(update={"objectives": wrong}))
    assert fault.location == "objectives.delay"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_larger_max_loss_is_never_worse(seed: int) -> None:
    trio, values = drawn(seed, 3), list[float]()
    fresh = PlanSimulator(trio, range(1000, 1064), network="fair", periods=400)  # no search has it
    for max_loss in ("1%", None, "10%", "40%"):
        result = minimum(trio, network="fair", max_loss=max_loss)
        assert_sound(result)
        values.append(fresh.value(fresh.slowdowns(Plan.of(trio, result.schedule))))
        for name, before in unshifted_of(result).items():
            most = 0.02 if max_loss is None else float(max_loss[:-1]) / 100
            assert float(expected_of(result)[name]) <= before * (1 + most + CHANCE)
    assert all(more <= less + CHANCE for less, more in pairwise(values))


def test_levels_count_one_after_the_other() -> None:
    assert is_better((1.1, 1.5), (1.2, 1.0))
    assert not is_better((1.2, 1.0), (1.1, 1.5))
    assert is_better((1.101, 1.4), (1.1, 1.5), 0.05)
    assert not is_better((1.099, 1.48), (1.1, 1.5), 0.05)
    assert lowest((1.101, 1.4), (1.1, 1.5)) == (1.1, 1.4)
    assert lowest((1.0, 1.6), (1.1, 1.5)) == (1.0, 1.6)


@pytest.mark.parametrize("seed", range(30))
def test_points_of_a_front_do_not_dominate_one_another(seed: int) -> None:
    draw = Random(seed)
    weights = {name: draw.randint(0, 4) for name in "ab"}
    answer = minimum(NESTED)
    rows = [[draw.randint(100, 200) for _ in weights] for _ in range(8)]

    def means(row: list[int], by: Mapping[str, int]) -> Fraction:
        total = sum(by.values()) or len(by)
        each = by.values() if any(by.values()) else [1] * len(by)
        return Fraction(sum(a * b for a, b in zip(row, each, strict=True)), 100 * total)

    def search_plan(levels: MeanWeights, _: Budget) -> Result:
        row = min(rows, key=lambda row: means(row, levels[0]))
        values = {"slowdown": means(row, weights), "delay": means(row, {"a": 1, "b": 1}) - 1}
        return replace(answer, schedule=answer.schedule.model_copy(update={"objectives": values}))

    front = slowdown_front(weights, search_plan, Budget())
    values = [front.values(point) for point in front.points]
    assert all(a < c and b > d for (a, b), (c, d) in pairwise(values))  # type: ignore[operator]
    assert values[0][0] == min(means(row, weights) for row in rows)
    assert values[-1][1] == min(means(row, {"a": 1, "b": 1}) for row in rows) - 1


@pytest.mark.slow
def test_front_of_stored_jobs_is_true() -> None:
    front = pareto(NESTED, ("slowdown", "delay"), time_limit=None, threads=1)
    assert front.points
    assert all(verify_schedule(NESTED, point) == () for point in front.points)


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (("delay", "slowdown"), {}, "slowdown or lexicographic comes first"),
        (("lexicographic", "delay"), {}, "a front of simulated means is one of slowdown, delay"),
        (("slowdown", "delay"), {"time_limit": 0}, "time limit: too short to simulate"),
        (("contention", "latency"), {"max_loss": "5%"}, "max_loss: is for slowdown and delay"),
    ],
)
def test_fronts_are_refused_in_a_line(
    names: tuple[str, str], options: dict[str, str | int], message: str
) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        pareto(NESTED, names, **options)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)
