"""The best that is known of each stored instance: a value, its schedule, and a lower bound.

The schedule is the certificate of the value: anybody can check it. A lower bound has none; it is
taken from a solver that computes exactly, and it says from which run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from benchmarks.evaluation.recorded import machine_in_words
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.bench.suites import Member, Suite
from metronome_opt.files.documents import make_folder, write_text
from metronome_opt.files.records import (
    Exact,
    FrozenMap,
    Name,
    Record,
    parse_record,
    read_document_as,
)
from metronome_opt.problem.schedule import Schedule, Status, write_schedule
from metronome_opt.verify import evaluate, verify_schedule

HOME = Path(__file__).parent
FILE = "best_known.json"
CERTIFICATES = "certificates"
BEST_KNOWN_FORMAT = "metronome-best-known/1"

_FLOATING = "milp"  # solvers whose names begin so prove in floating point, to a tolerance
_OBJECTIVE = "contention"


class Origin(Record):
    """The run that a value or bound comes from.

    Parameters
    ----------
    date, solver, seed, time_limit_s, commit, machine
        When, by what and where; commit None outside a checkout.
    """

    date: str
    solver: str
    seed: int
    time_limit_s: float
    commit: str | None
    machine: str


class Certificate(Record):
    """Where the schedule is, relative to `FILE`."""

    file: Name


class Entry(Origin):
    """Best known value and bound of one instance; inherited fields are the origin of the value.

    Parameters
    ----------
    sha256
        Checksum of the instance's file.
    value
        The lowest contention.
    lower_bound
        The largest proved bound, None if there is none.
    optimal
        Whether the two meet.
    schedule
        Where the schedule of that value is.
    bound_from
        The run that proved the bound; None if there is none.
    """

    sha256: str
    value: Exact
    lower_bound: Exact | None
    optimal: bool
    schedule: Certificate
    bound_from: Origin | None


class BestKnown(Record):
    """A document of format ``metronome-best-known/1``: an entry per instance, by name."""

    format: Literal["metronome-best-known/1"] = "metronome-best-known/1"
    instances: FrozenMap[Name, Entry]


@dataclass(frozen=True)
class Update:
    """Changes by records.

    Attributes
    ----------
    known
        Everything that is known now.
    certificates
        New schedules by instance.
    better
        What got better, a line each.
    refused
        Records that cannot be right, or not of what is stored, a line each.
    """

    known: BestKnown
    certificates: Mapping[str, Schedule]
    better: tuple[str, ...]
    refused: tuple[str, ...]


def read_best_known(folder: Path = HOME) -> BestKnown:
    """Read what is known; nothing, if there is no file yet.

    Raises
    ------
    InputError
        One line that names the file, the location in it and the value.
    """
    path = folder / FILE
    if not path.exists():
        return BestKnown(instances={})
    return read_document_as(
        path, lambda document: parse_record(BestKnown, document, BEST_KNOWN_FORMAT)
    )


def write_update(update: Update, folder: Path = HOME) -> None:
    """Write new certificates, then the file that refers to them."""
    make_folder(folder / CERTIFICATES)
    for name, schedule in update.certificates.items():
        write_schedule(schedule, folder / _file_of(name))
    entries = update.known.model_dump(mode="json")["instances"]
    rows = (f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries))
    text = ",\n    ".join(rows)
    write_text(
        folder / FILE,
        f'{{\n  "format": "{BEST_KNOWN_FORMAT}",\n  "instances": {{\n    {text}\n  }}\n}}\n',
    )


def take_over(known: BestKnown, runs: Sequence[SolverRecord], suites: Iterable[Suite]) -> Update:
    """Return what is known with the better values and the better bounds of `runs`.

    Values come first, so that a false bound is noticed in any order of runs.

    Parameters
    ----------
    known
        What is known so far.
    runs
        Records of campaigns.
    suites
        The stored instances.
    """
    update = _Update(known, runs, suites)
    for run in update.runs:
        update.take_value(run)
    for run in update.runs:
        update.take_bound(run)
    return update.result()


class _Update:
    """Best known values, while records change them."""

    def __init__(
        self, known: BestKnown, runs: Sequence[SolverRecord], suites: Iterable[Suite]
    ) -> None:
        names = {run.instance for run in runs}
        self._members = {
            member.entry.name: member for suite in suites for member in suite.members(names=names)
        }
        self._before = known.instances
        self._entries = dict(known.instances)
        self._certificates: dict[str, Schedule] = {}
        self._refused: list[str] = []
        self.runs = [run for run in runs if self._is_credible(run)]

    def _is_credible(self, run: SolverRecord) -> bool:
        member = self._members.get(run.instance)
        stored = None if member is None else member.entry.sha256
        entry = self._before.get(run.instance)
        fault = None
        if stored is None:
            fault = "there is no such stored instance"
        elif run.instance_sha256 != stored:
            fault = f"its checksum is {run.instance_sha256[:12]}..., stored is {stored[:12]}..."
        elif entry is not None and entry.sha256 != stored:
            fault = f"{FILE} is of another file, {entry.sha256[:12]}...; take that entry out"
        elif run.kind == "infeasible":
            fault = "infeasible, but every choice of offsets is a schedule"
        elif run.kind == "invalid":
            fault = f"the judge refused it: {run.error or '; '.join(map(str, run.faults))}"
        if fault is not None:
            self._refuse(run, fault)
        return fault is None

    def take_value(self, run: SolverRecord) -> None:
        """Take over the schedule of a run if it is the best and all that it states is true."""
        if run.kind != "schedule" or run.offsets is None or run.objective is None:
            return
        entry = self._entries.get(run.instance)
        if entry is not None and run.objective >= entry.value:
            return
        schedule, faults = _certificate(self._members[run.instance], run)
        bound = None if entry is None else entry.lower_bound
        if faults:
            self._refuse(run, faults[0])
        elif bound is not None and run.objective < bound:
            self._refuse(run, f"its value {run.objective} is below the known bound {bound}")
        else:
            self._certificates[run.instance] = schedule
            self._entries[run.instance] = Entry(
                **dict(_origin(run)),
                sha256=run.instance_sha256,
                value=run.objective,
                lower_bound=bound,
                optimal=run.objective == bound,
                schedule=Certificate(file=_file_of(run.instance)),
                bound_from=None if entry is None else entry.bound_from,
            )

    def take_bound(self, run: SolverRecord) -> None:
        """Take over the bound of a run if it is the best, exact, and not above the value."""
        entry = self._entries.get(run.instance)
        bound = run.lower_bound
        if entry is None or bound is None or run.solver.rpartition(":")[2].startswith(_FLOATING):
            return
        if bound > entry.value:
            self._refuse(run, f"its bound {bound} is above the known value {entry.value}")
        elif entry.lower_bound is None or bound > entry.lower_bound:
            changes = {
                "lower_bound": bound,
                "optimal": bound == entry.value,
                "bound_from": _origin(run),
            }
            self._entries[run.instance] = entry.model_copy(update=changes)

    def result(self) -> Update:
        """Return the outcome."""
        return Update(
            BestKnown(instances=self._entries),
            self._certificates,
            tuple(
                f"{name}: {_told(self._before.get(name))} -> {_told(entry)}"
                for name, entry in self._entries.items()
                if entry != self._before.get(name)
            ),
            tuple(self._refused),
        )

    def _refuse(self, run: SolverRecord, why: str) -> None:
        self._refused.append(f"{run.instance}, {run.solver}, seed {run.seed}: {why}")


def _certificate(member: Member, run: SolverRecord) -> tuple[Schedule, list[str]]:
    """Return the schedule of a run and what is false of it."""
    schedule = Schedule(
        instance=run.instance,
        offsets=run.offsets or {},
        stretch={},
        status=Status.FEASIBLE,
        objectives={_OBJECTIVE: run.objective},
        lower_bound=None,
        solver=run.solver,
        seed=run.seed,
        runtime_s=run.wall_s if run.runtime_s is None else run.runtime_s,
        versions=run.versions,
    )
    faults = [str(fault) for fault in verify_schedule(member.instance, schedule)]
    if not faults:
        objectives = evaluate(member.instance, schedule.offsets).objectives
        schedule = schedule.model_copy(update={"objectives": objectives})
    return schedule, faults


def _origin(run: SolverRecord) -> Origin:
    return Origin(
        date=run.started[:10],
        solver=run.solver,
        seed=run.seed,
        time_limit_s=run.time_limit_s,
        commit=run.commit,
        machine=machine_in_words(run.machine),
    )


def _file_of(name: str) -> str:
    return f"{CERTIFICATES}/{name}.json"


def _told(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    if entry.optimal:
        return f"{_decimal(entry.value)}, optimal"
    bound = "no bound" if entry.lower_bound is None else f"bound {_decimal(entry.lower_bound)}"
    return f"{_decimal(entry.value)}, {bound}"


def _decimal(value: Fraction) -> str:
    return f"{float(value):,.3f}"
