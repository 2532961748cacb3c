"""One task in a process of its own, its limits enforced from outside.

Start. A process is forked from one that has imported everything and loaded all kernels (`_Server`).

Time. The task says when it is ready, that is, when imports and compilation are behind it; from then
on it has its time limit, a tenth of it more, and a grace, by default 10 s. What is still there is
killed, with all its descendants.

Memory. The resident memory of the whole tree of processes is looked at ten times a second, and the
tree is killed when it goes over the limit, so what is allocated between two looks may go over it
for a moment, and pages that two of the processes share are counted twice. The limits that the
kernel offers fit less well: RLIMIT_AS counts address space, of which a run of OR-Tools with 8
threads reserves 2.5 times what it uses; RLIMIT_DATA counts what was reserved and never touched;
both hold for each process alone, where HiGHS is a second process; and an allocation that
is refused inside a library ends in an abort, which cannot be told from a crash.

Programs that a task starts are known by a variable in their environment, since those of a process
that has crashed have lost their parent, and HiGHS runs in a session of its own. What it forks is of
its process group.
"""

from __future__ import annotations

import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import IO, Any, Literal, cast

import psutil

import metronome_opt

TASK_FILE, MESSAGES_FILE, OUTPUT_FILE = "task.json", "messages.jsonl", "output.txt"
MARK = "METRONOME_TASK"
LOADED = b"loaded\n"  # what a server says before the first exit status
_LOOK_S = 0.1
_LOOK_AT_FLAG_S = 1.0  # the flag of a cluster is a question to its scheduler
_LAST_WORD_S = 5.0  # for a server to notice that its child was killed
_SWEEPS = 5
_LAST_WORDS = 300
_ALWAYS = ("metronome-opt", "numpy", "numba")
_PACKAGE = Path(metronome_opt.__file__).parent

Ending = Literal["ended", "time", "memory", "startup", "stopped"]


@dataclass(frozen=True)
class Limits:
    """Bounds on the time and memory of a task.

    Attributes
    ----------
    time_s
        The limit that the task knows of and keeps by itself if it can.
    memory_mb
        Of all its processes together, in 2**20 bytes; None for no limit.
    startup_s
        Until it is ready, once everything is loaded that any task needs: compiling all kernels for
        the first time takes minutes on a busy machine, and is no task's fault.
    grace_s
        What it is granted beyond 1.1 times its limit.
    """

    time_s: float
    memory_mb: int | None = None
    startup_s: float = 120.0
    grace_s: float = 10.0

    @property
    def killed_after_s(self) -> float:
        """Seconds after it is ready at which the task is killed."""
        return 1.1 * self.time_s + self.grace_s


