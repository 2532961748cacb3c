"""Stored records of the network, and the error of the simulator."""

from __future__ import annotations

import pytest

from benchmarks.testbed.__main__ import RECORDS
from benchmarks.testbed.agreement import come_apart, compare
from benchmarks.testbed.cases import STORED, Case, read_cases
from benchmarks.testbed.run import BedRun
from metronome_opt.files.journal import read_journal


@pytest.fixture(scope="module")
def runs() -> list[BedRun]:
    return read_journal([RECORDS], BedRun)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [case for case in read_cases(STORED) if case.split == "test"]


@pytest.mark.slow
def test_simulated_means_are_within_a_few_per_cent(runs: list[BedRun], cases: list[Case]) -> None:
    table = compare(cases, runs, seeds=8)
    free = table[table["mode"] == "free"]["error"].abs()
    # Late jobs of the stored runs waited for their next windows, where the engine lets go of them.
    for errors, most in ((free, 0.10), (table["error"].abs(), 0.12)):
        assert errors.median() < 0.03
        assert errors.quantile(0.9) < most
    fair = compare(cases, runs, "fair")
    assert fair[fair["mode"] == "free"]["error"].abs().median() > 0.10


@pytest.mark.slow
def test_jobs_mostly_separate_as_on_the_network(runs: list[BedRun], cases: list[Case]) -> None:
    table = come_apart(cases, runs, seeds=9)
    assert len(table) == 18
    assert table["factor"].between(0.5, 2.0).sum() >= 9
