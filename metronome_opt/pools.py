"""Where tasks run: processes of this machine, workers of a Dask cluster, or any executor.

A pool is an executor of `concurrent.futures` and the number of tasks that it computes at once. A
task that is lost with its worker raises; whether it is given out again is its owner's business.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from metronome_opt.errors import InputError, MetronomeError, MissingBackendError, quote

_CONNECT_S = 10
_START_S = 600  # until workers have compiled all kernels, for minutes on a busy machine
_MAX_PROCESSES = 256
_ROOT = str(Path(__file__).parents[1])

T = TypeVar("T")


class PoolGoneError(MetronomeError, RuntimeError):
    """An executor that will not finish any task again."""


@dataclass(frozen=True)
class Pool:
    """An executor, and the number of tasks that it computes at once.

    Attributes
    ----------
    is_gone
        Whether the executor will never finish a task again.
    """

    executor: Executor
    width: int
    is_gone: Callable[[], bool] = lambda: False

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Future[T]:
        """Start a task; a `PoolGoneError` if the executor is gone."""
        self.check()
        try:
            return self.executor.submit(function, *arguments)
        except Exception as error:  # what it raises after its end depends on its kind
            raise PoolGoneError(f"{type(error).__name__}: {error}") from None

    def check(self) -> None:
        """Raise a `PoolGoneError` if the executor is gone."""
        if self.is_gone():
            raise PoolGoneError("its cluster does not answer any more")

    def warm_up(self, function: Callable[..., object], *arguments: Any) -> None:
        """Compute a first task on every worker, so that it has loaded what the next need.

        An `InputError` if the executor is gone, or none of its workers can compute anything.
        """
        try:
            tasks = [self.submit(function, *arguments) for _ in range(self.width)]
            done = wait(tasks, _START_S).done
            errors = [task.exception() for task in done] or [TimeoutError(f"{_START_S} s")]
        except PoolGoneError as error:
            errors = [error]
        if None not in errors:
            first, *_ = f"{errors[0]}".splitlines() or [""]
            raise InputError(
                f"executor: it cannot compute a task ({type(errors[0]).__name__}: {first}); "
                "give one that runs, and whose workers have this package"
            )


@contextmanager
def open_pool(executor: Executor | int | str) -> Iterator[Pool]:
    """Yield the pool that an argument stands for; what was started for it ends afterwards.

    Parameters
    ----------
    executor
        A number of processes of this machine, the address of a Dask scheduler, ``tcp://HOST:PORT``,
        or an executor, which stays open; a ``distributed.Client`` stands for its own.

    Raises
    ------
    InputError, MissingBackendError
        One line if it is of another type, no scheduler answers, or a library is missing.
    """
    if isinstance(executor, str):
        with dask_client(executor) as client:
            pool = pool_of(client)
            try:
                yield pool
            finally:
                with suppress(Exception):  # whatever it raises once the scheduler is gone
                    pool.executor.shutdown(wait=False, cancel_futures=True)
    elif isinstance(executor, int) and not isinstance(executor, bool):
        if not 1 <= executor <= _MAX_PROCESSES:
            raise InputError(
                f"executor: must be from 1 to {_MAX_PROCESSES} processes, got {quote(executor)}"
            )
        with ProcessExecutor(executor) as processes:
            yield Pool(processes, executor)
    elif isinstance(executor, Executor):
        width = getattr(executor, "_max_workers", None)
        yield Pool(executor, width if isinstance(width, int) else os.cpu_count() or 1)
    elif hasattr(executor, "get_executor") and hasattr(executor, "nthreads"):
        yield pool_of(executor)
    else:
        raise InputError(
            "executor: must be a number of processes, the address of a Dask scheduler or an "
            f"executor of concurrent.futures, got {quote(executor)}"
        )


# ------------------------------------------------------------------ Dask


@contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """Yield a client of a running Dask cluster, whose workers need this package installed.

    Raises
    ------
    InputError, MissingBackendError
        If no scheduler answers at ``tcp://HOST:PORT``, it has no workers, or Dask is missing.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingBackendError(
            "Dask needs distributed, which is not installed: pip install 'metronome-opt[dask]'"
        ) from None
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {quote(address)} ({type(error).__name__}); "
            "give the address of one that runs as tcp://HOST:PORT"
        ) from None
    with client:
        if not client.nthreads():
            raise InputError(f"the Dask scheduler at {quote(address)} has no workers; start some")
        yield client


