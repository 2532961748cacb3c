"""Cases of solvers: one solver minimises the contention of one instance with one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

from metronome_opt.bench.campaign import Case, CaseRecord, Seconds
from metronome_opt.bench.process import Limits, Send, TaskOutcome
from metronome_opt.bench.suites import Member
from metronome_opt.errors import InputError, MissingBackendError, SolverError
from metronome_opt.files.journal import read_journal
from metronome_opt.files.records import Exact, FrozenMap, Positive
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import ProgressEvent
from metronome_opt.problem.schedule import SCHEDULE_FORMAT, Schedule
from metronome_opt.solvers.registry import Solver, find_solver
from metronome_opt.verify import verify_schedule

_WARM_UP_S = 1.0

Kind = Literal["schedule", "no_schedule", "infeasible", "out_of_memory", "crash", "invalid"]
Moment = tuple[Seconds, Exact | None, Exact | None, str]

_KINDS: dict[str, Kind] = {
    "optimal": "schedule",
    "feasible": "schedule",
    "infeasible": "infeasible",
    "unknown": "no_schedule",
}


@pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class SolverRecord(CaseRecord):
    """A case of a solver and its outcome; see `CaseRecord` for the other attributes.

    Attributes
    ----------
    kind
        ``schedule``: a verified schedule; ``no_schedule``: none within the time limit;
        ``infeasible``: none exists, states the solver; ``out_of_memory``: the memory limit ended
        it; ``crash``: an exception or a signal ended it; ``invalid``: `verify` refuses a statement
        of the solver, see `faults`.
    suite, split, instance, instance_sha256
        The instance; the checksum of the stored file, for a scenario that of its instance.
    source, generator
        File and generator of the instance; None if not known.
    workers
        Threads.
    status, objective, lower_bound, offsets
        Statements of the solver, the objective being contention; None if missing.
    stop
        Reason of the stop; ``killed`` if it did not stop by itself.
    build_s
        Seconds of the solver's own clock spent on building its model.
    trajectory
        (seconds, incumbent, bound, source) of every new incumbent and better bound, in order.
    faults
        Statements that `verify` refuses.
    """

    IDENTITY: ClassVar[tuple[str, ...]] = (
        *("instance_sha256", "solver", "seed", "time_limit_s", "memory_limit_mb", "workers"),
    )

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
    def value(self) -> Fraction | None:
        """The verified contention, None without one."""
        return self.objective if self.kind == "schedule" else None

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


def read_records(paths: Iterable[str | Path]) -> list[SolverRecord]:
    """Read files of solver records, in order; see `read_journal`."""
    return read_journal(paths, SolverRecord)


def plan(
    members: Iterable[Member],
    solvers: Sequence[Solver],
    *,
    seeds: int,
    limits: Callable[[Member], Limits],
    workers: int,
) -> list[Case[SolverRecord]]:
    """Return the cases of a campaign of solvers, without repetition.

    The solvers alternate on an instance, seed by seed, so that a machine that gets slower or faster
    does so for all of them. A solver that takes no seed runs once, with seed 0.

    Parameters
    ----------
    members, solvers
        Instances of suites, and the solvers that run on them.
    seeds
        Number of seeds.
    limits
        Returns the limits of the cases of an instance.
    workers
        Threads of a case.
    """
    load = partial(_load, tuple(solver.name for solver in solvers if solver.is_own))
    cases = (
        _case(member, solver, seed, limits(member), workers, load)
        for member in members
        for seed in range(seeds)
        for solver in solvers
        if solver.seeded or seed == 0
    )
    return list({case.key: case for case in cases}.values())


def _case(
    member: Member,
    solver: Solver,
    seed: int,
    limits: Limits,
    workers: int,
    load: Callable[[], object],
) -> Case[SolverRecord]:
    entry, where = member.entry, solver.where
    fields = {
        "suite": member.suite,
        "split": entry.split,
        "instance": entry.name,
        "instance_sha256": entry.sha256,
        "source": str(member.path),
        "generator": entry.maker,
        "solver": solver.name,
        "seed": seed,
        "workers": workers,
    }
    task = partial(
        _run_solver,
        instance=member.instance,
        solver=where if isinstance(where, str) and ".py:" in where else solver.name,
        seed=seed,
        time_limit_s=limits.time_s,
        workers=workers,
    )
    results = partial(_verified, member.instance, solver.name, seed)
    title = f"{entry.name} {solver.name} seed {seed}"
    return Case(title, SolverRecord, fields, limits, lambda: task, results, load, solver.packages)


def _run_solver(
    send: Send, *, instance: Instance, solver: str, seed: int, time_limit_s: float, workers: int
) -> None:
    """Minimise the contention of an instance, and send every incumbent and bound.

    The clock starts when everything that happens once per process is over: kernels and back ends
    are loaded by solving two jobs. What a solver does in every run, such as starting HiGHS as a
    program, counts. The solver is called with a `SolverRun` as `solve` does it, but a schedule is
    only what the solver itself offered, never the unshifted one that `solve` falls back to.
    """
    from metronome_opt.solvers.run import SolverRun

    function = find_solver(solver).load()
    with suppress(Exception):  # a failure is repeated later
        _warm_up(solver, workers)
    last: Fraction | None = None

    def on_event(event: ProgressEvent, /) -> None:
        nonlocal last
        content: dict[str, Any] = {
            "elapsed_s": round(event.elapsed_s, 6),
            "incumbent": None if event.incumbent is None else str(Fraction(event.incumbent)),
            "bound": None if event.bound is None else str(Fraction(event.bound)),
            "source": event.source,
        }
        if event.incumbent != last:
            last = event.incumbent
            content["offsets"] = run.offsets_by_job()
        send("progress", **content)

    send("ready")
    run = SolverRun(
        instance, time_limit=time_limit_s, seed=seed, threads=workers, callback=on_event
    )
    try:
        function(run)
    except SolverError as error:
        if run.best is None:
            raise
        run.notes.append(f"stopped by an error: {error}")
    runtime = run.elapsed
    unproved = "feasible" if run.best is not None else "unknown"
    send(
        "end",
        status="optimal" if run.proved else unproved,
        stop=str(run.stop),
        runtime_s=round(runtime, 6),
        build_s=round(run.build_s, 6),
        notes=run.notes,
    )


def _load(solvers: Iterable[str]) -> None:
    """Import what these solvers need and load kernels by `auto`; forks lack threads of others."""
    for name in solvers:
        with suppress(MissingBackendError):  # repeated by its cases
            find_solver(name).import_packages()
    _warm_up()


def _warm_up(solver: str = "auto", threads: int = 1) -> None:
    """Solve three jobs, so that imports are done and kernels are loaded."""
    from metronome_opt.api import solve
    from metronome_opt.solvers.arguments import warm_up_instance

    solve(warm_up_instance(), solver, "contention", time_limit=_WARM_UP_S, threads=threads)


def _verified(instance: Instance, solver: str, seed: int, outcome: TaskOutcome) -> dict[str, Any]:
    """Return the results of an outcome; statements of the solver are verified."""
    end = outcome.first("end")
    steps = [message for message in outcome.messages if message["event"] == "progress"]
    offsets = next((step["offsets"] for step in reversed(steps) if "offsets" in step), None)
    kind, status = _ending(outcome, offsets)
    faults: tuple[str, ...] = ()
    stated: Schedule | None = None
    if kind in ("schedule", "no_schedule"):
        last = steps[-1] if steps else {}
        claim = {
            "format": SCHEDULE_FORMAT,
            "instance": instance.name,
            "offsets": offsets if kind == "schedule" else {},
            "stretch": {},
            "status": status,
            "objectives": {"contention": last.get("incumbent")} if kind == "schedule" else {},
            "lower_bound": last.get("bound"),
            "solver": solver,
            "seed": seed,
            "runtime_s": end.get("runtime_s") or 0.0,
        }
        try:
            stated = Schedule.from_dict(claim)
            faults = tuple(map(str, verify_schedule(instance, stated)))
        except InputError as refusal:
            faults = (str(refusal),)
    return {
        "kind": "invalid" if faults else kind,
        "status": status,
        "objective": stated.objectives.get("contention") if stated else None,
        "lower_bound": stated.lower_bound if stated else None,
        "stop": end.get("stop") if end or outcome.ending == "ended" else "killed",
        "build_s": end.get("build_s"),
        "trajectory": tuple(
            (step["elapsed_s"], step["incumbent"], step["bound"], step["source"]) for step in steps
        ),
        "offsets": stated.offsets if stated and stated.offsets else None,
        "faults": faults,
    }


def _ending(outcome: TaskOutcome, offsets: object) -> tuple[str, str | None]:
    """Return the kind of an outcome, and the status that the solver stated or implied."""
    if end := outcome.first("end"):
        return _KINDS[end["status"]], end["status"]
    if outcome.ending == "time":
        status = "unknown" if offsets is None else "feasible"
        return _KINDS[status], status
    return outcome.error_kind, None
