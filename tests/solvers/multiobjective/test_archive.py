"""The archive of a search for a front, against a list of all points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.solvers.multiobjective.nondominated import Archive
from tests.tiers import examples

MAX = 5
Point = tuple[int, int]


def covers(one: Point, other: Point) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def accepted(found: Sequence[Point], limits: Point) -> list[Point]:
    """Return everything that is within the limits and that nothing found is as good as."""
    first, second = limits
    return [
        point
        for point in product(range(first + 1), range(second + 1))
        if not any(covers(each, point) for each in found)
    ]


@st.composite
def archives(draw: st.DrawFn) -> tuple[Archive, list[Point]]:
    """Draw an archive, and what it was offered one after the other."""
    limits = draw(st.tuples(st.integers(0, MAX), st.integers(0, MAX)))
    found = draw(st.lists(st.tuples(st.integers(0, MAX + 1), st.integers(0, MAX + 1)), max_size=8))
    archive = Archive(limits)
    for number, point in enumerate(found):
        archive.add(point, (number,))
    return archive, [point for point in found if covers(point, limits)]


@given(archives())
@examples(100)
def test_archive_keeps_nondominated_points(drawn: tuple[Archive, list[Point]]) -> None:
    archive, within = drawn
    best = {p for p in within if not any(other != p and covers(other, p) for other in within)}
    assert [point for point, _ in archive.points] == sorted(best)
    everything = list(product(range(MAX + 2), repeat=2))
    mask = archive.promising(np.array(everything, dtype=np.int64))
    kept = [point for point, promising in zip(everything, mask, strict=True) if promising]
    assert kept == accepted(within, archive.max)


@given(archives(), st.data())
@examples(100)
def test_corners_cover_what_is_accepted(
    drawn: tuple[Archive, list[Point]], data: st.DataObject
) -> None:
    archive, found = drawn
    low, high = (
        data.draw(st.tuples(st.integers(0, MAX + 1), st.integers(0, MAX + 1))) for _ in range(2)
    )
    inside = [p for p in accepted(found, archive.max) if covers(low, p) and covers(p, high)]
    corners = [p for p in inside if not any(q != p and covers(p, q) for q in inside)]
    assert archive.corners(low, high) == sorted(corners)
