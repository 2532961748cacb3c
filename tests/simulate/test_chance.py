"""Jitter: as large as stated, and independent of other jobs."""

from __future__ import annotations

import math
import statistics

import pytest

from metronome_opt.instance import Instance
from metronome_opt.scenario import locate, read_scenario
from metronome_opt.simulate import Conditions
from metronome_opt.simulate.state import SLOT_MS, training_jobs
from tests.builders import job
from tests.simulate.runs import FreeRun, free_run, links

COMPUTING, BURST = 90.0, 10.0  # ms, of the iterations below
LONG = 4000


def single() -> Instance:
    return links(job("a", 10, (9, 1, 100)))


def crowded() -> Instance:
    """Return the same job beside one that meets its bursts now and then."""
    return links(job("a", 10, (9, 1, 100)), job("b", 7, (2, 5, 80)))


def factors(conditions: Conditions, seed: int = 0, iterations: int = LONG) -> list[float]:
    """Return by which factors the computing times of a single job deviate."""
    run = free_run(single(), {"a": 0}, iterations, conditions=conditions, seed=seed)
    return [(time - BURST) / COMPUTING for time in run.times["a"]]


# ------------------------------------------------------------------ how much


@pytest.mark.parametrize("jitter", [0.01, 0.1])
def test_jitter_has_stated_deviation(jitter: float) -> None:
    drawn = factors(Conditions(jitter=jitter))
    # Cut off at three deviations, a normal number deviates by 0.987 to 0.998, as one cuts.
    assert statistics.stdev(drawn) == pytest.approx(jitter, rel=0.05)
    assert statistics.fmean(drawn) == pytest.approx(1, abs=4 * jitter / math.sqrt(LONG))
    assert max(abs(factor - 1) for factor in drawn) <= 3 * jitter * (1 + 1e-9)
    within = sum(abs(factor - 1) < jitter for factor in drawn) / LONG
    assert within == pytest.approx(0.683, abs=0.03)  # as a normal one


# ------------------------------------------------------------------ independence of other jobs


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


def test_iterations_draw_same_numbers_beside_other_jobs() -> None:
    """This makes policies comparable in pairs."""
    conditions = Conditions(jitter=0.2)
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
    for each in training_jobs(read_scenario(locate("paper-24-measured"))):
        assert each.claim(10_000).phases == each.iteration(10_000).to_slots(SLOT_MS).phases
        assert each.claim(10_000).busy * SLOT_MS - each.iteration(10_000).duration <= 4 * SLOT_MS


def test_bursts_do_not_jitter() -> None:
    always = links(job("a", 4, (0, 4, 70)))
    run = free_run(always, {"a": 0}, 50, conditions=Conditions(jitter=0.3))
    assert set(run.times["a"]) == {40.0}
