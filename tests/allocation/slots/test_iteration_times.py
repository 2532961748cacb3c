"""Iteration times for output are exact where they are known, and simulated elsewhere."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import evaluate, solve, write_instance
from metronome_opt.__main__ import main
from metronome_opt.allocation.slots.iteration_times import IterationTimes, iteration_times
from metronome_opt.allocation.slots.plan import Plan, expected_ms, mean_slowdown
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.bench.suites import read_suite
from metronome_opt.problem.instance import Instance
from metronome_opt.simulation import Conditions, simulate_schedule
from tests.allocation.slots.cases import ALTERNATING, TIGHT, minimum, unshifted_of
from tests.builders import job, network
from tests.simulation.runs import links

SUITES = Path(__file__).parents[3] / "benchmarks" / "suites"
Captured = pytest.CaptureFixture[str]


def on_links(count: int, *, length: int = 6, apart: int = 0) -> Instance:
    """Return two jobs whose bursts meet on so many links at the same time."""
    names = [f"uplink-{number}" for number in range(count)]
    flows = dict.fromkeys(names, 1)
    jobs = (
        job("a", 20, (0, length, 100), links=flows, max_stretch=2),
        job("b", 20, (0, length, 100), links=flows, ready=apart),
    )
    return links(*jobs, **dict.fromkeys(names, 100))


@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 19))
def test_burst_on_several_links_waits_once(count: int, length: int, apart: int) -> None:
    """What links lack was once added up over them, for four uplinks to four times the delay."""
    one, several = (on_links(each, length=length, apart=apart) for each in (1, count))
    plan = Plan(one.unshifted, {"a": 21, "b": 20})
    assert iteration_times(several, plan) == iteration_times(one, plan)
    summed = evaluate(several, several.unshifted).elongation["a"]
    assert summed == count * evaluate(one, one.unshifted).elongation["a"]


def test_very_different_periods_shorten_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 jobs, one of them 630 times as slow as another, took longer than their time limit."""
    played: list[float] = []

    def counted(simulator: PlanSimulator, _: Plan) -> object:
        played.append(simulator.events)
        return np.ones((1, 2))

    monkeypatch.setattr(PlanSimulator, "replicate", counted)
    for longest in (40, 4000, 16000):
        jobs = job("a", longest, (0, 20, 60)), job("b", 4, (0, 2, 60))
        instance = network(*jobs, capacity=100)
        iteration_times(instance, Plan(instance.unshifted))
    # 50 periods of the longest and 16 seeds; a burst is 2 events, of which b has one in 4 slots.
    assert played[0] == 50 * 16 * 2 * (1 + 40 / 4)
    assert played[1] == (10 + 5) * 16 * 2 * (1 + 4000 / 4)  # at least
    assert played[2] == (10 + 5) * 16 * 2 * (1 + 16000 / 4)


def test_all_jobs_are_gated_by_default() -> None:
    schedule = solve(TIGHT, "greedy", "contention").schedule
    assert Plan.of(TIGHT, schedule).periods == {"a": 20, "b": 20, "c": 20}
    some = schedule.model_copy(
        update={"stretch": {"b": 2}, "gated": {"a": False, "b": True, "c": False}}
    )
    assert Plan.of(TIGHT, some).periods == {"b": 22}
    none = schedule.model_copy(update={"gated": dict.fromkeys("abc", False)})
    assert Plan.of(TIGHT, none).periods == {}


@pytest.mark.slow
def test_periods_may_differ_by_thousands() -> None:
    long = network(job("fast", 2, (0, 1, 40)), job("slow", 30_000, (0, 9_000, 40)))
    times = iteration_times(long, Plan(long.unshifted))
    ends = {each.name: each.period * long.slot_ms for each in long.jobs}  # there is room for both
    assert {name: float(time) for name, time in times.items()} == pytest.approx(ends, rel=0.02)


def test_gated_job_with_idle_time_has_period_of_slots() -> None:
    times = iteration_times(TIGHT, Plan({"a": 0, "b": 7, "c": 14}, dict.fromkeys("abc", 21)))
    assert {name: float(time) for name, time in times.items()} == pytest.approx(
        dict.fromkeys("abc", 105), rel=1e-3
    )


