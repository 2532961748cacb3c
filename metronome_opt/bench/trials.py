"""A trial: one solver on one instance with one seed, as a task and as the record of its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from metronome_opt.bench.process import Limits, Outcome, Task
from metronome_opt.bench.records import Key, Kind, Record
from metronome_opt.bench.suites import Member
from metronome_opt.errors import InputError
from metronome_opt.schedule import SCHEDULE_FORMAT, Schedule
from metronome_opt.solvers.registry import Solver
from metronome_opt.verify import check

WORKER = "metronome_opt.bench.worker"
_KINDS: dict[str, Kind] = {
    "optimal": "schedule",
    "feasible": "schedule",
    "infeasible": "infeasible",
    "unknown": "no_schedule",
}


@dataclass(frozen=True)
class Trial:
    """One case of a campaign of solvers.

    Attributes
    ----------
    member
        The instance.
    solver, seed, workers
        Workers are threads.
    limits
        Enforced from outside.
    module
        The process it runs in.
    """

    member: Member
    solver: Solver
    seed: int
    workers: int
    limits: Limits
    module: str = WORKER

    @property
    def key(self) -> Key:
        """What tells it from every other one, as in its record."""
        return (
            self.member.entry.sha256,
            self.solver.name,
            self.seed,
            self.limits.time_s,
            self.limits.memory_mb,
            self.workers,
        )

    def __str__(self) -> str:
        return f"{self.member.entry.name} {self.solver.name} seed {self.seed}"

    def task(self) -> Task:
        """Return what a worker is to do."""
        document = {
            "instance": self.member.instance.to_dict(),
            "solver": self.solver.name,
            "seed": self.seed,
            "time_limit_s": self.limits.time_s,
            "workers": self.workers,
        }
        return Task(self.module, document, self.limits, self.solver.packages)

    def record(self, outcome: Outcome) -> Record:
        """Return what is recorded of `outcome`, every statement judged here."""
        told = _Told(outcome, self.limits)
        faults: tuple[str, ...] = ()
        stated: Schedule | None = None
        if told.kind in ("schedule", "no_schedule"):
            try:
                stated = self._stated(told)
                faults = tuple(str(fault) for fault in check(self.member.instance, stated))
            except InputError as error:
                faults = (str(error),)
        return Record(
            kind="invalid" if faults else told.kind,
            suite=self.member.suite,
            split=self.member.entry.split,
            instance=self.member.entry.name,
            instance_sha256=self.member.entry.sha256,
            solver=self.solver.name,
            seed=self.seed,
            time_limit_s=self.limits.time_s,
            memory_limit_mb=self.limits.memory_mb,
            workers=self.workers,
            status=told.status,
            objective=stated.objectives.get("contention") if stated else None,
            lower_bound=stated.lower_bound if stated else None,
            stop=told.stop,
            runtime_s=told.runtime_s,
            build_s=told.build_s,
            trajectory=told.trajectory,
            offsets=stated.offsets if stated and stated.offsets else None,
            notes=told.notes,
            error=told.error,
            faults=faults,
            **outcome.circumstances,
        )

    def _stated(self, told: _Told) -> Schedule:
        """Return what the solver claims in the form that the judge reads."""
        found = told.kind == "schedule"
        return Schedule.from_dict(
            {
                "format": SCHEDULE_FORMAT,
                "instance": self.member.instance.name,
                "offsets": told.offsets if found else {},
                "stretch": {},
                "status": told.status,
                "objectives": {"contention": told.incumbent} if found else {},
                "lower_bound": told.bound,
                "solver": self.solver.name,
                "seed": self.seed,
                "runtime_s": told.runtime_s or 0.0,
            }
        )


def plan(
    members: Iterable[Member],
    solvers: Sequence[Solver],
    *,
    seeds: int,
    limits: Callable[[Member], Limits],
    workers: int,
    module: str = WORKER,
) -> list[Trial]:
    """Return the trials of a campaign, each one once.

    The solvers take turns on an instance, seed by seed, so that a machine that gets slower or
    faster does so for all of them. A solver that takes no seed runs once, with seed 0.
    """
    trials = (
        Trial(member, solver, seed, workers, limits(member), module)
        for member in members
        for seed in range(seeds)
        for solver in solvers
        if solver.seeded or seed == 0
    )
    return list({trial.key: trial for trial in trials}.values())


class _Told:
    """What a task said, put together, and what follows from how it ended."""

    def __init__(self, outcome: Outcome, limits: Limits) -> None:
        progress = [told for told in outcome.messages if told["event"] == "progress"]
        last: dict[str, Any] = progress[-1] if progress else {}
        self.trajectory = tuple(
            (told["elapsed_s"], told["incumbent"], told["bound"], told["source"])
            for told in progress
        )
        self.incumbent: str | None = last.get("incumbent")
        self.bound: str | None = last.get("bound")
        self.offsets = next(
            (told["offsets"] for told in reversed(progress) if "offsets" in told), None
        )
        end = outcome.said("end")
        self.runtime_s: float | None = end.get("runtime_s")
        self.build_s: float | None = end.get("build_s")
        self.stop: str | None = end.get("stop")
        self.notes: tuple[str, ...] = tuple(end.get("notes", ()))
        self.error: str | None = None
        self.status: Any = None
        self.kind: Kind
        if end:
            self.status = end["status"]
            self.kind = _KINDS[self.status]
            if outcome.status != 0:
                self.notes += (f"after its result: {outcome.how_it_ended(limits)}",)
        else:
            self._cut_short(outcome, limits)

    def _cut_short(self, outcome: Outcome, limits: Limits) -> None:
        error = outcome.said("error")
        self.error = error.get("text") or outcome.how_it_ended(limits)
        if outcome.ending != "ended":
            self.stop = "killed"
        if outcome.ending == "time":
            self.status = "unknown" if self.offsets is None else "feasible"
            self.kind = _KINDS[self.status]
        elif outcome.ending == "memory":
            self.kind = "out_of_memory"
        else:
            self.kind = error.get("kind", "crash")
