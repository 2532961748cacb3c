"""Evaluation agrees with brute force over slots, layers and extended bursts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.verify import evaluate, verify_schedule
from tests import builders
from tests.strategies import assigned, instances, offsets_of
from tests.tiers import examples

F = Fraction


def demand(job: Job, offset: int, slot: int, cushion_slots: int = 0) -> int:
    """Return the rate of `job` at `slot`, from its bursts, each extended by `cushion_slots`."""
    since = (slot - offset) % job.period
    return max(
        (
            phase.rate
            for phase in job.phases
            if (since - phase.start) % job.period < phase.length + cushion_slots
        ),
        default=0,
    )


def by_layers(
    problem: Instance, offsets: Mapping[str, int], cushion_slots: int = 0
) -> tuple[Fraction, Fraction]:
    """Return contention and mean late bandwidth, slot by slot, by the sum over weight layers."""
    contention = late = F(0)
    for link in problem.links:
        users = [job for job in problem.jobs if link.name in job.links]
        length = 1
        while any(length % job.period for job in users):
            length += 1
        levels = [0, *sorted({job.weight for job in users})]
        for slot in range(length):
            for below, level in itertools.pairwise(levels):
                heavier = sum(
                    job.links[link.name] * demand(job, offsets[job.name], slot, cushion_slots)
                    for job in users
                    if job.weight >= level
                )
                excess = F(max(0, heavier - link.capacity), length)
                contention += (level - below) * excess
                late += excess if level == levels[1] else 0
    return contention, late


def cushion_by_trial(problem: Instance, offsets: Mapping[str, int], already: int = 0) -> int | None:
    """Return the cushion by growing the bursts a slot at a time."""
    cushions = []
    for link in problem.links:
        users = [job for job in problem.jobs if link.name in job.links]
        length = problem.hyperperiods[link.name]

        def fits(
            cushion_slots: int, link: Link = link, users: list[Job] = users, length: int = length
        ) -> bool:
            return all(
                sum(
                    job.links[link.name]
                    * demand(job, offsets[job.name], t, already + cushion_slots)
                    for job in users
                )
                <= link.capacity
                for t in range(length)
            )

        longest = max((job.period for job in users), default=0)
        if fits(0) and not fits(longest):
            cushions.append(max(g for g in range(longest) if fits(g)))
    return min(cushions, default=None)


@given(assigned(), st.just(0) | st.integers(0, 9))
@examples(150, deadline=None)
def test_evaluate_matches_sum_over_slots_and_layers(
    drawn: tuple[Instance, dict[str, int]], cushion_slots: int
) -> None:
    problem, offsets = drawn
    judged = evaluate(problem, offsets, cushion_slots=cushion_slots)
    contention, late = by_layers(problem, offsets, cushion_slots)
    assert judged.contention == contention
    assert sum(link.unserved for link in judged.links) == late
    traffic = sum(
        F(sum(demand(job, 0, slot, cushion_slots) for slot in range(job.period)), job.period)
        * flows
        for job in problem.jobs
        for flows in job.links.values()
    )
    assert judged.objectives["latency"] == (late / traffic if traffic else 0)
    assert judged.objectives["cushion"] == cushion_by_trial(problem, offsets, cushion_slots)


@given(st.data(), st.integers(0, 9))
@examples(80, deadline=None)
def test_stretch_comes_before_extension(data: st.DataObject, cushion_slots: int) -> None:
    problem = data.draw(instances(max_period=5, max_stretch=3, fixed=False))
    stretch = {job.name: data.draw(st.integers(0, job.max_stretch)) for job in problem.jobs}
    for_good = problem.replace(
        jobs=tuple(
            job.model_copy(update={"period": job.period + stretch[job.name]})
            for job in problem.jobs
        )
    )
    offsets = data.draw(offsets_of(for_good))
    judged = evaluate(problem, offsets, stretch, cushion_slots=cushion_slots)
    other = evaluate(extend_bursts(for_good, cushion_slots), offsets)
    assert judged.links == other.links
    assert judged.unserved == other.unserved
    for name in ("contention", "wait", "moves", "cushion"):
        assert judged.objectives[name] == other.objectives[name]
    for name, idle in stretch.items():
        assert judged.elongation[name] == other.elongation[name] + idle


@given(assigned(), st.integers(0, 3))
@examples(80, deadline=None)
def test_unserved_bandwidth_adds_up(
    drawn: tuple[Instance, dict[str, int]], cushion_slots: int
) -> None:
    problem, offsets = drawn
    judged = evaluate(problem, offsets, cushion_slots=cushion_slots)
    assert sum(judged.unserved.values()) == sum(link.unserved for link in judged.links)
    weighted = (job.weight * judged.unserved[job.name] for job in problem.jobs)
    assert sum(weighted) == judged.contention


@given(st.data(), st.integers(0, 2), st.fractions(0, 1, max_denominator=4))
@examples(200, deadline=None)
def test_true_gated_jobs_never_overload_links(
    data: st.DataObject, cushion_slots: int, limit: Fraction
) -> None:
    problem = data.draw(instances(max_period=6, max_flows=1, max_stretch=1, fixed=False))
    gated = {job.name: data.draw(st.booleans()) for job in problem.jobs}
    stretch = {
        job.name: data.draw(st.integers(0, max(job.max_stretch, int(limit * job.period))))
        for job in problem.jobs
    }
    jobs = [
        job.model_copy(update={"period": job.period + stretch[job.name]}) for job in problem.jobs
    ]
    offsets = {job.name: data.draw(st.integers(0, job.period - 1)) for job in jobs}
    overloaded = {
        link.name
        for link in problem.links
        for slot in range(math.lcm(*(job.period for job in jobs)))
        if sum(
            job.links.get(link.name, 0) * demand(job, offsets[job.name], slot, cushion_slots)
            for job in jobs
            if gated[job.name]
        )
        > link.capacity
    }
    stated = {"stretch_limit": limit, "gated": gated, "cushion_slots": cushion_slots}
    schedule = builders.schedule("random", offsets, stretch=stretch, **stated)
    faults = verify_schedule(problem, schedule)
    assert {fault.location for fault in faults} <= {"gated"}
    assert {fault.stated.rpartition(" ")[2] for fault in faults} == overloaded
