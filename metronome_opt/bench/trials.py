"""Trials of solvers: one solver minimises the contention of one instance with one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

from metronome_opt.bench.campaign import CaseRecord, Seconds
from metronome_opt.bench.process import Limits, TaskOutcome, WorkerTask
from metronome_opt.bench.suites import Member
from metronome_opt.errors import InputError
from metronome_opt.journal import read_journal
from metronome_opt.records import FrozenMap, Positive
from metronome_opt.schedule import SCHEDULE_FORMAT, Exact, Schedule
from metronome_opt.solvers.registry import Solver
from metronome_opt.verify import check

_WORKER = "metronome_opt.bench.worker solver"

Kind = Literal["schedule", "no_schedule", "infeasible", "out_of_memory", "crash", "invalid"]
Moment = tuple[Seconds, Exact | None, Exact | None, str]
Key = tuple[str, str, int, float, int | None, int]

_KINDS: dict[str, Kind] = {
    "optimal": "schedule",
    "feasible": "schedule",
    "infeasible": "infeasible",
    "unknown": "no_schedule",
}


@pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class TrialRecord(CaseRecord):
    """One trial and its outcome; see `CaseRecord` for the other attributes.

    Attributes
    ----------
    kind
        ``schedule``: there is one, verified; ``no_schedule``: the time was over without one;
        ``infeasible``: the solver states that there is none; ``out_of_memory``: the memory limit
        ended it; ``crash``: an exception or a signal ended it; ``invalid``: a statement of the
        solver is refused by `verify`, see `faults`.
    suite, split, instance, instance_sha256
        The instance; the checksum is that of the stored file, of a scenario that of its instance.
    source, generator
        Its file and its generator; None where that is not known.
    workers
        Threads.
    status, objective, lower_bound, offsets
        Statements of the solver, the value being contention; None where there is none.
    stop
        Why it stopped; ``killed`` if it did not stop by itself.
    build_s
        Seconds of the solver's own clock spent on building its model.
    trajectory
        (seconds, incumbent, bound, source) of every new incumbent and better bound, in order.
    faults
        Statements that `verify` calls false.
    """

    format: Literal["metronome-record/1"] = "metronome-record/1"
    kind: Kind
    suite: str
    split: str
    instance: str
    instance_sha256: str
    source: str | None = None
    generator: str | None = None
    solver: str
    workers: Positive
    status: Literal["optimal", "feasible", "infeasible", "unknown"] | None
    objective: Exact | None
    lower_bound: Exact | None
    stop: str | None
    build_s: Seconds | None
    trajectory: tuple[Moment, ...]
    offsets: FrozenMap[str, int] | None
    faults: tuple[str, ...]

    @property
    def key(self) -> Key:
        """The identity of its case."""
        limits = self.time_limit_s, self.memory_limit_mb
        return self.instance_sha256, self.solver, self.seed, *limits, self.workers

    @property
    def value(self) -> Fraction | None:
        """The contention, where it is verified."""
        return self.objective if self.kind == "schedule" else None

    @property
    def title(self) -> str:
        """The name of its case, for people."""
        return f"{self.instance} {self.solver} seed {self.seed}"

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        if self.succeeded:
            bound = "none" if self.lower_bound is None else f"{float(self.lower_bound):,.6g}"
            seconds = self.wall_s if self.runtime_s is None else self.runtime_s
            value = f"{float(self.objective):,.6g}" if self.objective is not None else "-"
            return f"{self.status} {value}, bound {bound}, {seconds:.2f} s"
        reasons = (*self.faults, self.error or "")
        return f"{self.kind.replace('_', ' ')} ({reasons[0]})" if reasons[0] else self.kind


def read_records(paths: Iterable[str | Path]) -> list[TrialRecord]:
    """Read files of such records, in order; see `read_journal`."""
    return read_journal(paths, TrialRecord)


@dataclass(frozen=True)
class Trial:
    """One case of a campaign of solvers; `workers` are threads, `module` is its process."""

    member: Member
    solver: Solver
    seed: int
    workers: int
    limits: Limits
    module: str = _WORKER

    @property
    def key(self) -> Key:
        """Its identity, as in its record."""
        limits = self.limits.time_s, self.limits.memory_mb
        return self.member.entry.sha256, self.solver.name, self.seed, *limits, self.workers

    def __str__(self) -> str:
        return f"{self.member.entry.name} {self.solver.name} seed {self.seed}"

    def task(self) -> WorkerTask:
        """Return the work for a child process."""
        where = self.solver.where
        document = {
            "instance": self.member.instance.to_dict(),
            "solver": where if isinstance(where, str) and ".py:" in where else self.solver.name,
            "seed": self.seed,
            "time_limit_s": self.limits.time_s,
            "workers": self.workers,
        }
        return WorkerTask(self.module, document, self.limits, self.solver.packages)

    def record(self, outcome: TaskOutcome) -> TrialRecord:
        """Return the record of `outcome`, every statement verified here."""
        end = outcome.first("end")
        steps = [each for each in outcome.messages if each["event"] == "progress"]
        offsets = next((each["offsets"] for each in reversed(steps) if "offsets" in each), None)
        kind, status = self._ending(outcome, offsets)
        faults: tuple[str, ...] = ()
        stated: Schedule | None = None
        if kind in ("schedule", "no_schedule"):
            last = steps[-1] if steps else {}
            claim = {
                "format": SCHEDULE_FORMAT,
                "instance": self.member.instance.name,
                "offsets": offsets if kind == "schedule" else {},
                "stretch": {},
                "status": status,
                "objectives": {"contention": last.get("incumbent")} if kind == "schedule" else {},
                "lower_bound": last.get("bound"),
                "solver": self.solver.name,
                "seed": self.seed,
                "runtime_s": end.get("runtime_s") or 0.0,
            }
            try:
                stated = Schedule.from_dict(claim)
                faults = tuple(str(fault) for fault in check(self.member.instance, stated))
            except InputError as refusal:
                faults = (str(refusal),)
        notes = list(end.get("notes", ()))
        if end and outcome.status != 0:
            notes.append(f"after its result: {outcome.describe(self.limits)}")
        return TrialRecord(
            kind="invalid" if faults else kind,
            suite=self.member.suite,
            split=self.member.entry.split,
            instance=self.member.entry.name,
            instance_sha256=self.member.entry.sha256,
            source=str(self.member.path),
            generator=self.member.entry.maker,
            solver=self.solver.name,
            seed=self.seed,
            time_limit_s=self.limits.time_s,
            memory_limit_mb=self.limits.memory_mb,
            workers=self.workers,
            status=status,
            objective=stated.objectives.get("contention") if stated else None,
            lower_bound=stated.lower_bound if stated else None,
            stop=end.get("stop") if end or outcome.ending == "ended" else "killed",
            runtime_s=end.get("runtime_s"),
            build_s=end.get("build_s"),
            trajectory=tuple(
                (each["elapsed_s"], each["incumbent"], each["bound"], each["source"])
                for each in steps
            ),
            offsets=stated.offsets if stated and stated.offsets else None,
            notes=tuple(notes),
            error=None if end else outcome.describe(self.limits),
            faults=faults,
            **outcome.circumstances,
        )

    def is_worth_repeating(self, _: TrialRecord) -> bool:
        """Return False: a failure of a solver is a result."""
        return False

    def _ending(self, outcome: TaskOutcome, offsets: object) -> tuple[Kind, Any]:
        """Return the kind of an outcome, and the status that the solver stated or left behind."""
        end = outcome.first("end")
        if end:
            return _KINDS[end["status"]], end["status"]
        if outcome.ending == "time":
            status = "unknown" if offsets is None else "feasible"
            return _KINDS[status], status
        kind: Any = outcome.error_kind
        return kind, None


def plan(
    members: Iterable[Member],
    solvers: Sequence[Solver],
    *,
    seeds: int,
    limits: Callable[[Member], Limits],
    workers: int,
    module: str = _WORKER,
) -> list[Trial]:
    """Return the trials of a campaign, each one once.

    The solvers alternate on an instance, seed by seed, so that a machine that gets slower or faster
    does so for all of them. A solver that takes no seed runs once, with seed 0.
    """
    trials = (
        Trial(member, solver, seed, workers, limits(member), module)
        for member in members
        for seed in range(seeds)
        for solver in solvers
        if solver.seeded or seed == 0
    )
    return list({trial.key: trial for trial in trials}.values())
