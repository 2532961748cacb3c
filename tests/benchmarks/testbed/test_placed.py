"""Cases of chosen places: the ways there are, and what is stored."""

from __future__ import annotations

from itertools import combinations

import pytest

from benchmarks.testbed.cases import Case, read_cases
from benchmarks.testbed.placed import FILE, WAYS
from metronome_opt.compatible import decide

STORED = read_cases(FILE)


def test_jobs_meet_in_six_different_ways() -> None:
    """Two by two there are three ways to be paired, and three rings of four."""
    meetings = {
        frozenset(
            (one, other, len({*way[one]} & {*way[other]}))
            for one, other in combinations("abcd", 2)
            if {*way[one]} & {*way[other]}
        )
        for way in WAYS
    }
    assert len(meetings) == len(WAYS) == 6


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.name)
def test_chosen_places_fit_and_spread_ones_do_not(case: Case) -> None:
    assert (decide(case.instance()).offsets is not None) is case.name.endswith("chosen")


def test_places_are_all_that_differs() -> None:
    for spread, chosen in zip(STORED[::2], STORED[1::2], strict=True):
        assert [job.bursts for job in spread.jobs] == [job.bursts for job in chosen.jobs]
        assert [job.period for job in spread.jobs] == [job.period for job in chosen.jobs]
