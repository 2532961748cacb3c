"""From jobs that share links to an instance, and from its offsets to when they begin."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.simulate.policies.rotation import (
    Crowd,
    best_rotation,
    crowd_of,
    newcomer,
)
from metronome_opt.simulate.runner import Manner, Slot
from metronome_opt.verify import evaluate
from tests.simulate.moments import at
from tests.simulate.scenes import scene, switch, work
from tests.strategies import assigned, crowded, instances

DRAWN = assigned(crowded(fixed=False))


def named(instance: Instance, offsets: Sequence[int]) -> dict[str, int]:
    return {job.name: offset for job, offset in zip(instance.jobs, offsets, strict=True)}


def crowd(instance: Instance, ready: Sequence[float], origin: float) -> Crowd:
    """Return a crowd of all jobs of an instance, members in the order of its jobs."""
    return Crowd(instance, tuple(range(len(instance.jobs))), tuple(ready), origin)


# ------------------------------------------------------------------ beginnings


@given(DRAWN, st.data())
def test_turning_makes_important_jobs_wait_less(
    drawn: tuple[Instance, dict[str, int]], data: st.DataObject
) -> None:
    instance, offsets = drawn
    ready = [float(data.draw(st.integers(0, 400))) for _ in instance.jobs]
    made = crowd(instance, ready, 0.0)

    def price(turn: bool) -> float:
        starts = made.starts(list(offsets.values()), turn=turn)
        return sum(
            job.weight * (start - earliest)
            for job, start, earliest in zip(instance.jobs, starts, ready, strict=True)
        )

    assert price(turn=True) <= price(turn=False) + 1e-6


# ------------------------------------------------------------------ the best rotation of one job


@given(instances(max_jobs=4, max_links=2, fixed=False), st.data())
def test_the_best_rotation_adds_what_the_judge_says(
    instance: Instance, data: st.DataObject
) -> None:
    moving = data.draw(st.integers(0, len(instance.jobs) - 1))
    offsets = [data.draw(st.integers(0, job.period - 1)) for job in instance.jobs]
    fixed = instance.replace(
        jobs=tuple(
            job if index == moving else job.model_copy(update={"fixed_offset": offset})
            for index, (job, offset) in enumerate(zip(instance.jobs, offsets, strict=True))
        )
    )
    offset, stated = best_rotation(crowd(fixed, [0.0] * len(offsets), 0.0), moving)

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


# ------------------------------------------------------------------ the crowd in a cluster


def test_who_meets_nobody_is_in_no_crowd() -> None:
    given = scene(switch(4, 2), work("a", 0, 1), work("b", 2, 3), work("c", 0, 1))
    state = at(given, 0.0, {})
    made = crowd_of(state, [0, 1, 2])
    assert made is not None
    assert made.members == (0, 2)
    assert [link.name for link in made.instance.links] == ["node-00", "node-01"]
    assert crowd_of(state, [0, 1]) is None
    assert newcomer(state, 1) is None


def test_a_newcomer_finds_the_gap_between_the_others() -> None:
    """At 130 a is to begin at 180 and b at 140: of every 60 ms, 20 to 40 are free for c's burst.

    It computes for 40 ms before, so it begins at 40, the next of which is 160.
    """
    given = scene(switch(2, 3), *(work(name, 0, 1) for name in "abc"))
    made = newcomer(at(given, 130.0, {0: 0.0, 1: 20.0}), 2)
    assert made is not None
    offset, cost = best_rotation(made, 2)
    assert cost == (0, Fraction(0))
    offsets = [
        offset if i == 2 else job.fixed_offset or 0
        for i, job in zip(made.members, made.instance.jobs, strict=True)
    ]
    starts = dict(zip(made.members, made.starts(offsets, turn=False), strict=True))
    assert starts == {0: pytest.approx(180), 1: pytest.approx(140), 2: pytest.approx(160)}


@pytest.mark.parametrize("start", [20.0, 20.3, 20.5, 20.7])
def test_who_stays_does_not_wait_whatever_the_grid(start: float) -> None:
    """Off the grid of slots by less than one, b may be moved by no more than that."""
    given = scene(switch(2, 3), *(work(name, 0, 1) for name in "abc"))
    state = at(given, 130.0, {0: 0.0, 1: start})
    made = newcomer(state, 2)
    assert made is not None
    offsets = [job.fixed_offset or 0 for job in made.instance.jobs]
    starts = dict(zip(made.members, made.starts(offsets, turn=False), strict=True))
    assert starts[0] == pytest.approx(180, abs=1)
    assert starts[1] == pytest.approx(120 + start, abs=1)


@pytest.mark.parametrize("now", [10.0, 115.0])
def test_who_stays_in_a_slot_is_where_the_slot_is(now: float) -> None:
    """a takes 110 and keeps slots of 120: its next begins at 120, not when it could, at 110."""
    given = scene(switch(2, 2), work("a", 0, 1, batch=9), work("b", 0, 1, batch=10))
    slot = Slot(120.0, manner=Manner.SLIDE)
    state = at(given, now, {0: 0.0}, {0: slot})
    made = newcomer(state, 1)
    assert made is not None
    held = made.instance.jobs[made.members.index(0)]
    assert held.period == 120
    assert held.fixed_offset is not None
    assert (made.origin_ms + held.fixed_offset) % 120 == pytest.approx(0)
