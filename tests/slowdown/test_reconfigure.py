"""Reconfiguration: moves at a price, never worse than no move, important jobs stay."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.objectives import normal
from metronome_opt.slowdown.reconfigure import resolve
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.strategies import instances
from tests.tiers import examples


def placed(instance: Instance, offsets: Mapping[str, int]) -> Instance:
    """Return an instance whose jobs run at some offsets."""
    jobs = tuple(
        job.model_copy(update={"current_offset": offsets[job.name]}) for job in instance.jobs
    )
    return instance.replace(jobs=jobs)


@st.composite
def running(draw: st.DrawFn, *, max_jobs: int = 4, max_links: int = 2) -> Instance:
    """Draw a small instance whose jobs run at some offsets."""
    instance = draw(instances(max_jobs=max_jobs, max_links=max_links, fixed=False))
    return placed(
        instance, {job.name: draw(st.integers(0, job.period - 1)) for job in instance.jobs}
    )


def current(instance: Instance) -> tuple[int, ...]:
    return tuple(job.current_offset or 0 for job in instance.jobs)


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
def test_moves_improve_and_prices_match_definition(instance: Instance, price: Fraction) -> None:
    here = current(instance)
    result = resolve(instance, price=price)
    assert result.before == price_of(instance, here, price)
    assert result.after == price_of(instance, result.offsets, price)
    assert result.after <= result.before
    assert all(result.offsets[index] != here[index] for index in result.moved)


@given(running(max_jobs=3), PRICES)
@examples(50, deadline=None)
def test_no_single_move_is_better(instance: Instance, price: Fraction) -> None:
    here = current(instance)
    best = min(
        price_of(instance, (*here[:index], offset, *here[index + 1 :]), price)
        for index, each in enumerate(instance.jobs)
        for offset in range(each.period)
    )
    assert resolve(instance, price=price).after <= best


@given(running(max_jobs=3, max_links=1))
@examples(50, deadline=None)
def test_free_moves_on_one_link_reach_optimum(instance: Instance) -> None:
    best = min(
        price_of(instance, offsets, Fraction(0))
        for offsets in itertools.product(*(range(each.period) for each in instance.jobs))
    )
    assert resolve(instance, price=Fraction(0)).after == best


@given(running(), st.data())
@examples(50, deadline=None)
def test_held_jobs_stay(instance: Instance, data: st.DataObject) -> None:
    names = [each.name for each in instance.jobs]
    held = data.draw(st.sets(st.sampled_from(names)))
    result = resolve(instance, price=Fraction(0), held=held)
    assert held.isdisjoint(names[index] for index in result.moved)


@given(st.integers(2, 9), st.integers(1, 8))
def test_job_of_lower_weight_moves(weight: int, late: int) -> None:
    """Even where it has to wait longer for the same: it goes all the way round."""
    instance = network(
        job("heavy", 40, (0, 10, 80), weight=weight, current_offset=late),
        job("light", 40, (0, 10, 80), current_offset=0),
    )
    result = resolve(instance)
    assert result.contention_after == 0
    assert [instance.jobs[index].name for index in result.moved] == ["light"]


def test_fixed_jobs_do_not_move() -> None:
    instance = placed(
        network(job("a", 40, (0, 10, 80), fixed_offset=0), job("b", 40, (0, 10, 80))),
        {"a": 0, "b": 5},
    )
    assert resolve(instance).offsets == (0, 10)
