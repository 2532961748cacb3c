"""What `auto` proves is true with each of its parts taken away."""

from __future__ import annotations

import pytest
from hypothesis import given

from benchmarks.parts import ALL
from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.verify import verify_schedule
from tests.landscape import optimum
from tests.strategies import crowded, tight
from tests.tiers import examples


@pytest.mark.parametrize("part", ALL)
@given(crowded())
@examples(10)
def test_without_a_part_the_bound_is_below_the_optimum(part: str, instance: Instance) -> None:
    result = solve(instance, ALL[part], threads=1, time_limit=1)
    best = optimum(instance)
    assert result.bound is None or result.bound <= best
    assert result.value is not None
    assert best <= result.value
    assert verify_schedule(instance, result.schedule) == ()


@pytest.mark.parametrize("part", ALL)
def test_without_a_part_the_rest_still_proves(part: str) -> None:
    instance = tight(0)
    result = solve(instance, ALL[part], threads=1)
    assert result.value == result.bound == optimum(instance)
