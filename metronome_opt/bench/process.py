"""One task in one child process, with limits on time and memory.

Start. A task is a fresh Python process in a session and a folder of its own.

Time. The task says when it is ready, after imports and compilation; from then on it has its time
limit, a tenth of the limit more, and a grace, by default 10 s. A process that still runs is killed,
with all its descendants.

Memory. The child limits the size of its data segment (RLIMIT_DATA), and so that of every process it
starts. RLIMIT_AS would count address space that is only reserved: OR-Tools with 8 threads reserves
2.5 times what it uses. A library may abort when an allocation is refused; the last line of its
output then tells that from a crash.

Descendants are known by a variable in their environment: children of a crashed process have lost
their parent, and back ends run in sessions of their own.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

import metronome_opt
from metronome_opt.plugins import find_versions

if TYPE_CHECKING:
    from resource import struct_rusage

TASK_FILE, MESSAGES_FILE, _OUTPUT_FILE = "task.pickle", "messages.jsonl", "output.txt"
_WORKER = "metronome_opt.bench.worker"
MARK = "METRONOME_TASK"
_POLL_S = 0.05
_POLL_STOP_S = 1.0  # the event of a cluster is a request to its scheduler
_SWEEPS = 5
_OUTPUT_LENGTH = 300
_OUT_OF_MEMORY = ("bad_alloc", "out of memory", "cannot allocate memory", "memoryerror")
_PACKAGE = Path(metronome_opt.__file__).parent

Ending = Literal["ended", "time", "startup", "stopped"]
Send = Callable[..., None]
"""Sends an event, with fields by name, to the process that started a task."""
Task = Callable[[Send], None]
"""The work of a child process.

It sends ``ready`` when its clock starts and ``end`` when it is done; an exception is sent for it.
"""


@dataclass(frozen=True)
class Limits:
    """Bounds on the time and memory of a task.

    Attributes
    ----------
    time_s
        The limit that the task knows and keeps by itself if it can.
    memory_mb
        Largest data segment of a process of the task, in 2**20 bytes; None for no limit.
    startup_s
        Time until the task is ready: compiling all kernels takes minutes on a busy machine.
    grace_s
        Time beyond 1.1 times the limit.
    """

    time_s: float
    memory_mb: int | None = None
    startup_s: float = 600.0
    grace_s: float = 10.0

    @property
    def killed_after_s(self) -> float:
        """Seconds after it is ready at which the task is killed."""
        return 1.1 * self.time_s + self.grace_s


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task.

    Attributes
    ----------
    ending
        ``ended`` by itself, or killed because of its ``time``, because it did not get ready
        (``startup``) or because its campaign ended (``stopped``).
    status
        Exit status, negative for a signal; None if it was killed from here.
    messages
        The messages of the task, in order.
    last_output
        The last line that the task printed, cut short.
    circumstances
        ``wall_s``, seconds from start to end, imports included; ``peak_memory_mb``, the largest
        resident memory of any one of its processes, at least that of the process that started it;
        ``started`` (UTC), ``machine``, ``versions``, ``commit``.
    """

    ending: Ending
    status: int | None
    messages: tuple[dict[str, Any], ...]
    last_output: str
    circumstances: dict[str, Any]

    def first(self, event: str) -> dict[str, Any]:
        """Return the first message of an event; an empty one if there is none."""
        return next((message for message in self.messages if message["event"] == event), {})

    @property
    def error_kind(self) -> str:
        """The kind of the error: that of its message, ``out_of_memory`` or ``crash``."""
        refused = any(words in self.last_output.lower() for words in _OUT_OF_MEMORY)
        kind: str = self.first("error").get("kind", "out_of_memory" if refused else "crash")
        return kind

    def describe(self, limits: Limits) -> str:
        """Return the error, or else the way in which the task ended."""
        if text := self.first("error").get("text"):
            return str(text)
        over = limits.killed_after_s - limits.time_s
        if self.status is None:
            return {
                "time": f"killed {over:g} s after its limit of {limits.time_s:g} s",
                "startup": f"killed, not ready {limits.startup_s:g} s after its start",
            }.get(self.ending, "killed, since the campaign ended")
        how = f"exit status {self.status}"
        if self.status < 0:
            how = f"ended by signal {-self.status} ({signal.strsignal(-self.status)})"
        return f"{how}: {self.last_output}" if self.last_output else how


