"""Tasks of campaigns in child processes, with limits on time and memory.

The task says when it is ready, after imports and compilation; from then on it has its time limit, a
tenth of the limit more, and a grace, by default 10 s. A process that still runs is killed, with all
its descendants. A library may abort when an allocation is refused; the last line of its output then
tells that from a crash.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from traceback import format_exception
from typing import Any, Literal

import metronome_opt
from metronome_opt import child
from metronome_opt.errors import PluginError
from metronome_opt.plugins import find_versions

_POLL_STOP_S = 1.0  # the event of a cluster is a request to its scheduler
_OUT_OF_MEMORY = ("bad_alloc", "out of memory", "cannot allocate memory", "memoryerror")
_ERROR_LENGTH = 500
_MAX_LINES = 50  # of a traceback, its last ones
_PACKAGE = Path(metronome_opt.__file__).parent

Ending = Literal["ended", "time", "startup", "stopped"]
Send = Callable[..., None]
"""Sends an event, with fields by name, to the process that started a task."""
Task = Callable[[Send], None]
"""Sends ``ready`` when its clock starts and ``end`` when it is done; exceptions are sent for it."""


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
        ``wall_s``, seconds from start to end, with imports unless a process had done them;
        ``peak_memory_mb``, the largest resident memory of any one of its processes, at least that
        of the process that started it; ``started`` (UTC), ``machine``, ``versions``, ``commit``.
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


def run_task(
    task: bytes,
    limits: Limits,
    packages: tuple[str, ...],
    stop: Event,
    load: bytes | None = None,
) -> TaskOutcome:
    """Run a task to its end or to its limits; end it within a second or so of `stop`.

    Parameters
    ----------
    task
        A pickled `Task`.
    limits
        Bounds on its time and memory.
    packages
        Distributions whose versions are recorded.
    stop
        An event of this process or one of a cluster.
    load
        As of `child.run_child`.

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
    begin = polled_stop = time.perf_counter()
    deadline = begin + limits.startup_s
    limit: Ending = "startup"
    ending: Ending = "ended"
    messages: list[dict[str, Any]] = []

    def receive(message: dict[str, Any]) -> None:
        nonlocal deadline, limit
        messages.append(message)
        if limit == "startup":
            limit, deadline = "time", time.perf_counter() + limits.killed_after_s

    def control() -> int | None:
        nonlocal ending, polled_stop
        now = time.perf_counter()
        if now > deadline:
            ending = limit
        elif now >= polled_stop:
            polled_stop = now + _POLL_STOP_S
            if stop.is_set():
                ending = "stopped"
        return None if ending == "ended" else signal.SIGKILL

    work = pickle.dumps(partial(_run_reporting, task, limits.memory_mb))
    end = child.run_child(work, receive, control, limits.memory_mb or 0, load)
    circumstances["wall_s"] = round(time.perf_counter() - begin, 3)
    circumstances["peak_memory_mb"] = end.peak_memory_mb
    status = end.status if ending == "ended" else None
    return TaskOutcome(ending, status, tuple(messages), end.last_output, circumstances)


def _run_reporting(task: bytes, memory_mb: int | None, send: child.Send) -> None:
    """Run a pickled task in the child; its failure becomes its last message."""

    def send_event(event: str, **content: Any) -> None:
        send(event=event, **content)

    try:
        pickle.loads(task)(send_event)  # noqa: S301 (of the parent)
    except MemoryError:
        text = f"more memory than {memory_mb} MB was needed"
        send_event("error", kind="out_of_memory", text=text)
        raise SystemExit(1) from None
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        if isinstance(error, PluginError):
            text = str(error)
        lines = "".join(format_exception(error.__cause__ or error)).splitlines()
        notes = [line[:_ERROR_LENGTH] for line in lines[-_MAX_LINES:]]
        send_event("error", kind="crash", text=text[:_ERROR_LENGTH], notes=notes)
        raise SystemExit(1) from None


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
