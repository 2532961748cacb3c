"""Best known values are verified; records only improve them, and false ones are refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchmarks.best_known import (
    CERTIFICATES,
    HOME,
    BestKnown,
    Update,
    read_best_known,
    take_over,
    write_update,
)
from benchmarks.families import FAMILIES, Family
from benchmarks.families.family import cases
from benchmarks.stored import SUITES, write_suite
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.bench.suites import Suite, read_suite
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Status, read_schedule
from metronome_opt.verify import verify_schedule
from tests.bench.report_examples import record
from tests.builders import job, network

NOTHING = BestKnown(instances={})

# ------------------------------------------------------------------ what is stored


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_stored_value_has_a_true_certificate_and_no_bound_exceeds_it(family: str) -> None:
    entries = read_best_known().instances
    for member in read_suite(SUITES / family).members():
        entry = entries.get(member.entry.name)
        if entry is None:
            continue
        assert entry.sha256 == member.entry.sha256
        certificate = read_schedule(HOME / entry.schedule.file)
        assert verify_schedule(member.instance, certificate) == ()
        assert certificate.objectives["contention"] == entry.value
        assert certificate.status is Status.FEASIBLE  # the bound is not for a schedule to prove
        assert entry.lower_bound is None or entry.lower_bound <= entry.value
        assert entry.optimal == (entry.lower_bound == entry.value)
        assert (entry.lower_bound is None) == (entry.bound_from is None)


def test_every_entry_is_of_a_stored_instance_and_every_certificate_of_an_entry() -> None:
    entries = read_best_known().instances
    assert set(entries) <= {case.name for family in FAMILIES.values() for case in family.cases}
    files = {f"{CERTIFICATES}/{path.name}" for path in (HOME / CERTIFICATES).glob("*")}
    assert files == {entry.schedule.file for entry in entries.values()}


# ------------------------------------------------------------------ taking over


def pair(name: str, seed: int) -> Instance:  # noqa: ARG001
    """Return two jobs busy for half of their 4 slots; d slots of overlap cost 10 d / 4."""
    return network(*(job(each, 4, (0, 2, 10)) for each in "ab"), capacity=10).replace(name=name)


FAMILY = Family("pair", "for tests", 1, 1, cases("pair", pair, test=[("", {})]))
NAME = "pair-test-0"


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    write_suite(FAMILY, tmp_path / "suites")
    return read_suite(tmp_path / "suites" / "pair")


def run(suite: Suite, shift: int | None, value: str | None, **changes: Any) -> SolverRecord:
    """Return the record of a run that found the offsets 0 and `shift` and states `value`."""
    fields: dict[str, Any] = {
        "instance": NAME,
        "solver": "auto",
        "suite": "pair",
        "instance_sha256": suite.index.instances[0].sha256,
        "seed": 3,
        "offsets": None if shift is None else {"a": 0, "b": shift},
        "machine": {"processor": "abacus", "cores": 2},
    } | changes
    return record(fields.pop("instance"), fields.pop("solver"), value, **fields)


def known(suite: Suite, *runs: SolverRecord) -> BestKnown:
    update = take_over(NOTHING, runs, [suite])
    assert update.refused == ()
    return update.known


def test_a_better_bound_is_taken_over_and_remembers_its_own_run(suite: Suite) -> None:
    before = known(suite, run(suite, 1, "5/2", solver="local"))
    update = take_over(
        before, [run(suite, None, None, solver="branch-bound", lower_bound="5/2")], [suite]
    )
    entry = update.known.instances[NAME]
    assert (entry.lower_bound, entry.optimal) == (Fraction(5, 2), True)
    assert entry.bound_from is not None
    assert (entry.solver, entry.bound_from.solver) == ("local", "branch-bound")
    assert update.certificates == {}
    worse = take_over(update.known, [run(suite, None, None, lower_bound="2")], [suite])
    assert worse.known == update.known


@pytest.mark.parametrize("solver", ["milp", "milp-textbook", "benchmarks/textbook.py:milp"])
def test_bounds_in_floating_point_are_passed_over(suite: Suite, solver: str) -> None:
    entry = known(suite, run(suite, 1, "5/2", solver=solver, lower_bound="5/2")).instances[NAME]
    assert entry.value == Fraction(5, 2)
    assert (entry.lower_bound, entry.optimal, entry.bound_from) == (None, False, None)


def test_a_bound_above_a_known_value_is_refused_in_whatever_order(suite: Suite) -> None:
    good, bad = run(suite, 2, "0"), run(suite, None, None, solver="cpsat", lower_bound="5/2")
    for runs in ((good, bad), (bad, good)):
        update = take_over(NOTHING, runs, [suite])
        assert update.refused == (
            f"{NAME}, cpsat, seed 3: its bound 5/2 is above the known value 0",
        )
        assert update.known.instances[NAME].lower_bound is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"instance": "pair-test-9"}, "there is no such stored instance"),
        ({"instance_sha256": "0" * 64}, "its checksum is 000000000000..., stored is"),
        ({"offsets": {"a": 0, "b": 0}}, "stated 5/2"),
        ({"kind": "infeasible"}, "every choice of offsets is a schedule"),
        ({"kind": "invalid", "error": "a wrong value"}, "the judge refused it: a wrong value"),
    ],
)
def test_implausible_records_are_refused(suite: Suite, changes: dict[str, Any], why: str) -> None:
    update = take_over(NOTHING, [run(suite, 1, "5/2", **changes)], [suite])
    (line,) = update.refused
    assert why in line
    assert update.known == NOTHING


# ------------------------------------------------------------------ files and the command


def test_written_values_read_back(suite: Suite, tmp_path: Path) -> None:
    assert read_best_known(tmp_path) == NOTHING
    update = take_over(NOTHING, [run(suite, 1, "5/2", lower_bound="1/3")], [suite])
    write_update(update, tmp_path)
    assert read_best_known(tmp_path) == update.known
    document = json.loads((tmp_path / "best_known.json").read_text(encoding="utf-8"))
    entry = document["instances"][NAME]
    assert (entry["value"], entry["lower_bound"]) == ("5/2", "1/3")
    assert entry["schedule"] == {"file": f"certificates/{NAME}.json"}
    assert read_schedule(tmp_path / entry["schedule"]["file"]) == update.certificates[NAME]
    write_update(Update(NOTHING, {}, (), ()), tmp_path)
    assert read_best_known(tmp_path) == NOTHING
