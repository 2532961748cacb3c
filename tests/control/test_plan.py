"""Plans: they lead where they say, and no order is safer."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.control import Claims, make_plan
from metronome_opt.errors import InputError
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.control.scenes import running, three_apart
from tests.tiers import examples


def worst(claims: Claims, order: tuple[str, ...], target: dict[str, int]) -> Fraction:
    """Return the largest contention on the way, by the judge."""
    offsets = dict(claims.offsets)
    levels = [evaluate(claims.reserved, offsets).contention]
    for name in order:
        offsets[name] = target[name]
        levels.append(evaluate(claims.reserved, offsets).contention)
    return max(levels)


@st.composite
def moves(draw: st.DrawFn) -> tuple[Claims, dict[str, int]]:
    claims = draw(running())
    target = {name: draw(st.integers(0, claims.period(name) - 1)) for name in claims.offsets}
    return claims, target


@given(moves())
def test_a_plan_leads_to_exactly_the_offsets_asked_for(case: tuple[Claims, dict[str, int]]) -> None:
    claims, target = case
    plan = make_plan(claims, target)
    assert plan.claims().offsets == target
    for step in plan.steps:
        assert 0 < step.wait < claims.period(step.job)
        assert step.before == claims.offsets[step.job]
        assert (step.before + step.wait) % claims.period(step.job) == step.after
    assert len(plan.steps) == sum(target[name] != at for name, at in claims.offsets.items())


@given(moves())
@examples(60, deadline=None)
def test_no_order_is_safer(case: tuple[Claims, dict[str, int]]) -> None:
    claims, target = case
    plan = make_plan(claims, target)
    order = tuple(step.job for step in plan.steps)
    assert plan.exact
    assert plan.worst == worst(claims, order, target)
    for other in itertools.permutations(order):
        assert plan.worst <= worst(claims, other, target)


def test_many_moves_are_put_in_order_step_by_step() -> None:
    jobs = [job(f"j{i}", 40, (0, 3, 80), current_offset=3 * i) for i in range(12)]
    claims = Claims(network(*jobs))
    plan = make_plan(claims, {f"j{i}": 3 * i + 4 for i in range(12)})
    assert not plan.exact
    assert plan.worst == worst(
        claims, tuple(step.job for step in plan.steps), {f"j{i}": 3 * i + 4 for i in range(12)}
    )
    assert plan.worst == 0  # the last one goes first, and so on


@pytest.mark.parametrize(
    ("offsets", "told"),
    [({"z": 0}, "'z': there is no such job"), ({"a": 40}, "'a': must be from 0 to below 40")],
)
def test_offsets_that_cannot_be_are_refused(offsets: dict[str, int], told: str) -> None:
    with pytest.raises(InputError, match=told):
        make_plan(three_apart(), offsets)
