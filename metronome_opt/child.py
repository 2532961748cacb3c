"""A task in a child process with hard limits, gone when its parent is.

The task is a pickled function of `Send`. Its messages, JSON objects, come through a pipe of their
own, so that what libraries print does not mix with them, and none is lost when the child is killed.

The child is a fresh Python, or the fork of a process that has loaded what many tasks need. The
loaded process has one thread and one task at a time; messages through a socket are the descriptors
of a task, then the number of its process, then its end. Python's own ``forkserver`` is refused in
the daemonic processes of a Dask cluster.

Memory. The child limits the size of its data segment (RLIMIT_DATA), and so that of every process it
starts. RLIMIT_AS would count address space that is only reserved: OR-Tools with 8 threads reserves
2.5 times what it uses.

Descendants are known by a variable in their environment: children of a crashed process have lost
their parent, and back ends run in sessions of their own. A fork keeps the environment, and so the
mark, of the loaded process. Standard input of a child is a pipe that ends with its parent, and then
the child kills itself with all descendants.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Send = Callable[..., None]
"""Sends a message, its fields by name, to the parent."""
Task = Callable[[Send], object]

MARK = "METRONOME_TASK"
_ROOT = str(Path(__file__).parents[1])
_POLL_S = 0.05
_SWEEPS = 5
_OUTPUT_LENGTH = 300
_TASK = "task"  # in the folder of a child
_MESSAGE = 2**12


@dataclass(frozen=True)
class ChildEnd:
    """End of a child process.

    Attributes
    ----------
    status
        Exit status, negative for a signal.
    last_output
        The last line that it printed, cut short.
    peak_memory_mb
        The largest resident memory of any one of its processes, in 2**20 bytes.
    """

    status: int
    last_output: str
    peak_memory_mb: float


def run_child(
    task: bytes,
    receive: Callable[[dict[str, Any]], object],
    control: Callable[[], int | None],
    memory_mb: int = 0,
    load: bytes | None = None,
) -> ChildEnd:
    """Run a task in a child process, in a process group and a folder of its own, until it ends.

    Parameters
    ----------
    task
        A pickled `Task`.
    receive
        Takes the messages, in order. If it or `control` raises, the child is killed.
    control
        Returns a signal for the child, if it is to end; it is asked every 50 ms.
    memory_mb
        Limit of the data segment in 2**20 bytes; 0 for no limit.
    load
        A pickled function that imports and compiles what many tasks need. On Linux the child is the
        fork of a process that has called it, and that stays until `close_idle`; an error of `load`
        ends the child. Elsewhere the child is a fresh Python.

    Returns
    -------
    ChildEnd
        How the child ended, by itself or by a signal.
    """
    with TemporaryDirectory(prefix="metronome-", ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "output.txt"
        (Path(folder) / _TASK).write_bytes(task)
        pipe, pipe_of_child = os.pipe()
        stdin_of_child, stdin = os.pipe()
        with (
            output.open("wb") as stream,
            open(pipe, "rb", buffering=0) as messages,  # noqa: PTH123
            open(stdin, "wb"),  # noqa: PTH123 (it ends with this process)
        ):
            try:
                fds = stdin_of_child, stream.fileno(), pipe_of_child
                child = _start(folder, memory_mb, fds, load)
            finally:
                os.close(stdin_of_child)
                os.close(pipe_of_child)
            end: _End | None = None
            partial = b""
            try:
                while end is None:
                    if select.select([messages], [], [], _POLL_S)[0]:
                        partial = _receive(partial + messages.read(2**16), receive)
                    end = child.poll()
                    if end is None and (number := control()):
                        with suppress(ProcessLookupError):  # a fork that is waited for elsewhere
                            os.kill(child.pid, number)
            finally:
                end = end or child.poll()
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                if MARK not in os.environ:
                    kill_marked(child.folder, child.loaded)
                while end is None:
                    end = child.poll(0)
                child.release()
            # A line that the child could not end is dropped.
            _receive(partial + messages.read(), receive)
        status, peak = end
        # In bytes on macOS, in 1024 of them elsewhere.
        peak_mb = peak / (2**20 if sys.platform == "darwin" else 2**10)
        return ChildEnd(status, _last_line(output), round(peak_mb, 1))


def _start(folder: str, memory_mb: int, fds: tuple[int, int, int], load: bytes | None) -> _Fresh:
    """Start a child with descriptors of its input, its output and its messages."""
    if load is None or sys.platform != "linux":
        return _Fresh(folder, *fds, memory_mb)
    try:
        child = _idle.setdefault(load, []).pop()
    except IndexError:
        child = _Loaded(load)
    if child.poll() is not None:  # it was killed when it was idle
        child.close()
        child = _Loaded(load)
    child.fork(folder, memory_mb, fds)
    return child


class _Fresh:
    """A Python that runs this file with some numbers as arguments.

    Attributes
    ----------
    folder
        Its working directory, and its mark.
    pid
        The process that runs the task.
    loaded
        The process that stays; 0 if none does.
    """

    loaded = 0

    def __init__(self, folder: str, stdin: int, output: int, fd: int, *numbers: int) -> None:
        self.folder = folder
        self._process = subprocess.Popen(  # noqa: S603 (this Python, this file)
            # -P: a file beside this one must not pass for a module.
            [sys.executable, "-P", __file__, *map(str, (fd, *numbers))],
            cwd=folder,
            stdin=stdin,
            stdout=output,
            stderr=output,
            pass_fds=(fd,),
            env={MARK: folder, **os.environ, "TMPDIR": folder},  # marked by the outermost one
            start_new_session=True,  # Ctrl-C in a terminal reaches it through this process
        )
        self.pid = self._process.pid

    def poll(self, options: int = os.WNOHANG) -> _End | None:
        """Return its exit status and its largest resident memory; None while it runs."""
        pid, status, usage = os.wait4(self._process.pid, options)
        if not pid:
            return None
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode, usage.ru_maxrss

    def release(self) -> None:
        """Give up what is left of it when the task has ended."""


class _Loaded(_Fresh):
    """A Python that has loaded what tasks need, and its fork that runs a task."""

    def __init__(self, load: bytes) -> None:
        self._load = load
        self._directory = TemporaryDirectory(prefix="metronome-", ignore_cleanup_errors=True)
        folder = self._directory.name
        (Path(folder) / _TASK).write_bytes(load)
        self._socket, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with end:
            super().__init__(folder, subprocess.DEVNULL, subprocess.DEVNULL, end.fileno())
        self.loaded = self.pid

    def fork(self, folder: str, memory_mb: int, fds: Iterable[int]) -> None:
        """Ask for a fork; until it is there, what is killed is the loaded process."""
        self.pid = self.loaded
        socket.send_fds(self._socket, [json.dumps([folder, memory_mb]).encode()], fds)

    def poll(self, options: int = os.WNOHANG) -> _End | None:
        """Return the end of its fork, or else its own; None while it runs, or has no task."""
        try:
            message = self._socket.recv(_MESSAGE, socket.MSG_DONTWAIT if options else 0)
        except BlockingIOError:
            return None
        except ConnectionError:
            message = b""
        if not message:
            return super().poll(0)
        pid, *end = json.loads(message)
        self.pid = pid
        return (end[0], end[1]) if end else None

    def release(self) -> None:
        """Keep it for the next task, unless it has ended."""
        if self._process.returncode is None:
            _idle[self._load].append(self)
        else:
            self.close()

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._directory.cleanup()


_End = tuple[int, int]  # exit status, largest resident memory as getrusage counts it
_idle: dict[bytes, list[_Loaded]] = {}  # by what they have loaded


def close_idle() -> None:
    """End the loaded processes that wait for a task."""
    for idle in [*_idle.values()]:
        with suppress(IndexError):
            while True:
                idle.pop().close()


def _receive(text: bytes, receive: Callable[[dict[str, Any]], object]) -> bytes:
    """Hand on the messages of whole lines; return the rest of the text."""
    *lines, partial = text.split(b"\n")
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:  # begun twice, since a signal came between
            continue
        receive(message)
    return partial


def kill_marked(mark: str, spared: int = 0) -> None:
    """Kill the other processes that bear a mark, also those that start meanwhile."""
    wanted = f"{MARK}={mark}\0".encode()
    kept = {Path(f"/proc/{process}/environ") for process in (os.getpid(), spared)}
    for _ in range(_SWEEPS):
        is_left = False
        others = set(Path("/proc").glob("[0-9]*/environ")) - kept
        for path in others:
            with suppress(OSError):  # ended meanwhile, or of another user
                if wanted in path.read_bytes():
                    is_left = True
                    os.kill(int(path.parent.name), signal.SIGKILL)
        if not is_left:
            return


def _last_line(path: Path) -> str:
    """Return the last line that is not empty."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 10 * _OUTPUT_LENGTH))
        lines = stream.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:_OUTPUT_LENGTH] if lines else ""