def pool_of(client: Any) -> Pool:
    """Return the pool of a client of a Dask cluster, as wide as its workers have threads."""
    executor = client.get_executor(pure=False)  # two equal tasks are two tasks
    return Pool(executor, sum(client.nthreads().values()) or 1, lambda: client.status == "closed")


# ------------------------------------------------------------------ processes of this machine


class ProcessExecutor(Executor):
    """Processes of this machine. One that dies takes its task with it, and another takes its place.

    An executor of ``concurrent.futures`` ends as a whole if one of its processes is killed, and it
    imports the main program in all of them. Functions and results are pickled. Processes end with
    the executor, and with the process that started them.
    """

    def __init__(self, processes: int) -> None:
        self._threads = ThreadPoolExecutor(processes)  # each waits for a process
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; its future raises `BrokenExecutor` if its process dies."""
        return self._threads.submit(self._compute, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End the processes, with what they compute."""
        with self._lock:
            self._closed = True
            for process in (*self._idle, *self._busy):
                process.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    @property
    def pids(self) -> list[int]:
        """The processes that are there now."""
        with self._lock:
            return [process.pid for process in (*self._idle, *self._busy)]

    def _compute(self, *task: Any) -> Any:
        with self._lock:
            if self._closed:
                raise BrokenExecutor("the processes have ended")
            process = self._idle.pop() if self._idle else _Process()
            self._busy.add(process)
        is_lost = True
        try:
            has_failed, result = process.compute(task)
            is_lost = False
        except (OSError, EOFError):
            raise BrokenExecutor(f"process {process.pid} has ended with its task") from None
        finally:
            with self._lock:
                self._busy.remove(process)
                if is_lost:
                    process.kill()
                else:
                    self._idle.append(process)
        if has_failed:
            raise result
        return result


class _Process:
    """A fresh Python that computes one task after the other."""

    def __init__(self) -> None:
        self._connection, child = Pipe()
        with child:
            self._process = subprocess.Popen(  # noqa: S603 (this Python, this file)
                # -P: a file beside this one must not pass for a module.
                [sys.executable, "-P", __file__, str(child.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(child.fileno(),),
                start_new_session=True,  # Ctrl-C in a terminal is for its parent
            )
        self.pid = self._process.pid

    def compute(self, task: Any) -> tuple[bool, Any]:
        """Return whether a task failed, and what it returned or raised."""
        self._connection.send(task)
        answer: tuple[bool, Any] = self._connection.recv()
        return answer

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _serve(connection: Connection) -> None:
    """Compute the tasks that come, until the other end is closed."""
    tasks: SimpleQueue[bytes] = SimpleQueue()

    def receive() -> None:
        with suppress(EOFError, OSError):
            while True:
                tasks.put(connection.recv_bytes())
        os._exit(0)  # the parent is gone, and with it what waits for the result

    threading.Thread(target=receive, daemon=True).start()
    while True:
        try:
            function, arguments, options = pickle.loads(tasks.get())  # noqa: S301 (the parent's)
            answer = False, function(*arguments, **options)
        except Exception as error:
            answer = True, error
        connection.send(answer)


if __name__ == "__main__":
    sys.path.insert(0, _ROOT)
    import metronome_opt  # noqa: F401 (the parent's, not one that is installed elsewhere)

    sys.path.remove(_ROOT)
    _serve(Connection(int(sys.argv[1])))
