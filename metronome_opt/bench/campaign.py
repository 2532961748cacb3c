"""Campaigns: a case is one task, and its outcome is recorded as soon as it is known.

Tasks run in processes of this machine, or on the workers of a Dask cluster.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from metronome_opt.bench.process import Limits, Task, TaskOutcome, run_task
from metronome_opt.child import close_idle
from metronome_opt.errors import InputError, MetronomeError
from metronome_opt.files.journal import Journal
from metronome_opt.files.records import FrozenMap, NonNegative, Positive
from metronome_opt.pools import dask_client, pool_of

_POLL_S = 5.0

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class CaseRecord:
    """A case of a campaign and its outcome: the fields that all campaigns share.

    Attributes
    ----------
    IDENTITY
        Names of the fields that identify a case.
    kind
        The outcome of the case, in a word.
    seed, time_limit_s, memory_limit_mb
        Seed and limits; memory in 2**20 bytes, None for no limit.
    notes, error
        Notes of the task, or the traceback of a crash; the reason for a missing result.
    runtime_s, wall_s, peak_memory_mb
        Seconds by the task's own clock, without compilation and imports, None if it did not end by
        itself; and as measured from outside, see `process.TaskOutcome`.
    started, machine, versions, commit
        Time (UTC), machine and code of the run; ``+`` ends the commit of a changed checkout.
    """

    IDENTITY: ClassVar[tuple[str, ...]]

    format: str
    kind: str
    seed: NonNegative
    time_limit_s: Seconds
    memory_limit_mb: Positive | None
    notes: tuple[str, ...]
    error: str | None
    runtime_s: Seconds | None
    wall_s: Seconds
    peak_memory_mb: Seconds | None
    started: str
    machine: FrozenMap[str, str | int | None]
    versions: FrozenMap[str, str]
    commit: str | None

    @property
    def key(self) -> tuple[Hashable, ...]:
        """The identity of its case."""
        return tuple(getattr(self, name) for name in self.IDENTITY)

    @property
    def succeeded(self) -> bool:
        """Return True if it holds a result."""
        return self.kind in ("schedule", "done")

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        raise NotImplementedError

    def is_worth_repeating(self, limits: Limits) -> bool:  # noqa: ARG002 (simulations use it)
        """Return whether another attempt under these limits may bring more."""
        return False


R = TypeVar("R", bound=CaseRecord)


@dataclass(frozen=True)
class Case(Generic[R]):
    """A unit of a campaign: a solver on an instance, or a policy on a scenario.

    Attributes
    ----------
    title
        Its name for people.
    kind, fields
        The class of its record, and the fields of it that are known before, without limits.
    task
        Returns the work of a child process, which must be picklable; raises an `InputError` if
        there is none.
    results
        Returns the other fields of its record from an outcome.
    load
        Imports and compiles what the tasks of its campaign need; a function of a module.
    packages
        Distributions whose versions are recorded.
    """

    title: str
    kind: type[R]
    fields: Mapping[str, Any]
    limits: Limits
    task: Callable[[], Task]
    results: Callable[[TaskOutcome], Mapping[str, Any]]
    load: Callable[[], object]
    packages: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Its identity, as in its record."""
        return tuple(self._fields[name] for name in self.kind.IDENTITY)

    @property
    def _fields(self) -> dict[str, Any]:
        limits = {"time_limit_s": self.limits.time_s, "memory_limit_mb": self.limits.memory_mb}
        return {**self.fields, **limits}

    def record(self, outcome: TaskOutcome) -> R:
        """Return the record of an outcome."""
        end = outcome.first("end")
        notes = list((end or outcome.first("error")).get("notes", ()))
        if end and outcome.status != 0:
            notes.append(f"after its result: {outcome.describe(self.limits)}")
        return self.kind(
            **self._fields,
            runtime_s=end.get("runtime_s"),
            notes=tuple(notes),
            error=None if end else outcome.describe(self.limits),
            **outcome.circumstances,
            **self.results(outcome),
        )


