"""The cheapest stretches within a limit, against every choice there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective import periods
from metronome_opt.multiobjective.periods import choose_periods, price_of, stretched
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.strategies import instances

BURST = (0, 1, 10)


def choices(instance: Instance) -> Iterator[dict[str, int]]:
    """Yield every choice of stretches."""
    names = [each.name for each in instance.jobs]
    for slots in itertools.product(*(range(each.max_stretch + 1) for each in instance.jobs)):
        yield dict(zip(names, slots, strict=True))


def longest(instance: Instance, stretch: dict[str, int]) -> int:
    """Return the longest hyperperiod of a link."""
    return max(
        (
            math.lcm(*(j.period + stretch[j.name] for j in instance.jobs if link.name in j.links))
            for link in instance.links
        ),
        default=1,
    )


@given(
    instances(max_jobs=4, max_links=3, max_period=9, max_stretch=3, weights=(0, 1, 2)),
    st.integers(1, 100),
)
def test_chosen_periods_are_cheapest_within_limit(instance: Instance, limit: int) -> None:
    allowed = [each for each in choices(instance) if longest(instance, each) <= limit]
    if not allowed:
        with pytest.raises(InputError, match=r"^max_stretch: no stretches of the \d jobs around"):
            choose_periods(instance, limit=limit)
        return
    chosen = choose_periods(instance, limit=limit)
    assert chosen.proved
    assert chosen.stretch in allowed
    ranks = [(price_of(instance, each), sum(each.values())) for each in allowed]
    assert (chosen.price, sum(chosen.stretch.values())) == min(ranks)
    assert chosen.price == price_of(instance, chosen.stretch)


@given(instances(max_jobs=4, max_links=3, max_period=9, max_stretch=3, weights=(0, 1, 2)))
def test_truncated_choice_is_not_called_optimal(instance: Instance) -> None:
    limit = 60
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(periods, "_FEW_STEPS", 1)
        patch.setattr(periods, "_MAX_STEPS", 1)
        try:
            chosen = choose_periods(instance, limit=limit)
        except InputError:  # none was found, which proves nothing
            return
    assert longest(instance, dict(chosen.stretch)) <= limit
    best = choose_periods(instance, limit=limit)
    assert chosen.price >= best.price
    assert not chosen.proved or chosen.price == best.price


def test_stretched_keeps_fixed_offsets_and_counts_moves() -> None:
    instance = network(
        job("a", 10, BURST, max_stretch=3, fixed_offset=9),
        job("b", 10, BURST, max_stretch=3, current_offset=11, weight=5),
    )
    made = stretched(instance, {"a": 2, "b": 1})
    assert [(j.period, j.max_stretch, j.fixed_offset) for j in made.jobs] == [
        (12, 0, 9),
        (11, 1, None),
    ]
    assert Instance.from_dict(made.to_dict()) == made
    assert evaluate(made, {"a": 9, "b": 10}).objectives["moves"] == 5


@given(instances(max_jobs=3, max_period=6, max_stretch=3), st.data())
def test_stretched_instance_has_costs_of_stretch(instance: Instance, data: st.DataObject) -> None:
    stretch = {j.name: data.draw(st.integers(0, j.max_stretch)) for j in instance.jobs}
    made = stretched(instance, stretch)
    offsets = {
        j.name: data.draw(st.integers(0, j.period - 1))
        if j.fixed_offset is None
        else j.fixed_offset
        for j in made.jobs
    }
    judged = evaluate(instance, offsets, stretch).objectives
    same = evaluate(made, offsets).objectives
    for name in ("contention", "wait", "moves", "cushion"):
        assert same[name] == judged[name]
    assert price_of(instance, stretch) == judged["stretch"]
