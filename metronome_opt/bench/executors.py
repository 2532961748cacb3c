"""Where tasks run: in processes of this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from metronome_opt.bench.process import Flag, Outcome, Task, run_task
from metronome_opt.bench.server import close_idle
from metronome_opt.errors import InputError, MetronomeError, MissingBackendError, show

_CONNECT_S = 10


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
    stop: Flag
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
            f"--dask: no scheduler answers at {show(address)} ({type(error).__name__}); "
            "give it as tcp://HOST:PORT"
        ) from None
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"--dask: the scheduler at {show(address)} has no workers; start some")
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