def remaining_cases(cases: Iterable[Case[R]], records: Iterable[R]) -> list[Case[R]]:
    """Return the cases without a record, and those worth repeating."""
    held = {record.key: record for record in records}
    found = ((case, held.get(case.key)) for case in cases)
    return [case for case, record in found if not record or record.is_worth_repeating(case.limits)]


def run_campaign(
    cases: Iterable[Case[R]], pool: Pool, file: Journal[R]
) -> Iterator[tuple[Case[R], R | Exception]]:
    """Run cases, append their records to a file, and yield each case with its record.

    The next case starts when a record is verified and written, so that verification disturbs no
    case that runs alone. A case that cannot be run (because a worker of a cluster died, or the
    input makes no task) is yielded with its error, and the others go on.

    Parameters
    ----------
    cases
        The cases that have no record yet.
    pool
        Where they run, as many at once as it is wide; a `MetronomeError` if it is gone.
    file
        The file of records.
    """
    waiting = deque(cases)
    running: dict[Future[TaskOutcome], Case[R]] = {}
    while waiting or running:
        while waiting and len(running) < pool.width:
            case = waiting.popleft()
            try:
                running[pool.submit(case)] = case
            except InputError as error:
                yield case, error
        pool.check()
        for future in wait(running, _POLL_S, return_when=FIRST_COMPLETED).done:
            case = running.pop(future)
            try:
                outcome = future.result()
            except Exception as error:
                yield case, error
                continue
            record = case.record(outcome)
            file.append(record)
            yield case, record


# ------------------------------------------------------------------ pools


@dataclass(frozen=True)
class Pool:
    """An executor of `concurrent.futures`, and the number of tasks that it takes at once.

    Its threads only wait: a task is a process of its own wherever it runs.

    Attributes
    ----------
    stop
        Ends the tasks that run.
    is_gone
        Whether the executor will never finish a task again.
    """

    executor: Executor
    width: int
    stop: threading.Event
    is_gone: Callable[[], bool] = lambda: False

    def submit(self, case: Case[Any]) -> Future[TaskOutcome]:
        """Start a case; a `MetronomeError` if the executor is gone."""
        self.check()
        # Pickled here: the worker of a cluster need not import what only the child does.
        task, load = pickle.dumps(case.task()), pickle.dumps(case.load)
        return self.executor.submit(run_task, task, case.limits, case.packages, self.stop, load)

    def check(self) -> None:
        """Raise a `MetronomeError` if the executor is gone."""
        if self.is_gone():
            raise MetronomeError(
                "the cluster is gone; what is recorded stays, "
                "and the same command with --resume goes on"
            )


@contextmanager
def local_pool(processes: int = 1) -> Iterator[Pool]:
    """Yield a pool of this machine; leaving it kills the tasks that still run."""
    stop = threading.Event()
    executor = ThreadPoolExecutor(processes)
    try:
        yield Pool(executor, processes, stop)
    finally:
        stop.set()
        executor.shutdown()
        close_idle()


@contextmanager
def dask_pool(address: str, processes: int | None = None) -> Iterator[Pool]:
    """Yield a pool of a running Dask cluster; leaving it kills the tasks that still run there.

    Its workers need this package installed; limits are enforced where a task runs. It is as wide as
    the workers have threads, unless a number of processes is given. An `InputError` if no scheduler
    answers at ``tcp://HOST:PORT``, or it has no workers.
    """
    with dask_client(address) as client:
        stop: Any = import_module("distributed").Event(client=client)
        pool = pool_of(client)
        executor = pool.executor
        try:
            yield Pool(executor, processes or pool.width, stop, pool.is_gone)
        finally:
            with suppress(Exception):  # whatever it raises once the scheduler is gone
                stop.set()
                executor.shutdown(wait=bool(client.nthreads()))
                client.run(close_idle)
