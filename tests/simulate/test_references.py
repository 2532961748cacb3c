"""The two references agree with what was worked out by hand, and with each other."""

from __future__ import annotations

import pytest

from tests.simulate.cases import CASES, Case
from tests.simulate.exact import exact_ends
from tests.simulate.systems import system


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_exact_simulation_comes_to_what_was_worked_out(case: Case) -> None:
    ends = exact_ends(system(case.instance, case.offsets, case.iterations, case.sharing))
    assert ends == {name: list(times) for name, times in case.ends.items()}
