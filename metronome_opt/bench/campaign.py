"""Campaigns: many cases, each a task somewhere, each outcome recorded as soon as it is there.

Nothing here knows what a case is about, as long as it can be told apart, run and recorded. Tasks
run in processes of this machine, or on the workers of a Dask cluster.
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

from metronome_opt.bench.process import Outcome, Task, close_idle, run_task
from metronome_opt.errors import InputError, MetronomeError, MissingBackendError, quote
from metronome_opt.journal import Journal
from metronome_opt.records import FrozenMap, NonNegative, Positive

_CONNECT_S = 10
_LOOK_S = 5.0


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class CaseRecord:
    """What a record of any campaign says.

    Attributes
    ----------
    kind
        What came of the case, in a word.
    seed, time_limit_s, memory_limit_mb
        How it ran; memory in 2**20 bytes, None for no limit.
    notes, error
        What the task had to say; why it brought nothing.
    runtime_s
        Seconds by the task's own clock, compiling and imports left out; None if it did not end by
        itself.
    wall_s, peak_memory_mb
        From outside: seconds from the start of the process to its end, imports included, and the
        largest memory of all its processes together that was seen.
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
        """What tells it from every other one; that of its case."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """Which case it was, for people."""
        raise NotImplementedError

    @property
    def went_well(self) -> bool:
        """Whether it brought what it was run for."""
        return self.kind in ("schedule", "done")

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""
        raise NotImplementedError


R = TypeVar("R", bound=CaseRecord)


class Case(Protocol[R]):
    """What a campaign runs."""

    @property
    def key(self) -> Hashable:
        """What tells it from every other one."""

    def task(self) -> Task:
        """Return what is to be run."""

    def record(self, outcome: Outcome) -> R:
        """Return what is recorded of the outcome."""

    def may_end_better(self, record: R) -> bool:
        """Return whether another attempt may bring more than a record of it."""


C = TypeVar("C", bound=Case[Any])


def to_run(cases: Iterable[C], records: Iterable[CaseRecord]) -> list[C]:
    """Return the cases without a record, and those that another attempt may bring to an end."""
    held = {record.key: record for record in records}
    return [case for case in cases if case.key not in held or case.may_end_better(held[case.key])]


class _Watcher(Protocol):
    """Told how a campaign gets on."""

    def recorded(self, record: Any) -> None:
        """Take note of a record that is in the file."""

    def lost(self, case: Any, error: Exception) -> None:
        """Take note of a case that could not be run; it is not in the file."""


def run_campaign(cases: Iterable[Case[R]], pool: Pool, file: Journal[R], watcher: _Watcher) -> None:
    """Run `cases` and append their records to `file`.

    As many cases as the pool is wide run at once. The next one starts when a record is judged and
    written, so that judging disturbs nothing that runs alone. A case that cannot be run (a worker
    of a cluster that died with it, say, or input that makes no task) is left out, and the others
    go on.

    Raises
    ------
    MetronomeError
        If the pool is gone, and with it everything that is not recorded.
    """
    waiting = _tasks(cases, watcher)
    running: dict[Future[Outcome], Case[R]] = {}
    while True:
        for case, task in islice(waiting, pool.width - len(running)):
            running[pool.submit(task)] = case
        if not running:
            return
        pool.check()
        for future in wait(running, _LOOK_S, return_when=FIRST_COMPLETED).done:
            case = running.pop(future)
            try:
                outcome = future.result()
            except Exception as error:
                watcher.lost(case, error)
                continue
            record = case.record(outcome)
            file.append(record)
            watcher.recorded(record)


def _tasks(cases: Iterable[Case[R]], watcher: _Watcher) -> Iterator[tuple[Case[R], Task]]:
    for case in cases:
        try:
            yield case, case.task()
        except InputError as error:
            watcher.lost(case, error)


# ------------------------------------------------------------------ pools


@dataclass(frozen=True)
class Pool:
    """An executor of `concurrent.futures`, and how much to ask of it at once.

    Attributes
    ----------
    executor
        Its threads only wait: each task is a process of its own wherever it runs.
    width
        How many tasks run at once.
    stop
        Tells the tasks that run to end.
    is_gone
        Whether the executor will never finish a task again.
    """

    executor: Executor
    width: int
    stop: threading.Event
    is_gone: Callable[[], bool] = lambda: False

    def submit(self, task: Task) -> Future[Outcome]:
        """Have `task` run.

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
    try:
        with ThreadPoolExecutor(processes) as executor:
            try:
                yield Pool(executor, processes, stop)
            finally:
                stop.set()
    finally:
        close_idle()


@contextmanager
def dask_pool(address: str, processes: int | None = None) -> Iterator[Pool]:
    """Yield a pool of a Dask cluster that is there already; leaving it kills what still runs there.

    Its workers need this package installed; memory and time are watched where a task runs.

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
        If no scheduler answers, or none of its workers is there.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingBackendError(
            "--dask needs distributed, which is not installed: pip install 'metronome-opt[dask]'"
        ) from None
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--dask: no scheduler answers at {quote(address)} ({type(error).__name__}); "
            "give it as tcp://HOST:PORT"
        ) from None
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(
                f"--dask: the scheduler at {quote(address)} has no workers; start some"
            )
        stop = distributed.Event(client=client)
        executor = client.get_executor(pure=False)  # two equal tasks are two tasks
        try:
            yield Pool(executor, processes or threads, stop, lambda: client.status == "closed")
        finally:
            with suppress(Exception):  # whatever it raises once the scheduler is gone
                stop.set()
                executor.shutdown(wait=True)
            with suppress(Exception):
                client.run(close_idle)
