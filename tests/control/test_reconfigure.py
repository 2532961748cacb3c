"""Reconfiguration: moves at a price, never worse than nothing, important jobs left alone."""

from __future__ import annotations

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.control import Claims, rephase_one, resolve
from metronome_opt.instance import Instance
from metronome_opt.objectives import normal
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.control.scenes import placed, running
from tests.tiers import examples

PRICES = st.sampled_from([Fraction(0), Fraction(1, 100), Fraction(1, 10), Fraction(1)])


def price_of(instance: Instance, offsets: tuple[int, ...], price: Fraction) -> Fraction:
    """Return the price by the judge and the definition."""
    named = dict(zip((job.name for job in instance.jobs), offsets, strict=True))
    total = evaluate(instance, named).contention / normal(instance, "contention")
    weights = sum(job.weight for job in instance.jobs)
    for each, offset in zip(instance.jobs, offsets, strict=True):
        wait = (offset - (each.current_offset or 0)) % each.period
        if wait:
            total += price * each.weight * (1 + Fraction(wait, each.period)) / weights
    return total


@given(running(), PRICES)
@examples(50, deadline=None)
def test_nothing_is_made_worse_and_prices_are_what_they_say(
    claims: Claims, price: Fraction
) -> None:
    here = tuple(claims.offsets.values())
    for way in (
        resolve(claims.running, price=price),
        rephase_one(claims.running, price=price),
    ):
        assert way.before == price_of(claims.running, here, price)
        assert way.after == price_of(claims.running, way.offsets, price)
        assert way.after <= way.before
        assert all(way.offsets[index] != here[index] for index in way.moved)


@given(running(max_jobs=3), PRICES)
@examples(50, deadline=None)
def test_no_single_move_is_better(claims: Claims, price: Fraction) -> None:
    instance, here = claims.running, tuple(claims.offsets.values())
    best = min(
        price_of(instance, (*here[:index], offset, *here[index + 1 :]), price)
        for index, each in enumerate(instance.jobs)
        for offset in range(each.period)
    )
    assert rephase_one(instance, price=price).after == best
    assert resolve(instance, price=price).after <= best


@given(running(max_jobs=3, max_links=1))
@examples(50, deadline=None)
def test_free_moves_on_one_link_reach_the_optimum(claims: Claims) -> None:
    instance = claims.running
    best = min(
        price_of(instance, offsets, Fraction(0))
        for offsets in itertools.product(*(range(each.period) for each in instance.jobs))
    )
    assert resolve(instance, price=Fraction(0)).after == best


@given(running(), st.data())
@examples(50, deadline=None)
def test_who_is_held_stays(claims: Claims, data: st.DataObject) -> None:
    held = data.draw(st.sets(st.sampled_from(sorted(claims.offsets))))
    names = list(claims.offsets)
    for way in (
        resolve(claims.running, price=Fraction(0), held=held),
        rephase_one(claims.running, price=Fraction(0), held=held),
        resolve(claims.running, price=Fraction(0), only=set(names) - held),
    ):
        assert held.isdisjoint(names[index] for index in way.moved)


@given(st.integers(2, 9), st.integers(1, 8))
def test_of_two_that_meet_the_less_important_one_moves(weight: int, late: int) -> None:
    """Even where it has to wait longer for the same: it goes all the way round."""
    instance = network(
        job("heavy", 40, (0, 10, 80), weight=weight, current_offset=late),
        job("light", 40, (0, 10, 80), current_offset=0),
    )
    for way in (rephase_one(instance), resolve(instance)):
        assert way.contention_after == 0
        assert [instance.jobs[index].name for index in way.moved] == ["light"]


def test_fixed_jobs_do_not_move() -> None:
    instance = placed(
        network(job("a", 40, (0, 10, 80), fixed_offset=0), job("b", 40, (0, 10, 80))),
        {"a": 0, "b": 5},
    )
    assert resolve(instance).offsets == (0, 10)
