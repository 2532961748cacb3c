"""Campaigns: many cases, each one task, each outcome recorded as soon as it is known.

Tasks run in processes of this machine, or on the workers of a Dask cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from metronome_opt.bench.process import TaskOutcome, WorkerTask, run_task
from metronome_opt.errors import InputError, MetronomeError, MissingBackendError, quote
from metronome_opt.journal import Journal
from metronome_opt.records import FrozenMap, NonNegative, Positive

_CONNECT_S = 10
_POLL_S = 5.0


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class CaseRecord:
    """The part of a record that all campaigns share.

    Attributes
    ----------
    kind
        The outcome of the case, in a word.
    seed, time_limit_s, memory_limit_mb
        How it ran; memory in 2**20 bytes, None for no limit.
    notes, error
        Notes of the task; why it has no result.
    runtime_s
        Seconds by the task's own clock, compiling and imports left out; None if it did not end by
        itself.
    wall_s, peak_memory_mb
        From outside: see `process.TaskOutcome`.
    started, machine, versions, commit
        When (UTC), where and what ran; ``+`` ends the commit of a changed checkout.
    """

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
    def key(self) -> Hashable:
        """The identity of its case."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The name of its case, for people."""
        raise NotImplementedError

    @property
    def succeeded(self) -> bool:
        """Return True if it holds a result."""
        return self.kind in ("schedule", "done")

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        raise NotImplementedError


R = TypeVar("R", bound=CaseRecord)


class Case(Protocol[R]):
    """A unit of a campaign."""

    @property
    def key(self) -> Hashable:
        """Its identity."""

    def task(self) -> WorkerTask:
        """Return the work to be done."""

    def record(self, outcome: TaskOutcome) -> R:
        """Return the record of an outcome."""

    def is_worth_repeating(self, record: R) -> bool:
        """Return whether another attempt may bring more than a record of it."""


C = TypeVar("C", bound=Case[Any])


def remaining_cases(cases: Iterable[C], records: Iterable[CaseRecord]) -> list[C]:
    """Return the cases without a record, and those worth repeating."""
    held = {record.key: record for record in records}
    return [
        case for case in cases if case.key not in held or case.is_worth_repeating(held[case.key])
    ]


class _Watcher(Protocol):
    """Observer of a campaign."""

    def recorded(self, record: Any) -> None:
        """Take note of a record that is in the file."""

    def lost(self, case: Any, error: Exception) -> None:
        """Take note of a case that could not be run; it is not in the file."""

    def note(self, text: str) -> None:
        """Take note of something that concerns the whole campaign."""


def run_campaign(cases: Iterable[Case[R]], pool: Pool, file: Journal[R], watcher: _Watcher) -> None:
    """Run `cases` and append their records to `file`.

    As many cases as the pool is wide run at once. The next one starts when a record is judged and
    written, so that judging disturbs no case that runs alone. A case that cannot be run (a worker
    of a cluster that died with it, say, or input that makes no task) is left out, and the others
    go on.

    Raises
    ------
    MetronomeError
        If the pool is gone, and with it everything that is not recorded.
    """
    waiting = _tasks(cases, watcher)
    running: dict[Future[TaskOutcome], Case[R]] = {}
    stalled = False
    while True:
        for case, task in islice(waiting, pool.width - len(running)):
            running[pool.submit(task)] = case
        if not running:
            return
        pool.check()
        if stalled != (not pool.has_workers()):
            stalled = not stalled
            watcher.note(_STALLED if stalled else "a worker has come; the campaign goes on")
        for future in wait(running, _POLL_S, return_when=FIRST_COMPLETED).done:
            case = running.pop(future)
            try:
                outcome = future.result()
            except Exception as error:
                watcher.lost(case, error)
                continue
            record = case.record(outcome)
            file.append(record)
            watcher.recorded(record)


_STALLED = "the cluster has no worker left; start one, and the campaign goes on"


def _tasks(cases: Iterable[Case[R]], watcher: _Watcher) -> Iterator[tuple[Case[R], WorkerTask]]:
    for case in cases:
        try:
            yield case, case.task()
        except InputError as error:
            watcher.lost(case, error)


# ------------------------------------------------------------------ pools


@dataclass(frozen=True)
class Pool:
    """An executor of `concurrent.futures`, and how many tasks it takes at once.

    Attributes
    ----------
    executor
        Its threads only wait: each task is a process of its own wherever it runs.
    width
        How many tasks run at once.
    stop
        Ends the tasks that run.
    is_gone
        Whether the executor will never finish a task again.
    has_workers
        Whether anything can run at the moment.
    """

    executor: Executor
    width: int
    stop: threading.Event
    is_gone: Callable[[], bool] = lambda: False
    has_workers: Callable[[], bool] = lambda: True

    def submit(self, task: WorkerTask) -> Future[TaskOutcome]:
        """Start `task`.

        Raises
        ------
        MetronomeError
            If the executor is gone.
        """
        self.check()
        return self.executor.submit(run_task, task, self.stop)

    def check(self) -> None:
        """Raise a `MetronomeError` if the executor is gone."""
        if self.is_gone():
            raise MetronomeError(
                "the cluster is gone; what is recorded stays, "
                "and the same command with --resume goes on"
            )


@contextmanager
def local_pool(processes: int = 1) -> Iterator[Pool]:
    """Yield a pool of this machine; leaving it kills what still runs."""
    stop = threading.Event()
    with ThreadPoolExecutor(processes) as executor:
        try:
            yield Pool(executor, processes, stop)
        finally:
            stop.set()


@contextmanager
def dask_pool(address: str, processes: int | None = None) -> Iterator[Pool]:
    """Yield a pool of a running Dask cluster; leaving it kills what still runs there.

    Its workers need this package installed; limits are enforced where a task runs.

    Parameters
    ----------
    address
        Of the scheduler, ``tcp://HOST:PORT``.
    processes
        How many tasks at once; None for one per thread of the workers.

    Raises
    ------
    MissingBackendError
        If `distributed` is not installed.
    InputError
        If no scheduler answers, or it has no workers.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingBackendError(
            "--dask needs distributed, which is not installed: pip install 'metronome-opt[bench]'"
        ) from None
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--dask: no scheduler answers at {quote(address)} ({type(error).__name__}); "
            "give it as tcp://HOST:PORT"
        ) from None

    def has_workers() -> bool:
        try:
            return bool(client.nthreads())
        except Exception:  # whatever it raises once the scheduler is gone, a state of its own
            return True

    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(
                f"--dask: the scheduler at {quote(address)} has no workers; start some"
            )
        stop = distributed.Event(client=client)
        executor = client.get_executor(pure=False)  # two equal tasks are two tasks
        try:
            gone: Callable[[], bool] = lambda: client.status == "closed"  # noqa: E731
            yield Pool(executor, processes or threads, stop, gone, has_workers)
        finally:
            with suppress(Exception):  # whatever it raises once the scheduler is gone
                stop.set()
                executor.shutdown(wait=has_workers())