def test_stated_times_are_not_simulated_again() -> None:
    found = minimum(ALTERNATING)
    times = IterationTimes.of(found)
    assert times.after == found.schedule.expected_ms
    assert times.before == {name: Fraction(time) for name, time in unshifted_of(found).items()}


@pytest.mark.parametrize("solver", ["greedy", "auto"])
def test_solve_prints_simulated_times(solver: str, tmp_path: Path, capsys: Captured) -> None:
    instance = network(
        *(job(name, 20, (0, 9, 100), weight=w) for name, w in zip("abc", (1, 1, 4), strict=True))
    )
    path = tmp_path / "instance.json"
    write_instance(instance, path)
    assert main(["solve", str(path), "--solver", solver]) == 0
    printed = capsys.readouterr().out
    found = solve(instance, solver, "contention")
    times = IterationTimes.simulated(instance, found.schedule)
    for each in instance.jobs:
        shown = re.search(rf"^{each.name} +\d ([\d. ]+) from ", printed, re.M)
        assert shown is not None
        stated = [f"{float(by[each.name]):.1f}" for by in (times.before, times.after)]
        assert shown[1].split()[-2:] == stated
    summary = r"^mean slowdown [\d.]+, before [\d.]+: windows \S+%; 3 of 3 jobs have windows$"
    assert re.search(summary, printed, re.M)
    assert "predicted" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("family", ["paper", "weights", "fabric"])
def test_printed_times_are_near_to_simulations_without_jitter(family: str) -> None:
    """Beside simulations without jitter, under fair sharing: 5 % in the median, 20 % at worst."""
    off: list[np.ndarray] = []
    for member in read_suite(SUITES / family).members("test"):
        instance = member.instance
        if len(instance.jobs) > 150:
            continue
        schedule = solve(instance, "greedy", "contention").schedule
        periods = np.array([each.period * instance.slot_ms for each in instance.jobs])
        times = IterationTimes.simulated(instance, schedule)
        # Everybody runs for as long: a job that ended early would make room for others.
        longest = 50 * float(periods.max())
        free = simulate_schedule(
            instance,
            instance.unshifted,
            iterations=int(longest / periods.min()),
            conditions=Conditions(horizon_s=longest / 1000),
            enforce=False,
        ).jobs["iteration_mean_ms"]
        gated = PlanSimulator(instance, (0,), jitter_factor=0.0)
        kept = gated.slowdowns(Plan.of(instance, schedule)) * periods
        for shown, played in ((times.before, free.to_numpy()), (times.after, kept)):
            off.append(np.abs([float(time) for time in shown.values()] / played - 1))
    assert np.median(np.concatenate(off)) <= 0.05
    assert np.max(np.concatenate(off)) <= 0.20


CHAIN = network(
    job("a", 20, (0, 2, 60), links={"x": 1}),
    job("b", 20, (0, 2, 60), links={"x": 1, "y": 1}),
    job("c", 20, (0, 2, 60), links={"y": 1}),
    x=100,
    y=100,
)


def stated(periods: dict[str, int], *slowdowns: float) -> list[Fraction]:
    plan = Plan(dict.fromkeys("abc", 0), periods)
    return list(expected_ms(CHAIN, plan, dict(zip("abc", slowdowns, strict=True))).values())


def test_no_job_is_faster_than_its_slots() -> None:
    assert stated({"a": 20, "b": 21, "c": 20}, 1.07, 0.9, 1.0) == [107, 105, 100]


def test_no_job_is_faster_than_alone() -> None:
    assert stated({}, 0.99, 0.9999999, 1.00001) == [100, 100, Fraction(100_001, 1000)]
    assert stated({"a": 20}, 0.99, 1, 1) == [100, 100, 100]


@pytest.mark.parametrize(
    ("weights", "mean"), [((1, 3), Fraction(7, 4)), ((0, 3), Fraction(2)), ((0, 0), Fraction(3, 2))]
)
def test_mean_is_weighted_unless_weights_are_zero(weights: tuple[int, int], mean: Fraction) -> None:
    pair = network(
        job("a", 20, (0, 2, 60), weight=weights[0]), job("b", 40, (0, 2, 60), weight=weights[1])
    )
    assert mean_slowdown(pair, {"a": Fraction(100), "b": Fraction(400)}) == mean


def test_simulated_times_are_whole_microseconds() -> None:
    assert stated({}, 1.2345678, 2, 1) == [Fraction(123_457, 1000), 200, 100]
