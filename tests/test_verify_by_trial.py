"""The judge against a brute force over slots, layers and growing bursts, on random instances."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.instance import Instance, Job, Link
from metronome_opt.verify import evaluate
from tests.strategies import assigned, instances

F = Fraction


def demand(job: Job, offset: int, slot: int, longer: int = 0) -> int:
    """Return the rate of `job` at `slot`, from its bursts, each `longer` than it is."""
    since = (slot - offset) % job.period
    return max(
        (
            phase.rate
            for phase in job.phases
            if (since - phase.start) % job.period < phase.length + longer
        ),
        default=0,
    )


def by_layers(problem: Instance, offsets: Mapping[str, int]) -> tuple[Fraction, Fraction]:
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
                    job.links[link.name] * demand(job, offsets[job.name], slot)
                    for job in users
                    if job.weight >= level
                )
                excess = F(max(0, heavier - link.capacity), length)
                contention += (level - below) * excess
                late += excess if level == levels[1] else 0
    return contention, late


def cushion_by_trial(problem: Instance, offsets: Mapping[str, int]) -> int | None:
    """Return the cushion by growing the bursts a slot at a time."""
    cushions = []
    for link in problem.links:
        users = [job for job in problem.jobs if link.name in job.links]
        length = problem.hyperperiods[link.name]

        def fits(
            longer: int, link: Link = link, users: list[Job] = users, length: int = length
        ) -> bool:
            return all(
                sum(
                    job.links[link.name] * demand(job, offsets[job.name], t, longer)
                    for job in users
                )
                <= link.capacity
                for t in range(length)
            )

        longest = max((job.period for job in users), default=0)
        if fits(0) and not fits(longest):
            cushions.append(max(g for g in range(longest) if fits(g)))
    return min(cushions, default=None)


@given(assigned())
@settings(max_examples=80, deadline=None)
def test_the_judge_agrees_with_a_sum_over_slots_and_layers(
    drawn: tuple[Instance, dict[str, int]],
) -> None:
    problem, offsets = drawn
    judged = evaluate(problem, offsets)
    contention, late = by_layers(problem, offsets)
    assert judged.contention == contention
    assert sum(link.late for link in judged.links) == late
    assert judged.objectives["cushion"] == cushion_by_trial(problem, offsets)


@given(assigned(instances(max_links=1)))
@settings(max_examples=80, deadline=None)
def test_what_a_link_leaves_unserved_is_what_its_jobs_go_without(
    drawn: tuple[Instance, dict[str, int]],
) -> None:
    problem, offsets = drawn
    judged = evaluate(problem, offsets)
    lost = {
        job.name: judged.elongation[job.name]
        * sum(job.links.values())
        * F(job.volume, sum(phase.length for phase in job.phases))
        / job.period
        for job in problem.jobs
    }
    assert sum(lost.values()) == sum(link.late for link in judged.links)
    assert sum(job.weight * lost[job.name] for job in problem.jobs) == judged.contention


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_rotating_a_whole_component_changes_nothing(data: st.DataObject) -> None:
    problem, offsets = data.draw(assigned(instances(fixed=False)))
    component = {problem.jobs[0].name}
    while True:
        links = {link for job in problem.jobs if job.name in component for link in job.links}
        grown = component | {job.name for job in problem.jobs if links & set(job.links)}
        if grown == component:
            break
        component = grown
    by = data.draw(st.integers(0, 840))
    rotated = {
        job.name: (offsets[job.name] + by) % job.period
        if job.name in component
        else offsets[job.name]
        for job in problem.jobs
    }
    before, after = evaluate(problem, offsets), evaluate(problem, rotated)
    for name in ("contention", "latency", "cushion"):
        assert before.objectives[name] == after.objectives[name]
    assert before.links == after.links
    assert before.elongation == after.elongation
