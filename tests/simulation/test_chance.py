"""Jitter and drift are as large as stated, and do not depend on other jobs."""

from __future__ import annotations

import math
import statistics

import pytest

from metronome_opt.engine.jobs import WindowSchedule
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario import locate, read_scenario
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation import Conditions
from metronome_opt.simulation.state import SLOT_MS, training_jobs
from tests.builders import job
from tests.simulation.runs import FreeRun, finish, free_run, links, running

COMPUTING, BURST = 90.0, 10.0  # ms, of the iterations below
LONG = 4000
DISTURBED = Conditions(jitter=0.1, drift_ppm=500)


def single() -> Instance:
    return links(job("a", 10, (9, 1, 100)))


def crowded() -> Instance:
    """Return the same job beside one that meets its bursts now and then."""
    return links(job("a", 10, (9, 1, 100)), job("b", 7, (2, 5, 80)))


def factors(conditions: Conditions, seed: int = 0, iterations: int = LONG) -> list[float]:
    """Return by which factors the computing times of a single job deviate."""
    run = free_run(single(), {"a": 0}, iterations, conditions=conditions, seed=seed)
    return [(time - BURST) / COMPUTING for time in run.times["a"]]


@pytest.mark.parametrize("jitter", [0.01, 0.1])
def test_jitter_has_stated_deviation(jitter: float) -> None:
    drawn = factors(Conditions(jitter=jitter))
    # Cut off at three deviations, a normal number deviates by 0.987 to 0.998, as one cuts.
    assert statistics.stdev(drawn) == pytest.approx(jitter, rel=0.05)
    assert statistics.fmean(drawn) == pytest.approx(1, abs=4 * jitter / math.sqrt(LONG))
    assert max(abs(factor - 1) for factor in drawn) <= 3 * jitter * (1 + 1e-9)
    within = sum(abs(factor - 1) < jitter for factor in drawn) / LONG
    assert within == pytest.approx(0.683, abs=0.03)  # as a normal one


def test_clocks_drift_uniformly_within_limit() -> None:
    """200 jobs of 100 ms in slots of 110, 10 ms early; clocks are never set."""
    ppm, jobs = 1000.0, 200
    engine = running(
        *[Iteration.of_job(job("a", 10, (9, 1, 100)), 10)] * jobs,
        windows=[WindowSchedule(110.0, tolerance_ms=9.0)] * jobs,
        iterations=21,
        capacity=100 * jobs,
        conditions=Conditions(drift_ppm=ppm),
    )
    rates = []
    for times in finish(engine):
        # The last iteration lasts until its own end, no slot follows it.
        assert times[:-1] == pytest.approx([times[0]] * 20, rel=1e-9)  # steadily
        rates.append(1e6 * (times[0] / 110 - 1))
    # Uniform between the ends; a clock that is fast by p makes periods shorter by p / (1 + p).
    assert max(map(abs, rates)) <= ppm * 1.002
    assert min(rates) < -0.9 * ppm
    assert max(rates) > 0.9 * ppm
    assert statistics.fmean(rates) == pytest.approx(0, abs=4 * ppm / math.sqrt(3 * jobs))
    assert statistics.stdev(rates) == pytest.approx(ppm / math.sqrt(3), rel=0.15)


def computing(run: FreeRun) -> list[float]:
    """Return the computing times of "a", whose iterations end with their only burst."""
    rows = run.trace[run.trace["job"] == "a"]
    rates = list(zip(rows["time_ms"], rows["rate_mbps"], strict=True))
    ends = [0.0, *(time for time, rate in rates if rate == 0)]
    starts = [
        time
        for (time, rate), (_, before) in zip(rates, [(0.0, 0.0), *rates], strict=False)
        if rate > 0 and before == 0
    ]
    return [start - end for start, end in zip(starts, ends, strict=False)]


@pytest.mark.parametrize("conditions", [Conditions(jitter=0.2), DISTURBED])
def test_iterations_draw_same_numbers_beside_other_jobs(conditions: Conditions) -> None:
    """This makes policies comparable in pairs."""
    alone = free_run(single(), {"a": 0}, 100, conditions=conditions, seed=7)
    beside = free_run(crowded(), {"a": 0, "b": 0}, 100, conditions=conditions, seed=7)
    narrow = single().replace(
        links=tuple(link.model_copy(update={"capacity": 30}) for link in single().links)
    )
    slow = free_run(narrow, {"a": 0}, 100, conditions=conditions, seed=7)
    assert len(computing(alone)) == 100
    assert computing(beside) == pytest.approx(computing(alone), rel=1e-9)
    assert computing(slow) == pytest.approx(computing(alone), rel=1e-9)
    assert list(beside.times["a"]) != pytest.approx(list(alone.times["a"]), rel=1e-3)


def test_claims_of_measured_steps_are_as_long_as_their_iterations() -> None:
    """Their bursts are many and short: each rounded up by itself, they would take much longer."""
    scenario = read_scenario(locate("paper-24-measured"))
    for each in training_jobs(scenario):
        nodes = scenario.cluster.nodes[: each.spec.workers]  # with GPUs of their own
        names = [node.name for node in nodes]
        place = compute_placement(scenario.cluster, names, each.algorithm).transport
        exact = each.traffic(place)
        assert len(exact.bursts) > 1
        phases, slots = each.in_slots(place)
        assert (phases, slots) == exact.to_slots(SLOT_MS)
        assert slots * SLOT_MS - exact.duration <= 4 * SLOT_MS


def test_bursts_do_not_jitter() -> None:
    always = links(job("a", 4, (0, 4, 70)))
    run = free_run(always, {"a": 0}, 50, conditions=Conditions(jitter=0.3))
    assert set(run.times["a"]) == {40.0}
