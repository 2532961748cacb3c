"""Where the model sees no contention, every iteration takes its period and not a bit more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from benchmarks.best_known import HOME, read_best_known
from benchmarks.stored import SUITES
from metronome_opt.bench.suites import read_suite
from metronome_opt.instance import Instance
from metronome_opt.schedule import read_schedule
from metronome_opt.simulate import play
from tests.simulate.played import column

FAMILIES = tuple(sorted(folder.name for folder in SUITES.iterdir() if folder.is_dir()))
ITERATIONS = 30


@cache
def best_known(family: str) -> tuple[tuple[Instance, Mapping[str, int]], ...]:
    """Return the instances of a family of which a schedule is known, and its offsets."""
    entries = read_best_known().instances
    return tuple(
        (
            member.instance,
            read_schedule(HOME / entries[member.entry.name].schedule.file).offsets,
        )
        for member in read_suite(SUITES / family).members()
        if member.entry.name in entries
    )


def peaks(instance: Instance, offsets: Mapping[str, int]) -> dict[str, int]:
    """Return the largest demand on each link over its hyperperiod."""
    largest = {}
    for link in instance.links:
        demand = np.zeros(instance.hyperperiods[link.name], dtype=np.int64)
        for index in instance.jobs_on[link.name]:
            job = instance.jobs[index]
            pattern = np.zeros(job.period, dtype=np.int64)
            for phase in job.phases:
                pattern[phase.start : phase.end] = phase.rate * job.links[link.name]
            demand += np.tile(np.roll(pattern, offsets[job.name]), len(demand) // job.period)
        largest[link.name] = int(demand.max())
    return largest


def keep_their_period(run_of: Instance, offsets: Mapping[str, int], enforce: bool) -> set[str]:
    """Return the jobs all of whose iterations take exactly their period."""
    run = play(run_of, offsets, iterations=ITERATIONS, enforce=enforce)
    shortest, longest = column(run, "iteration_min_ms"), column(run, "iteration_max_ms")
    return {
        job.name
        for job in run_of.jobs
        if shortest[job.name] == longest[job.name] == job.period * run_of.slot_ms
    }


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("enforce", [True, False])
def test_links_that_just_carry_the_peak_hold_nobody_up(family: str, enforce: bool) -> None:
    """The best known schedules, on links as wide as they need to be at their busiest."""
    for instance, offsets in best_known(family):
        widest = peaks(instance, offsets)
        wide = instance.replace(
            links=tuple(
                link.model_copy(update={"capacity": max(1, widest[link.name])})
                for link in instance.links
            )
        )
        assert keep_their_period(wide, offsets, enforce) == {job.name for job in instance.jobs}
