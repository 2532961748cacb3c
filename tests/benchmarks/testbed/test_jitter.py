"""Computing times that vary by seed, and how jobs do in the course of a run."""

from __future__ import annotations

import math
from itertools import islice
from statistics import fmean, stdev

import numpy as np
import pytest

from benchmarks.testbed.cases import JITTER, read_cases
from benchmarks.testbed.lasting import comes_apart, compare_gated
from benchmarks.testbed.modes import begins_at, plan
from benchmarks.testbed.worker import factors
from metronome_opt.errors import InputError
from tests.benchmarks.testbed.bed import bed_case, bed_job, bed_run, begins

PAIR = bed_case(bed_job(100, (0, 40)), bed_job(100, (0, 40)), name="pair", random_begins=True)


def drawn(seed: str, jitter: float, count: int = 4000) -> list[float]:
    return list(islice(factors(seed, jitter), count))


def test_factors_are_normal_and_no_further_than_three_deviations_from_one() -> None:
    found = drawn("seed", 0.05)
    assert fmean(found) == pytest.approx(1, abs=0.005)
    assert stdev(found) == pytest.approx(0.05, rel=0.05)
    assert min(found) == pytest.approx(0.85)
    assert max(found) == pytest.approx(1.15)
    assert set(drawn("seed", 0.0)) == {1.0}


def test_ranks_of_a_job_draw_alike_and_jobs_and_repeats_differ() -> None:
    seeds = [PAIR.seed(job, repeat) for job in "ab" for repeat in (0, 1)]
    assert drawn(seeds[0], 0.1) == drawn(PAIR.seed("a", 0), 0.1)
    assert len({tuple(drawn(seed, 0.1, 3)) for seed in seeds}) == 4


def test_random_beginnings_are_within_the_period() -> None:
    found = [begins_at(PAIR, repeat) for repeat in range(200)]
    assert found[7] == begins_at(PAIR, 7)
    for job in "ab":
        assert min(each[job] for each in found) < 5
        assert 95 <= max(each[job] for each in found) < 100


def test_even_slots_are_as_far_apart_as_they_can_be() -> None:
    three = next(case for case in read_cases(JITTER) if case.name == "three")
    planned = plan(three, "even")
    assert planned is not None
    assert planned.offsets == {"a": 0, "b": 134, "c": 269}
    assert set(planned.periods.values()) == {404}
    with pytest.raises(InputError, match="pair: mode even needs slots_ms"):
        plan(PAIR, "even")


def test_gated_jobs_are_held_against_free_ones_like_them() -> None:
    slow = begins(150, *[100] * 20, *[130] * 10)
    runs = [
        bed_run("pair", "free", {job: begins(150, *[110] * 10, *[101] * 20) for job in "ab"}),
        bed_run(
            *("pair", "even", {"a": begins(150, *[104] * 30), "b": slow}),
            offsets={"a": 0, "b": 52},
            periods={"a": 104, "b": 106},
        ),
        bed_run("pair", "free", {job: begins(150, *[100] * 30) for job in "ab"}, queue_ms=1),
    ]
    row, other = compare_gated([PAIR], runs, None).to_dict("records")
    assert row == {
        "case": "pair",
        "jitter": None,
        "uplink_mbps": 200,
        "queue_ms": 20,
        "congestion": "cubic",
        "fits": True,
        "runs": 1,
        "free": pytest.approx(1.04),
        "gated": pytest.approx(1.07),
        "slots": pytest.approx(1.05),
        "free, first": pytest.approx(1.10),
        "free, last": pytest.approx(1.01),
        "gated, first": pytest.approx(1.02),
        "gated, last": pytest.approx(1.17),
        # Of twenty iterations four of 110 and sixteen of 101 are 102.8 in the mean, five 103.25.
        "apart": 7,
    }
    assert (other["queue_ms"], other["apart"]) == (1, 1)
    assert math.isnan(other["gated"])
    assert other["fits"] is None


def test_jobs_are_apart_when_all_are_and_not_before_twenty_iterations() -> None:
    near, far = np.full(30, 102.0), np.full(30, 104.0)
    assert comes_apart(PAIR, {"a": near, "b": near}) == 1
    assert comes_apart(PAIR, {"a": near, "b": far}) is None
    assert comes_apart(PAIR, {"a": near[:19], "b": near}) is None


def test_jobs_that_never_come_apart_in_half_of_the_runs_have_no_median() -> None:
    """Of three runs the second is the middle; of two the first."""
    free = {job: begins(150, *[100] * 30) for job in "ab"}
    held = {job: begins(150, *[110] * 30) for job in "ab"}

    def apart(*runs: dict[str, list[float]]) -> float:
        taken = [bed_run("pair", "free", run) for run in runs]
        return float(compare_gated([PAIR], taken, None)["apart"][0])

    assert apart(free, held, free) == 1
    assert math.isnan(apart(held, free, held))
