"""Computing times that vary by seed, and how long gated jobs stay worse than free ones."""

from __future__ import annotations

from itertools import islice
from statistics import fmean, stdev

import numpy as np
import pytest

from benchmarks.testbed.cases import JITTER, read_cases
from benchmarks.testbed.lasting import compare_gated, stretch
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


def test_random_beginnings_are_within_the_period_and_the_same_in_all_modes() -> None:
    found = [begins_at(PAIR, "free", None, repeat) for repeat in range(200)]
    assert found[7] == begins_at(PAIR, "even", None, 7)
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


def test_stretch_counts_running_means_in_a_row() -> None:
    """One slow iteration is in ten running means; of two that are five apart, fifteen."""
    times = np.full(60, 100.0)
    times[20] = 120.0
    assert stretch(times, 101.0) == 10
    times[25] = 120.0
    assert stretch(times, 101.0) == 15
    assert stretch(times, 103.0) == 5
    assert stretch(times, 105.0) == 0
    assert stretch(times[:9], 1.0) == 0


def test_gated_jobs_are_held_against_free_ones_like_them() -> None:
    slow = begins(150, *[100] * 20, *[130] * 10)
    runs = [
        bed_run("pair", "free", {job: begins(150, *[110] * 30) for job in "ab"}, jitter=0.01),
        bed_run(
            *("pair", "even", {"a": begins(150, *[104] * 30), "b": slow}),
            offsets={"a": 0, "b": 52},
            periods={"a": 104, "b": 106},
            jitter=0.01,
        ),
        bed_run("pair", "free", {job: begins(150, *[100] * 30) for job in "ab"}, jitter=0.05),
    ]
    (row,) = compare_gated([PAIR], runs, None).to_dict("records")
    assert row == {
        "case": "pair",
        "jitter": 0.01,
        "free": pytest.approx(1.1),
        "gated": pytest.approx(1.07),
        "slots": pytest.approx(1.05),
        "free, last": pytest.approx(1.1),
        "gated, last": pytest.approx(1.17),
        "stretch, free": 0,
        # With four slow ones of ten the mean is 112, then longer.
        "stretch, gated": 7,
        "beyond, gated": 7,
    }