@dataclass(frozen=True)
class Task:
    """A unit of work for a worker process.

    Attributes
    ----------
    worker
        Arguments of ``python -m``; `metronome_opt.bench.worker.serve` is its other half.
    document
        What it is to do, written to its folder.
    packages
        Distributions whose versions are of interest.
    """

    worker: str
    document: dict[str, Any]
    limits: Limits
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes
    ----------
    ending
        ``ended`` by itself, or killed for its ``time`` or ``memory``, because it did not get ready
        (``startup``) or because nobody waits for it any more (``stopped``).
    status
        Exit status, negative for a signal; None if it was killed from here.
    messages
        What it said, in order.
    last_words
        The last line that it printed, cut short.
    circumstances
        ``wall_s``, seconds from start to end, for the first task of a process those of loading as
        well; ``peak_memory_mb``, the largest memory of all its processes together that was seen,
        None if it ended too soon; ``started`` (UTC), ``machine``, ``versions``, ``commit``.
    """

    ending: Ending
    status: int | None
    messages: tuple[dict[str, Any], ...]
    last_words: str
    circumstances: dict[str, Any]

    def said(self, event: str) -> dict[str, Any]:
        """Return what the task said first of an event; nothing if it did not say so."""
        return next((told for told in self.messages if told["event"] == event), {})

    def how_it_ended(self, limits: Limits) -> str:
        """Return in a few words how a task ended that did not say so itself."""
        match self.ending:
            case "time":
                over = limits.killed_after_s - limits.time_s
                return f"killed {over:g} s after its limit of {limits.time_s:g} s"
            case "memory":
                peak = self.circumstances["peak_memory_mb"]
                return f"killed at {peak} MB, above the limit of {limits.memory_mb} MB"
            case "startup":
                return f"killed, not ready {limits.startup_s:g} s after its start"
            case "stopped":
                return "killed, since the campaign ended"
            case "ended":
                how = f"exit status {self.status}"
                if self.status is not None and self.status < 0:
                    name = signal.strsignal(-self.status)
                    how = f"ended by signal {-self.status} ({name})"
                return f"{how}: {self.last_words}" if self.last_words else how


def run_task(task: Task, stop: Event) -> Outcome:
    """Run `task` to its end or to its limits; end it within a second or so of `stop`.

    `stop` is an event of this process or one of a cluster.
    """
    circumstances: dict[str, Any] = {
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": describe_machine(),
        "versions": find_versions(task.packages),
        "commit": find_commit(),
    }
    with TemporaryDirectory(prefix="metronome-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / TASK_FILE).write_text(json.dumps(task.document), encoding="utf-8")
        begin = time.perf_counter()
        server = _take_server(task.worker, folder)
        try:
            server.begin(folder)
            ending, status, peak = _watch(server, task.limits, folder / MESSAGES_FILE, stop)
            wall_s = time.perf_counter() - begin
        finally:
            server.end_task()
            _kill_marked(name)
        if server.alive and ending != "stopped":
            _IDLE[task.worker].append(server)
        else:
            server.close()
        circumstances["wall_s"] = round(wall_s, 3)
        circumstances["peak_memory_mb"] = round(peak / 2**20, 1) or None
        messages = _messages(folder / MESSAGES_FILE)
        return Outcome(ending, status, messages, _last_words(folder / OUTPUT_FILE), circumstances)


def _watch(
    server: _Server, limits: Limits, messages: Path, stop: Event
) -> tuple[Ending, int | None, int]:
    """Wait until a task ends or has to be ended; return how, its status and its peak in bytes."""
    begin = look_at_flag = time.perf_counter()
    ready_at: float | None = None
    peak = 0
    while True:
        status = server.wait(_LOOK_S)
        if status is not None:
            return "ended", status, peak
        peak = max(peak, server.resident)
        now = time.perf_counter()
        if not server.loaded:
            begin = now
        if limits.memory_mb is not None and peak > limits.memory_mb * 2**20:
            return "memory", None, peak
        if ready_at is None and messages.exists() and messages.stat().st_size:
            ready_at = now
        if ready_at is None and now - begin > limits.startup_s:
            return "startup", None, peak
        if ready_at is not None and now - ready_at > limits.killed_after_s:
            return "time", None, peak
        if now >= look_at_flag:
            look_at_flag = now + _LOOK_AT_FLAG_S
            if stop.is_set():
                return "stopped", None, peak


def _kill_marked(mark: str) -> None:
    """Kill what a task has started and left behind; it may start another while we look."""
    for _ in range(_SWEEPS):
        found = False
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # ended meanwhile, or somebody else's
                if process.environ().get(MARK) == mark:
                    found = True
                    process.kill()
        if not found:
            return


def _messages(path: Path) -> tuple[dict[str, Any], ...]:
    """Read what a task said; a line that it could not end is left out."""
    if not path.exists():
        return ()
    return tuple(json.loads(line) for line in path.read_bytes().split(b"\n")[:-1])


def _last_words(path: Path) -> str:
    """Return the last line that is not empty."""
    if not path.exists():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 10 * _LAST_WORDS))
        lines = stream.read().decode(errors="replace").split("\n")
    return next((line.strip()[:_LAST_WORDS] for line in reversed(lines) if line.strip()), "")


# ------------------------------------------------------------------ servers


class _Server:
    """A process that has everything loaded and forks a child for each task, which begins at once.

    The end of its standard input says that we are gone, to it and to its child. In `folder`, that
    of the first task, it says why it cannot start. `loaded` is whether it has loaded everything.
    """

    def __init__(self, worker: str, folder: Path) -> None:
        with (folder / OUTPUT_FILE).open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 (this Python, a module of the caller's)
                # -P: a file in the folder must not pass for a module.
                [sys.executable, "-P", "-m", *worker.split()],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,  # a line that was read ahead would not be waited for
                env={**os.environ, MARK: str(folder.with_name("server"))},
                start_new_session=True,  # Ctrl-C in a terminal reaches it through us alone
            )
        self.loaded = False
        self._busy = False
        self._folders = cast("IO[bytes]", self._process.stdin)
        self._statuses = cast("IO[bytes]", self._process.stdout)
        self._poll = select.poll()
        self._poll.register(self._statuses, select.POLLIN)

    @property
    def alive(self) -> bool:
        """Whether it can take another task."""
        return self._process.poll() is None

    @property
    def resident(self) -> int:
        """Resident bytes of the task and all that it has started."""
        total = 0
        for process in self._children():
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total

    def begin(self, folder: Path) -> None:
        """Have a child take the task of a folder."""
        self._busy = True
        with suppress(BrokenPipeError):  # it has died; waiting for the child says so
            self._folders.write(json.dumps(str(folder)).encode() + b"\n")
            self._folders.flush()

    def wait(self, seconds: float) -> int | None:
        """Return the exit status of the child, or of a server that has died; None if it runs."""
        if not self._poll.poll(1000 * seconds):
            return None
        line = self._statuses.readline()
        if line == LOADED:
            self.loaded = True
            return None
        self._busy = False
        return int(line) if line else self._process.wait()

    def end_task(self) -> None:
        """Kill the child if it still runs."""
        if not self._busy:
            return
        children = self._children()
        for process in children:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if not children or self.wait(_LAST_WORD_S) is None:
            self.close()

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        with suppress(BrokenPipeError, ValueError):  # closed before
            self._process.communicate()

    def _children(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []


_IDLE: defaultdict[str, list[_Server]] = defaultdict(list)
"""Servers that wait for another task, by worker."""


def _take_server(worker: str, folder: Path) -> _Server:
    """Return a server that waits, or a new one if there is none."""
    while True:
        try:
            server = _IDLE[worker].pop()
        except IndexError:
            return _Server(worker, folder)
        if server.alive:
            return server
        server.close()


def close_idle() -> None:
    """End the servers that wait for another task."""
    for servers in list(_IDLE.values()):
        while servers:
            servers.pop().close()


# ------------------------------------------------------------------ provenance


def describe_machine() -> dict[str, str | int | None]:
    """Return processor, cores that may be used, memory in MB (2**20 bytes) and system."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "system": platform.platform(),
    }


def find_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of Python, of this package and of `packages` where they are installed."""
    versions = {"python": platform.python_version()}
    for name in (*_ALWAYS, *packages):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def find_commit(package: Path = _PACKAGE) -> str | None:
    """Return the commit that `package` is checked out from, None if it is not in a checkout.

    ``+`` is appended if a file of the package differs from the commit or is new. A package that
    git does not track, an installed one inside somebody's checkout, say, has no commit.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = _git(package, "rev-parse", "--short", "HEAD")
    changed = _git(package, "status", "--porcelain", "--", ".")
    return f"{commit}+" if commit and changed else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints, None if it fails or is not there."""
    try:
        told = subprocess.run(  # noqa: S603 (arguments are ours)
            ["git", "-C", str(folder), *arguments],  # noqa: S607 (whichever git the user has)
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def _processor() -> str | None:
    """Return the name of the processor; ``platform`` knows none on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)
