"""What is wanted, against a list of all that was found."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.multiobjective.wanted import Archive, Bounded, Cheapest

MOST = 5
Point = tuple[int, ...]


def covers(one: Point, other: Point) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def wanted(found: Sequence[Point], most: Point) -> list[Point]:
    """Return everything that is within the limits and that nothing found is as good as."""
    return [
        point
        for point in product(*(range(limit + 1) for limit in most))
        if not any(covers(each, point) for each in found)
    ]


@st.composite
def searches(draw: st.DrawFn) -> tuple[Point, list[Point]]:
    """Draw limits of two or three costs, and what is found one after the other."""
    costs = draw(st.integers(2, 3))
    most = draw(st.tuples(*[st.integers(0, MOST)] * costs))
    found = draw(st.lists(st.tuples(*[st.integers(0, MOST + 1)] * costs), max_size=8))
    return most, found


def filled(most: Point, found: Sequence[Point]) -> Archive:
    archive = Archive(most)
    for number, point in enumerate(found):
        archive.offer(point, (number,))
    return archive


@given(searches())
@settings(max_examples=150)
def test_an_archive_keeps_what_nothing_else_is_as_good_as(drawn: tuple[Point, list[Point]]) -> None:
    most, found = drawn
    within = [point for point in found if covers(point, most)]
    archive = filled(most, found)
    assert [point for point, _ in archive.points] == sorted(
        {
            point
            for point in within
            if not any(other != point and covers(other, point) for other in within)
        }
    )
    # Each with the schedule that first came to it.
    assert [number for _, (number,) in archive.points] == [
        found.index(point) for point, _ in archive.points
    ]


@given(searches())
@settings(max_examples=100)
def test_promising_is_what_is_still_wanted(drawn: tuple[Point, list[Point]]) -> None:
    most, found = drawn
    archive = filled(most, found)
    everything = list(product(range(MOST + 2), repeat=len(most)))
    mask = archive.promising(np.array(everything, dtype=np.int64))
    within = [point for point in found if covers(point, most)]
    kept = [point for point, promising in zip(everything, mask, strict=True) if promising]
    assert kept == wanted(within, most)


@given(searches(), st.data())
@settings(max_examples=150)
def test_limits_leave_out_nothing_that_is_wanted(
    drawn: tuple[Point, list[Point]], data: st.DataObject
) -> None:
    most, found = drawn
    archive = filled(most, found)
    low = data.draw(st.tuples(*[st.integers(0, MOST)] * len(most)))
    above = [point for point in wanted([p for p, _ in archive.points], most) if covers(low, point)]
    limits = archive.limits(low)
    if not above:
        assert limits is None
    else:
        # No tighter box holds all that is wanted: the largest of each cost is among it.
        assert limits == [max(column) for column in zip(*above, strict=True)]


@given(searches(), st.data())
@settings(max_examples=150)
def test_sums_leave_out_nothing_that_is_wanted(
    drawn: tuple[Point, list[Point]], data: st.DataObject
) -> None:
    most, found = drawn
    archive = filled(most, found)
    costs = len(most)
    sums = data.draw(st.lists(st.tuples(*[st.integers(0, 7)] * costs), min_size=1, max_size=2))
    per_unit = [data.draw(st.fractions(Fraction(1, 3), 3, max_denominator=3)) for _ in sums]
    low = data.draw(st.tuples(*[st.integers(0, MOST)] * costs))
    bounded = Bounded(archive, sums, per_unit)

    def units(point: Point) -> list[int]:
        """Return the costs and the sums, these rounded down as far as they are worth."""
        totals = [sum(a * b for a, b in zip(prices, point, strict=True)) for prices in sums]
        return [*point, *(int(total / unit) for total, unit in zip(totals, per_unit, strict=True))]

    everything = wanted([point for point, _ in archive.points], most)
    above = [point for point in everything if covers(low, point)]
    limits = bounded.limits(units(low))
    if above:
        assert limits is not None
        for point in above:
            assert covers(tuple(units(point)), tuple(limits))
    if limits is None:
        assert not above
    if everything:
        rows = np.array([units(point) for point in everything], dtype=np.int64)
        assert bounded.promising(rows).all()


def test_sums_rule_out_what_single_limits_allow() -> None:
    archive = filled((10, 10), [(0, 10), (4, 4), (10, 0)])
    bounded = Bounded(archive, [(1, 1)], [Fraction(1)])
    # Between its neighbours a point costs at most 3 + 9 or 9 + 3.
    assert list(bounded.limits((1, 1, 2)) or ()) == [9, 9, 12]
    rows = np.array([(3, 9, 12), (3, 9, 13), (4, 4, 8), (9, 3, 12)])
    assert list(bounded.promising(rows)) == [True, False, False, True]
    assert list(bounded.limits((1, 5, 6)) or ()) == [3, 9, 12]
    assert bounded.limits((4, 4, 8)) is None
    bounded.offer((1, 1, 2), (7,))
    assert ((1, 1), (7,)) in archive.points
    assert bounded.limits((1, 1, 2)) is None


def test_the_cheapest_must_become_cheaper_and_keep_the_limits() -> None:
    cheapest = Cheapest([5, 3])
    cheapest.offer((4, 4), (0,))
    assert cheapest.offsets is None
    cheapest.offer((4, 3), (1,))
    cheapest.offer((4, 0), (2,))  # no cheaper
    assert cheapest.value == 4
    assert cheapest.offsets == (1,)
    assert cheapest.limits((0, 0)) == [3, 3]
    assert cheapest.limits((4, 0)) is None
    assert list(cheapest.promising(np.array([(3, 3), (4, 0), (0, 4)]))) == [True, False, False]
    cheapest.offer((1, 3), (3,))
    assert cheapest.offsets == (3,)
