"""Cases of chosen places: the ways there are, and what is stored."""

from __future__ import annotations

import pytest

from benchmarks.testbed.cases import Case, read_cases
from benchmarks.testbed.placed import FILE
from metronome_opt.compatible import decide

STORED = read_cases(FILE)


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.name)
def test_chosen_places_fit_and_spread_ones_do_not(case: Case) -> None:
    assert (decide(case.instance()).offsets is not None) is case.name.endswith("chosen")
