"""Contention groups: common periods, best rotations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.allocation.places import Room
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.runner import Runner, Slot
from metronome_opt.instance import Instance
from metronome_opt.scenario import Scenario
from metronome_opt.simulate.policies.rotation import ContentionGroup, common_periods
from metronome_opt.simulate.state import Running, SimState, training_jobs
from metronome_opt.verify import evaluate
from tests.simulate.scenes import scene, switch, work
from tests.strategies import assigned, crowded, instances
from tests.tiers import examples

DRAWN = assigned(crowded(fixed=False))


def named(instance: Instance, offsets: Sequence[int]) -> dict[str, int]:
    return {job.name: offset for job, offset in zip(instance.jobs, offsets, strict=True)}


def group(instance: Instance, ready: Sequence[float], origin: float) -> ContentionGroup:
    """Return a group of all jobs of an instance, members in the order of its jobs."""
    return ContentionGroup(instance, tuple(range(len(instance.jobs))), tuple(ready), origin)


def at(
    given: Scenario,
    now: float,
    starts: Mapping[int, float],
    slots: Mapping[int, Slot | None] | None = None,
) -> SimState:
    """Return the state of a scenario whose pinned jobs have started then, at a later moment."""
    room = Room(given.cluster)
    jobs = training_jobs(given, 0.0, 0)
    runners = [
        Runner(job.name, job.ideal, job.work.priority, None, 2 * job.work.workers) for job in jobs
    ]
    engine = Engine(room.cluster.capacities, runners)
    state = SimState(room, engine)
    for job in jobs:
        placed = Running(job, room.placement(job.work.nodes or (), job.demand))
        placed.slot = (slots or {}).get(job.index)
        state.add(placed)
        if job.index in starts:
            pattern = job.pattern(placed.placement.rate)
            links = placed.placement.links
            engine.enter(job.index, links, at=starts[job.index], pattern=pattern, slot=placed.slot)
    engine.run(now)
    state.now = now
    return state


# ------------------------------------------------------------------ the best rotation of one job


@given(instances(max_jobs=4, max_links=2, fixed=False), st.data())
def test_best_rotation_adds_minimum_contention(instance: Instance, data: st.DataObject) -> None:
    moving = data.draw(st.integers(0, len(instance.jobs) - 1))
    offsets = [data.draw(st.integers(0, job.period - 1)) for job in instance.jobs]
    fixed = instance.replace(
        jobs=tuple(
            job if index == moving else job.model_copy(update={"fixed_offset": offset})
            for index, (job, offset) in enumerate(zip(instance.jobs, offsets, strict=True))
        )
    )
    offset, stated = group(fixed, [0.0] * len(offsets), 0.0).best_rotation(moving)

    def links(jobs: Instance, at: dict[str, int]) -> dict[str, Fraction]:
        return {link.name: link.contention for link in evaluate(jobs, at).links}

    others = tuple(job for index, job in enumerate(instance.jobs) if index != moving)
    stay = named(instance, offsets)
    name = instance.jobs[moving].name
    del stay[name]
    before = links(instance.replace(jobs=others), stay) if others else {}

    def cost(at: int) -> tuple[int, Fraction]:
        after = links(fixed, {**stay, name: at})
        added = [contention - before.get(link, 0) for link, contention in after.items()]
        return sum(more > 0 for more in added), sum(added, Fraction(0))

    assert stated == cost(offset) == min(map(cost, range(instance.jobs[moving].period)))


# ------------------------------------------------------------------ groups in a cluster


@pytest.mark.parametrize("start", [20.0, 20.3, 20.5, 20.7])
def test_unmoved_jobs_do_not_wait(start: float) -> None:
    """Off the grid of slots by less than one, b may be moved by no more than that."""
    given = scene(switch(2, 3), *(work(name, 0, 1) for name in "abc"))
    state = at(given, 130.0, {0: 0.0, 1: start})
    made = ContentionGroup.of_newcomer(state, 2)
    assert made is not None
    offsets = [job.fixed_offset or 0 for job in made.instance.jobs]
    starts = dict(zip(made.members, made.starts(offsets, turn=False), strict=True))
    assert starts[0] == pytest.approx(180, abs=1)
    assert starts[1] == pytest.approx(120 + start, abs=1)


DURATIONS = st.dictionaries(st.integers(0, 9), st.integers(1, 900), min_size=1, max_size=6)


def in_step(periods: dict[int, int]) -> bool:
    """Whether there is a base of which all are multiples or parts, and twelve of which are a round.

    Parts are an eighth at the least.
    """
    together = math.lcm(*periods.values())
    return any(
        all(
            period % base == 0 or (base % period == 0 and base <= 8 * period)
            for period in periods.values()
        )
        for base in (together // count for count in range(1, 13) if together % count == 0)
    )


@examples(300)
@given(DURATIONS, st.data())
def test_common_periods_fit_jobs_and_each_other(
    durations: dict[int, int], data: st.DataObject
) -> None:
    weights = {job: data.draw(st.sampled_from((1, 2, 4))) for job in durations}
    idle = data.draw(st.sampled_from((0.0, 0.1, 0.3)))
    periods = common_periods(durations, weights, most_idle=idle)
    assert periods.keys() <= durations.keys()
    for job, period in periods.items():
        assert durations[job] <= period <= durations[job] * (1 + idle)
    assert in_step(periods)


@examples(300)
@given(
    st.integers(1, 50),
    st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=3),
    DURATIONS,
    st.data(),
)
def test_fixed_periods_are_kept(
    base: int, parts: list[int], others: dict[int, int], data: st.DataObject
) -> None:
    """The periods are parts of twelve units, so they repeat together; others fit in with them."""
    fixed = {100 + index: 12 * base // part for index, part in enumerate(parts)}
    fixed[99] = 12 * base
    durations = {
        job: data.draw(st.integers(math.ceil(period / 1.1), period))
        for job, period in fixed.items()
    }
    durations |= others
    weights = dict.fromkeys(durations, 1)
    periods = common_periods(durations, weights, fixed=fixed)
    assert {job: periods.get(job) for job in fixed} == fixed
    assert math.lcm(*periods.values()) <= 12 * max(fixed.values())
    for job in periods.keys() - fixed.keys():
        assert durations[job] <= periods[job] <= durations[job] * 1.1


@examples(40)
@given(DRAWN, st.booleans(), st.integers(0, 50), st.data())
def test_common_rotation_keeps_contention(
    drawn: tuple[Instance, dict[str, int]], turn: bool, origin: int, data: st.DataObject
) -> None:
    """Jobs that are ready on the grid begin on the grid."""
    instance, offsets = drawn
    slot_ms = instance.slot_ms
    ready = [float(slot_ms * data.draw(st.integers(0, 50))) for _ in instance.jobs]
    made = group(instance, ready, float(origin * slot_ms))
    starts = made.starts(list(offsets.values()), turn=turn)
    begun = {
        job.name: round(start / slot_ms - origin) % job.period
        for job, start in zip(instance.jobs, starts, strict=True)
    }
    assert turn or begun == offsets
    turned, planned = evaluate(instance, begun), evaluate(instance, offsets)
    assert turned.contention == planned.contention
    assert turned.objectives["latency"] == planned.objectives["latency"]
    assert turned.elongation == planned.elongation
