"""Rows of several costs, against loops over single rows."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.solvers.kernels.compiled_instance import Ints
from metronome_opt.solvers.multiobjective.relations import Relation, TooManyRowsError
from tests.tiers import examples

SIZES = (2, 3, 1, 4)  # offsets of four jobs
LARGE = 2**61
UNLIMITED = 10**6

Place = tuple[tuple[int, int], ...]
Row = tuple[dict[int, int], tuple[int, ...], dict[int, int]]  # places, costs, places of jobs gone


def rows(relation: Relation) -> list[Row]:
    """Return the rows as plain values."""
    return [
        (
            dict(zip(relation.scope, map(int, places), strict=True)),
            tuple(map(int, costs)),
            dict(zip(relation.gone, map(int, chosen), strict=True)),
        )
        for places, costs, chosen in zip(
            relation.places, relation.costs, relation.chosen, strict=True
        )
    ]


def in_any_order(found: list[Row]) -> list[str]:
    return sorted(repr((sorted(a.items()), costs, sorted(b.items()))) for a, costs, b in found)


def table(values: list[tuple[int, ...]], columns: int) -> Ints:
    return np.array(values, dtype=np.int64).reshape(len(values), columns)


@st.composite
def relations(draw: st.DrawFn, criteria: int, gone: int = 9, least_jobs: int = 0) -> Relation:
    """Draw rows, the same places several times among them; `gone` is eliminated already."""
    jobs = sorted(draw(st.sets(st.sampled_from(range(4)), min_size=least_jobs)))
    spots = st.tuples(*(st.integers(0, SIZES[job] - 1) for job in jobs))
    # Near ties and values far apart: keys made of both would not fit 64 bits.
    value = st.integers(0, 3) | st.integers(LARGE - 2, LARGE) | st.integers(0, LARGE)
    priced = st.tuples(spots, st.tuples(*[value] * criteria), st.integers(0, 5))
    drawn = draw(st.lists(priced, max_size=12))
    return Relation(
        SIZES,
        tuple(jobs),
        table([spot for spot, _, _ in drawn], len(jobs)),
        table([costs for _, costs, _ in drawn], criteria),
        (gone,),
        table([(chosen,) for _, _, chosen in drawn], 1),
    )


def undominated(found: list[Row], criteria: int) -> dict[Place, set[tuple[int, ...]]]:
    """Return per place the first costs of the rows that no other of that place is as good as."""
    by_place = defaultdict(set)
    for places, costs, _ in found:
        by_place[tuple(sorted(places.items()))].add(costs[:criteria])
    return {
        place: {
            mine
            for mine in group
            if not any(
                other != mine and all(a <= b for a, b in zip(other, mine, strict=True))
                for other in group
            )
        }
        for place, group in by_place.items()
    }


@given(relations(2, gone=8), relations(2, gone=9))
@examples(150)
def test_join_adds_costs_of_agreeing_rows(one: Relation, other: Relation) -> None:
    expected = [
        (
            {**mine, **its},
            tuple(a + b for a, b in zip(price, its_price, strict=True)),
            {**chosen, **its_chosen},
        )
        for (mine, price, chosen), (its, its_price, its_chosen) in product(rows(one), rows(other))
        if all(mine[job] == its[job] for job in mine.keys() & its.keys())
    ]
    found = one.join(other, UNLIMITED)
    assert set(found.scope) == {*one.scope, *other.scope}
    assert in_any_order(rows(found)) == in_any_order(expected)
    if expected:
        with pytest.raises(TooManyRowsError):
            one.join(other, len(expected) - 1)
    assert len(one.join(other, len(expected))) == len(expected)


@given(relations(2), relations(3))
@examples(150)
def test_min_beside_is_minimum_of_each_cost(wider: Relation, other: Relation) -> None:
    minimum, known = wider.min_beside(other)
    for row, (places, _, _) in enumerate(rows(wider)):
        beside = [
            costs
            for its, costs, _ in rows(other)
            if all(places[job] == its[job] for job in places.keys() & its.keys())
        ]
        assert known[row] == bool(beside)
        if beside:
            assert list(minimum[row]) == [min(column) for column in zip(*beside, strict=True)]


@given(st.integers(1, 3).flatmap(lambda count: st.tuples(st.just(count), relations(count + 1))))
@examples(200)
def test_nondominated_rows_are_kept(drawn: tuple[int, Relation]) -> None:
    criteria, relation = drawn
    found = relation.nondominated(criteria)
    kept = rows(found)
    assert undominated(rows(relation), criteria) == undominated(kept, criteria)
    # Of rows that are as good in what counts one is enough.
    counted = [(sorted(places.items()), costs[:criteria]) for places, costs, _ in kept]
    assert len(counted) == len(set(map(repr, counted)))
    assert len(counted) == sum(map(len, undominated(kept, criteria).values()))
    before = rows(relation)
    assert all(row in before for row in kept)


@given(
    st.integers(2, 3).flatmap(lambda count: relations(count, least_jobs=1)),
    st.data(),
)
@examples(150)
def test_elimination_keeps_places_of_job(relation: Relation, data: st.DataObject) -> None:
    job = data.draw(st.sampled_from(relation.scope))
    criteria = relation.costs.shape[1]
    moved: list[Row] = [
        (
            {other: place for other, place in places.items() if other != job},
            costs,
            {**chosen, job: places[job]},
        )
        for places, costs, chosen in rows(relation)
    ]
    found = relation.without(job, criteria)
    assert found.scope == tuple(other for other in relation.scope if other != job)
    assert undominated(rows(found), criteria) == undominated(moved, criteria)
    assert all(row in moved for row in rows(found))
