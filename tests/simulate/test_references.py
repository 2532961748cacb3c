"""The two references agree with what was worked out by hand, and with each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from tests.simulate.cases import CASES, Case
from tests.simulate.exact import exact_ends
from tests.simulate.stepwise import stepwise_ends
from tests.simulate.systems import latest, system
from tests.strategies import assigned, crowded
from tests.tiers import examples

SHARINGS = ("fair", "strict", "weighted")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_stepwise_simulation_comes_close(case: Case) -> None:
    described = system(case.instance, case.offsets, case.iterations, case.sharing)
    ends = stepwise_ends(described, 0.25)
    late = 0.25 * latest(described)
    for name, times in case.ends.items():
        assert ends[name] == pytest.approx([float(time) for time in times], abs=late)


@examples(40)
@given(assigned(crowded(fixed=False, max_jobs=3)), st.sampled_from(SHARINGS))
def test_the_stepwise_simulation_converges_to_the_exact_one(
    drawn: tuple[Instance, dict[str, int]], sharing: str
) -> None:
    described = system(*drawn, 2, sharing)
    exact = {name: [float(time) for time in times] for name, times in exact_ends(described).items()}
    # A gap between heavier bursts that is shorter than a step is missed: then smaller ones tell.
    assert any(
        stepwise_ends(described, step)
        == {
            name: pytest.approx(times, abs=2 * step * latest(described))
            for name, times in exact.items()
        }
        for step in (1.0, 0.25, 0.05, 0.01)
    )
