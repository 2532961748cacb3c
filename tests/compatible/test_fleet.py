"""Fleets of equal jobs, against enumeration of their offsets."""

from __future__ import annotations

from itertools import combinations_with_replacement
from random import Random

import pytest

from metronome_opt.compatible.fleet import find_fleet
from metronome_opt.errors import InputError
from metronome_opt.instance import Job, Pattern, Phase
from tests.builders import job


def demand(period: int, phases: tuple[Phase, ...], offsets: tuple[int, ...]) -> int:
    """Return the largest demand in a slot."""
    slots = [0] * period
    for offset in offsets:
        for phase in phases:
            for slot in range(phase.start, phase.end):
                slots[(slot + offset) % period] += phase.rate
    return max(slots, default=0)


def largest(period: int, phases: tuple[Phase, ...], capacity: int) -> int:
    """Return the largest number of jobs of which some offsets fit."""
    count = 0
    while any(
        demand(period, phases, offsets) <= capacity
        for offsets in combinations_with_replacement(range(period), count + 1)
        if offsets[0] == 0
    ):
        count += 1
    return count


def drawn(draw: Random, period: int) -> tuple[Phase, ...]:
    middle = period // 2
    first = Phase(start=0, length=draw.randint(1, middle - 1), rate=draw.choice((40, 60, 100)))
    if draw.random() < 0.4:
        return (first,)
    rate = draw.choice((40, 60, 100))
    return (first, Phase(start=middle, length=draw.randint(1, period - middle), rate=rate))


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.slow) if n == 11 else n for n in range(40)]
)
def test_fleets_are_as_large_as_any(seed: int) -> None:
    draw = Random(seed)
    period, other = draw.sample((4, 5, 6, 7, 8), 2)
    capacity = draw.choice((30, 60, 100, 140))
    one = Job(
        name="one",
        period=period,
        phases=drawn(draw, period),
        links={},
        options=(Pattern(period=other, phases=drawn(draw, other)),),
    )
    fleets = find_fleet(one, capacity)
    assert [fleet.pattern for fleet in fleets] == [None, 0]
    for fleet, (_, each) in zip(fleets, one.variants, strict=True):
        assert len(fleet.offsets) == fleet.bound == largest(each.period, each.phases, capacity)
        assert demand(each.period, each.phases, fleet.offsets) <= capacity


def test_fleets_of_accumulated_gradients() -> None:
    # 40 ms of computing and 60 of sending: one and two and three batches have periods of 100, 140
    # and 180 ms, of which 1, 2 and 3 bursts of 60 take at most all. A cushion leaves no room.
    options = tuple(
        Pattern(period=20 + 8 * more, phases=(Phase(start=8, length=12, rate=100),))
        for more in (1, 2)
    )
    one = job("one", 20, (8, 12, 100), options=options)
    assert [fleet.offsets for fleet in find_fleet(one, 100)] == [(0,), (0, 12), (0, 12, 24)]
    with_cushion = find_fleet(one, 100, cushion_slots=1)
    assert [len(fleet.offsets) for fleet in with_cushion] == [1, 2, 2]
    assert [len(fleet.offsets) for fleet in find_fleet(one, 250)] == [3, 4, 6]
    assert [len(fleet.offsets) for fleet in find_fleet(one, 399, flows=4)] == [0, 0, 0]


@pytest.mark.parametrize("changes", [{"capacity": 0}, {"flows": -1}, {"cushion_slots": 0.5}])
def test_what_is_no_number_of_a_fleet(changes: dict[str, int]) -> None:
    (name,) = changes
    with pytest.raises(InputError, match=f"{name}: must be an integer from . on"):
        find_fleet(job("one", 20, (0, 1, 1)), **{"capacity": 100, **changes})
