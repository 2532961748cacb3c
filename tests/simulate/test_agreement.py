"""On random systems the simulator agrees with two others that share nothing with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from tests.simulate.played import free_run
from tests.simulate.stepwise import stepwise_ends
from tests.simulate.systems import latest, system
from tests.strategies import assigned, crowded
from tests.tiers import examples

SHARINGS = st.sampled_from(("fair", "strict", "weighted"))
DRAWN = assigned(crowded(fixed=False))


@examples(30)
@given(DRAWN, SHARINGS)
def test_ends_are_those_of_fixed_steps_but_for_the_steps(
    drawn: tuple[Instance, dict[str, int]], sharing: str
) -> None:
    described = system(*drawn, 3, sharing)
    ends = free_run(*drawn, 3, sharing).ends
    # A gap between heavier bursts that is shorter than a step is missed: then smaller ones tell.
    assert any(
        ends
        == pytest.approx(
            {name: times[-1] for name, times in stepwise_ends(described, step).items()},
            abs=2 * step * latest(described),
        )
        for step in (0.5, 0.1, 0.02)
    )
