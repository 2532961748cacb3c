"""A task in a child process: a fresh Python with hard limits, gone when its parent is.

The task is a pickled function of `Send`. Its messages, JSON objects, come through a pipe of their
own, so that what libraries print does not mix with them, and none is lost when the child is killed.

Memory. The child limits the size of its data segment (RLIMIT_DATA), and so that of every process it
starts. RLIMIT_AS would count address space that is only reserved: OR-Tools with 8 threads reserves
2.5 times what it uses.

Descendants are known by a variable in their environment: children of a crashed process have lost
their parent, and back ends run in sessions of their own. Standard input of a child is a pipe that
ends with its parent, and then the child kills itself with all descendants.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
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
) -> ChildEnd:
    """Run a task in a child process, in a session and a folder of its own, until it ends.

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

    Returns
    -------
    ChildEnd
        How the child ended, by itself or by a signal.
    """
    with TemporaryDirectory(prefix="metronome-", ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "output.txt"
        pipe, pipe_of_child = os.pipe()
        with output.open("wb") as stream, open(pipe, "rb", buffering=0) as messages:  # noqa: PTH123
            process = subprocess.Popen(  # noqa: S603 (this Python, this file)
                # -P: a file beside this one must not pass for a module.
                [sys.executable, "-P", __file__, str(pipe_of_child), str(memory_mb)],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                pass_fds=(pipe_of_child,),
                env={MARK: folder, **os.environ, "TMPDIR": folder},  # marked by the outermost one
                start_new_session=True,  # Ctrl-C in a terminal reaches it through this process
            )
            os.close(pipe_of_child)
            ended: Any = (0, 0, None)
            partial = b""
            try:
                assert process.stdin is not None  # noqa: S101 (a pipe was asked for)
                with suppress(BrokenPipeError):  # it has ended; its output says why
                    process.stdin.write(task)
                    process.stdin.flush()
                while not ended[0]:
                    if select.select([messages], [], [], _POLL_S)[0]:
                        partial = _receive(partial + messages.read(2**16), receive)
                    ended = os.wait4(process.pid, os.WNOHANG)
                    if not ended[0] and (number := control()):
                        os.kill(process.pid, number)  # it is not waited for yet
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if MARK not in os.environ:
                    kill_marked(folder)
                _, status, usage = ended if ended[0] else os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                process.communicate()
            # A line that the child could not end is dropped.
            _receive(partial + messages.read(), receive)
        # In bytes on macOS, in 1024 of them elsewhere.
        peak_mb = usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        return ChildEnd(process.returncode, _last_line(output), round(peak_mb, 1))


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


def kill_marked(mark: str) -> None:
    """Kill the other processes that bear a mark, also those that start meanwhile."""
    wanted = f"{MARK}={mark}\0".encode()
    for _ in range(_SWEEPS):
        is_left = False
        others = set(Path("/proc").glob("[0-9]*/environ")) - {Path(f"/proc/{os.getpid()}/environ")}
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


def _main(pipe: int, memory_mb: int) -> None:
    import resource

    sys.path.insert(0, _ROOT)
    import metronome_opt  # noqa: F401 (the parent's, not one that is installed elsewhere)

    sys.path.remove(_ROOT)
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
    task: Task = pickle.load(sys.stdin.buffer)  # noqa: S301 (of the parent)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    task(send)


def _end_with_parent() -> None:
    """End, with all descendants, when standard input ends."""
    while os.read(0, 1):
        pass
    kill_marked(os.environ[MARK])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
