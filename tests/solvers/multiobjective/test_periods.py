"""Choices of stretches, and instances at stretched periods."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.multiobjective import stretching
from metronome_opt.solvers.multiobjective.stretching import list_choices, stretch_cost
from metronome_opt.solvers.presolve.extend import stretched
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.strategies import instances

BURST = (0, 1, 10)


@given(instances(max_jobs=4, max_links=3, max_period=9, max_stretch=3), st.sampled_from((1, 5000)))
def test_listed_stretches_keep_hyperperiods_within_limit(instance: Instance, few: int) -> None:
    try:
        short = Instance.from_dict(instance.to_dict(), hyperperiod_limit=30)
    except InputError:  # hyperperiods are too long at all stretches
        return
    every = []
    for slots in itertools.product(*(range(each.max_stretch + 1) for each in short.jobs)):
        stretch = dict(zip((each.name for each in short.jobs), slots, strict=True))
        periods_of = [each.period + stretch[each.name] for each in short.jobs]
        used = ([periods_of[index] for index in users] for users in short.jobs_on.values())
        if all(math.lcm(*each) <= 30 for each in used):
            every.append(stretch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretching, "_MAX_CHOICES", few)
        try:
            listed, complete = list_choices(short)
        except InputError:
            listed, complete = [], few > 1
    assert len({tuple(each.values()) for each in listed}) == len(listed)
    assert all(each in every for each in listed)
    assert len(listed) == len(every) or not complete


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
    assert stretch_cost(instance, stretch) == judged["stretch"]