def run_task(task: bytes, limits: Limits, packages: tuple[str, ...], stop: Event) -> TaskOutcome:
    """Run a task to its end or to its limits; end it within a second or so of `stop`.

    Parameters
    ----------
    task
        A pickled `Task`, which `metronome_opt.bench.worker` calls in a child process.
    limits
        Bounds on its time and memory.
    packages
        Distributions whose versions are recorded.
    stop
        An event of this process or one of a cluster.

    Returns
    -------
    TaskOutcome
        Its messages and circumstances, whatever ended it.
    """
    circumstances: dict[str, Any] = {
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": describe_machine(),
        "versions": find_versions(packages),
        "commit": find_commit(),
    }
    with TemporaryDirectory(prefix="metronome-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        messages, output = folder / MESSAGES_FILE, folder / _OUTPUT_FILE
        (folder / TASK_FILE).write_bytes(task)
        begin = time.perf_counter()
        with output.open("wb") as stream:
            process = subprocess.Popen(  # noqa: S603 (this Python, a module of the package)
                # -P: a file in the folder must not pass for a module.
                [sys.executable, "-P", "-m", _WORKER, str(limits.memory_mb or 0)],
                cwd=folder,
                stdin=subprocess.PIPE,  # its end tells the child that this process is gone
                stdout=stream,
                stderr=stream,
                env={**os.environ, MARK: name, "TMPDIR": name},
                start_new_session=True,  # Ctrl-C in a terminal reaches it through this process
            )
        ended = None
        try:
            ending, ended = _wait(process.pid, limits, messages, stop)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            kill_marked(name)
            _, status, usage = ended or os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            process.communicate()
        circumstances["wall_s"] = round(time.perf_counter() - begin, 3)
        # In bytes on macOS, in 1024 of them elsewhere.
        unit = 2**20 if sys.platform == "darwin" else 2**10
        circumstances["peak_memory_mb"] = round(usage.ru_maxrss / unit, 1)
        # A line that the task could not end is dropped.
        lines = messages.read_bytes().split(b"\n")[:-1] if messages.exists() else ()
        return TaskOutcome(
            ending,
            process.returncode if ending == "ended" else None,
            tuple(map(json.loads, lines)),
            _last_line(output),
            circumstances,
        )


def _wait(
    process: int, limits: Limits, messages: Path, stop: Event
) -> tuple[Ending, tuple[int, int, struct_rusage] | None]:
    """Wait until a task ends or must be killed; return the reason, and the result of `os.wait4`."""
    polled_stop = time.perf_counter()
    limit: Ending = "startup"
    deadline = polled_stop + limits.startup_s
    while not (ended := os.wait4(process, os.WNOHANG))[0]:
        time.sleep(_POLL_S)
        now = time.perf_counter()
        if limit == "startup" and messages.exists() and messages.stat().st_size:
            limit, deadline = "time", now + limits.killed_after_s
        if now > deadline:
            return limit, None
        if now >= polled_stop:
            polled_stop = now + _POLL_STOP_S
            if stop.is_set():
                return "stopped", None
    return "ended", ended


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


# ------------------------------------------------------------------ provenance


def describe_machine() -> dict[str, str | int | None]:
    """Return the processor, the usable cores, the memory in MB (2**20 bytes) and the system."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "system": platform.platform(),
    }


def find_commit(package: Path = _PACKAGE) -> str | None:
    """Return the commit of the checkout of `package`, None if there is no checkout.

    ``+`` is appended if a file of the package differs from the commit or is new. A package that
    git does not track, an installed one inside another checkout, say, has no commit.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = _git(package, "rev-parse", "--short", "HEAD")
    changed = _git(package, "status", "--porcelain", "--", ".")
    return f"{commit}+" if commit and changed else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git, None if git fails or is missing."""
    try:
        ended = subprocess.run(  # noqa: S603 (arguments are ours)
            ["git", "-C", str(folder), *arguments],  # noqa: S607 (whichever git the user has)
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return ended.stdout.strip()


def _processor() -> str | None:
    """Return the name of the processor; ``platform`` knows none on Linux."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(names, None)
    return platform.processor() or None
