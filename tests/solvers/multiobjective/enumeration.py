"""All schedules of small instances by the judge, and what is the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import Level, Result
from metronome_opt.verify import evaluate
from tests.builders import evaluation_of, job, network
from tests.strategies import crowded

AT_GIVEN_PERIODS = ("contention", "latency", "wait", "moves", "cushion")
NO_LIMIT = Fraction(10**6)
"""More slots than any cushion that has a limit."""

Objectives = Mapping[str, Fraction | None]

ORDERS = st.permutations(AT_GIVEN_PERIODS).flatmap(
    lambda names: st.integers(1, len(names)).map(lambda count: names[:count])
)
"""Some of the objectives, in any order."""


@st.composite
def roomy(draw: st.DrawFn, *, most_schedules: int) -> Instance:
    """Draw an instance with room for a cushion: two or three short bursts in a long period."""
    made = [
        job(
            f"job-{index}",
            draw(st.sampled_from((4, 6))),
            (0, draw(st.integers(1, 2)), 60),
            weight=draw(st.integers(0, 3)),
            fixed_offset=draw(st.none() | st.integers(0, 3)) if index else None,
        )
        for index in range(3 if most_schedules >= 6**3 else 2)
    ]
    return network(*made)


@st.composite
def contested(draw: st.DrawFn, *, most_schedules: int = 120) -> Instance:
    """Draw an instance whose jobs meet or have room, and want to start or stay somewhere."""
    drawn = draw(
        crowded(max_links=2, most_schedules=most_schedules) | roomy(most_schedules=most_schedules)
    )
    return drawn.replace(
        jobs=tuple(
            each.model_copy(
                update={
                    "ready": draw(st.integers(0, each.period)),
                    "current_offset": draw(st.none() | st.integers(0, each.period - 1)),
                }
            )
            for each in drawn.jobs
        )
    )


@st.composite
def stretchable(draw: st.DrawFn) -> Instance:
    """Draw an instance with few schedules, some of whose jobs may be stretched."""
    drawn = draw(contested(most_schedules=40))
    return drawn.replace(
        jobs=tuple(
            each.model_copy(update={"max_stretch": draw(st.integers(0, 2 if index < 2 else 0))})
            for index, each in enumerate(drawn.jobs)
        )
    )


def two_blocks() -> Instance:
    """Return two links that one job shares, each with a conflict of priority and lateness."""
    return network(
        job("a", 4, (0, 2, 51), weight=100),
        job("b", 4, (0, 2, 51), weight=100, links={"link": 1, "other": 1}),
        job("c", 4, (0, 2, 100), weight=30),
        job("d", 4, (0, 2, 60), weight=3, links={"other": 1}),
        job("e", 4, (0, 3, 80), weight=1, links={"other": 1}),
        other=100,
    )


def every(instance: Instance, cushion_slots: int = 0) -> list[Objectives]:
    """Return the objectives of every schedule, at every stretch that jobs are allowed."""
    names = [each.name for each in instance.jobs]
    found = []
    for slots in product(*(range(each.max_stretch + 1) for each in instance.jobs)):
        choices = [
            range(each.period + more) if each.fixed_offset is None else [each.fixed_offset]
            for each, more in zip(instance.jobs, slots, strict=True)
        ]
        stretch = dict(zip(names, slots, strict=True))
        found += [
            evaluate(instance, offsets, stretch, cushion_slots=cushion_slots).objectives
            for offsets in (dict(zip(names, row, strict=True)) for row in product(*choices))
        ]
    return found


def cost(name: str, value: Fraction | None) -> Fraction:
    """Return a value as a number of which less is better."""
    if name != "cushion":
        assert value is not None
        return value
    return -NO_LIMIT if value is None else -value


def costs(levels: Iterable[Level]) -> list[Fraction]:
    return [cost(level.name, level.value) for level in levels]


def final(result: Result, names: Iterable[str]) -> list[Fraction]:
    """Return the cost of each objective at the end, when all levels are done."""
    return [cost(name, evaluation_of(result).objectives[name]) for name in names]


def in_order(schedules: Iterable[Objectives], names: Sequence[str]) -> list[Fraction]:
    """Return the minimum of each objective with the earlier ones held, as costs."""
    return list(min(tuple(cost(name, each[name]) for name in names) for each in schedules))


def front(schedules: Iterable[Objectives], names: Sequence[str]) -> list[tuple[Fraction, ...]]:
    """Return the costs of the schedules of which none is as good as another in everything."""
    points = {tuple(cost(name, each[name]) for name in names) for each in schedules}
    return sorted(
        point
        for point in points
        if not any(
            other != point and all(a <= b for a, b in zip(other, point, strict=True))
            for other in points
        )
    )