# ------------------------------------------------------------------ in the child


def _main(fd: int, memory_mb: int | None = None) -> None:
    sys.path.insert(0, _ROOT)
    import metronome_opt  # noqa: F401 (the parent's, not one that is installed elsewhere)

    sys.path.remove(_ROOT)
    if memory_mb is None:
        _serve(socket.socket(fileno=fd))
    else:
        _run(fd, memory_mb)


def _serve(connection: socket.socket) -> None:
    """Load what tasks need, and fork for one task after the other."""
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads: OpenBLAS ends its
    parent = os.getppid()

    def end_with_parent(*_: object) -> None:
        if os.getppid() != parent:
            os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end_with_parent)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)  # not a thread, which forks would lack
    is_loaded = False
    while True:
        request, fds, _, _ = socket.recv_fds(connection, _MESSAGE, 3)
        if not request:
            return
        folder, memory_mb = json.loads(request)
        stdin, output, pipe = fds
        for number, fd in enumerate((stdin, output, output)):
            os.dup2(fd, number)
        os.close(stdin)
        os.close(output)
        if not is_loaded:
            pickle.loads(Path(_TASK).read_bytes())()  # noqa: S301 (of the parent)
            signal.setitimer(signal.ITIMER_REAL, 0)
            is_loaded = True
            gc.freeze()  # else the collections of forks copy all memory
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            connection.send(json.dumps([os.getpid()]).encode())
            connection.close()
            os.chdir(folder)
            os.environ["TMPDIR"] = folder
            tempfile.tempdir = None
            _run(pipe, memory_mb)
            sys.stdout.flush()
            os._exit(0)  # else the interpreter's end copies the memory that it shares
        os.close(pipe)
        _, status, usage = os.wait4(child, 0)
        end = child, os.waitstatus_to_exitcode(status), usage.ru_maxrss
        connection.send(json.dumps(end).encode())


def _run(pipe: int, memory_mb: int) -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory_mb * 2**20
    if limit and (hard == resource.RLIM_INFINITY or limit < hard):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def send(**message: Any) -> None:
        # One write a line: threads cannot mix.
        line = json.dumps(message).encode() + b"\n"
        with turn:
            while line:
                line = line[os.write(pipe, line) :]

    turn = threading.Lock()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    task: Task = pickle.loads(Path(_TASK).read_bytes())  # noqa: S301 (of the parent)
    task(send)


def _end_with_parent() -> None:
    """End, with all descendants, when standard input ends."""
    while os.read(0, 1):
        pass
    kill_marked(os.environ[MARK])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
