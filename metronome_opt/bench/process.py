"""One task in a process of its own, its limits enforced from outside.

Start. A process that has imported everything and loaded all kernels forks one child for each task,
so that a campaign of short tasks does not spend its time on starting Python.

Time. The task says when it is ready, that is, when imports and compilation are behind it; from then
on it has its time limit, a tenth of it more, and a grace, by default 10 s. What is still there is
killed, with all its descendants.

Memory. The resident memory of the whole tree of processes is looked at ten times a second, and the
tree is killed when it goes over the limit, so what is allocated between two looks may go over it
for a moment, and pages that two of the processes share are counted twice. The limits that the
kernel offers fit less well: RLIMIT_AS counts address space, of which a run of OR-Tools with 8
threads reserves 2.5 times what it uses; RLIMIT_DATA counts what was reserved and never touched;
both hold for each process alone, where HiGHS and CBC are second processes; and an allocation that
is refused inside a library ends in an abort, which cannot be told from a crash.

Descendants are known by a variable in their environment, since those of a process that has
crashed have lost their parent, and HiGHS runs in a session of its own.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Literal, Protocol, cast

import psutil

from metronome_opt.bench.provenance import describe_machine, find_commit, find_versions

TASK_FILE, MESSAGES_FILE, OUTPUT_FILE = "task.json", "messages.jsonl", "output.txt"
MARK = "METRONOME_TASK"
_LOOK_S = 0.1
_LOOK_AT_FLAG_S = 1.0  # the flag of a cluster is a question to its scheduler
_SWEEPS = 5
_LAST_WORD_S = 5.0  # for a server to notice that a child was killed
_LAST_WORDS = 300

Ending = Literal["ended", "time", "memory", "startup", "stopped"]


class Flag(Protocol):
    """What tells running tasks to end: a `threading.Event` or one of a cluster."""

    def is_set(self) -> bool:
        """Whether to end."""

    def set(self) -> None:
        """Tell everybody to end."""


@dataclass(frozen=True)
class Limits:
    """What a task may take.

    Attributes
    ----------
    time_s
        The limit that the task knows of and keeps by itself if it can.
    memory_mb
        Of all its processes together, in 2**20 bytes; None for no limit.
    startup_s
        Until it is ready: imports, and compiling kernels for the first time.
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
    """What to run.

    Attributes
    ----------
    module
        Run as ``python -m module``; `metronome_opt.bench.worker.serve` is its other half.
    document
        What it is to do, written to the folder.
    limits
        What it may take.
    packages
        Distributions whose versions are of interest.
    """

    module: str
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
    started, wall_s
        UTC; seconds from start to end.
    peak_memory_mb
        Largest memory of all its processes together that was seen, None if it ended too soon.
    machine, versions, commit
        See `provenance`.
    """

    ending: Ending
    status: int | None
    messages: tuple[dict[str, Any], ...]
    last_words: str
    started: str
    wall_s: float
    peak_memory_mb: float | None
    machine: dict[str, str | int | None]
    versions: dict[str, str]
    commit: str | None


def run_task(task: Task, stop: Flag) -> Outcome:
    """Run `task` to its end or to its limits; end it within a second or so of `stop`."""
    machine, versions = describe_machine(), find_versions(task.packages)
    commit = find_commit()
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with TemporaryDirectory(prefix="metronome-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / TASK_FILE).write_text(json.dumps(task.document), encoding="utf-8")
        begin = time.perf_counter()
        server = _IDLE[task.module].pop() if _IDLE[task.module] else _Server(task.module, folder)
        server.begin(folder)
        watch = _Watch(server, task.limits, folder / MESSAGES_FILE)
        try:
            ending = watch.until_end(stop)
        finally:
            wall_s = time.perf_counter() - begin
            server.end_task(mark=name)
            if watch.stopped:
                server.close()
            elif server.alive:
                _IDLE[task.module].append(server)
        return Outcome(
            ending=ending,
            status=watch.status,
            messages=_messages(folder / MESSAGES_FILE),
            last_words=_last_words(folder / OUTPUT_FILE),
            started=started,
            wall_s=round(wall_s, 3),
            peak_memory_mb=round(watch.peak / 2**20, 1) or None,
            machine=machine,
            versions=versions,
            commit=commit,
        )


def close_idle() -> None:
    """End the processes that wait for another task."""
    for servers in _IDLE.values():
        while servers:
            servers.pop().close()


class _Server:
    """A process that has a module loaded, and forks a child for each task that it is told of.

    The end of its standard input says that we are gone, to it and to its child.
    """

    def __init__(self, module: str, folder: Path) -> None:
        with (folder / OUTPUT_FILE).open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 (this Python, a module of the caller's)
                # -P: a file in the folder must not pass for a module.
                [sys.executable, "-P", "-m", module],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, MARK: str(folder.with_name("server"))},
                start_new_session=True,  # Ctrl-C in a terminal reaches it through us alone
            )
        self._process, self._busy = process, False
        self._folders = cast("IO[bytes]", process.stdin)
        self._statuses = cast("IO[bytes]", process.stdout)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def resident(self) -> int:
        """Resident bytes of the task and all that it has started."""
        total = 0
        for process in self._tasks(recursive=True):
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total

    def begin(self, folder: Path) -> None:
        """Have a child take the task of a folder."""
        self._busy = True
        with suppress(BrokenPipeError):  # it has died; waiting for the child says so
            self._folders.write(os.fsencode(folder) + b"\n")
            self._folders.flush()

    def wait(self, seconds: float) -> int | None:
        """Return the exit status of the child, or of a server that has died; None if it runs."""
        if not select.select([self._statuses], [], [], seconds)[0]:
            return None
        self._busy = False
        line = self._statuses.readline()
        return int(line) if line else self._process.wait()

    def end_task(self, mark: str) -> None:
        """Kill what is left of a task; what died without its parent is known by its mark."""
        if self._busy:
            tasks = self._tasks(recursive=True)
            for process in tasks:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            if not tasks or self.wait(_LAST_WORD_S) is None:
                self.close()
        for _ in range(_SWEEPS):  # one may start another while we look
            if not _kill_marked(mark):
                break

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()

    def _tasks(self, *, recursive: bool = False) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=recursive)
        return []


_IDLE: defaultdict[str, list[_Server]] = defaultdict(list)
"""Processes that wait for another task, by module."""


class _Watch:
    """Looks at a process until it ends or has to be ended."""

    def __init__(self, server: _Server, limits: Limits, messages: Path) -> None:
        self._server = server
        self._limits = limits
        self._messages = messages
        self._begin = time.perf_counter()
        self._ready_at: float | None = None
        self.peak = 0  # bytes
        self.status: int | None = None
        self.stopped = False

    def until_end(self, stop: Flag) -> Ending:
        look_at_flag = self._begin
        while True:
            self.status = self._server.wait(_LOOK_S)
            if self.status is not None:
                return "ended"
            self.peak = max(self.peak, self._server.resident)
            now = time.perf_counter()
            over = self._over(now)
            if over is not None:
                return over
            if now >= look_at_flag:
                look_at_flag = now + _LOOK_AT_FLAG_S
                if stop.is_set():
                    self.stopped = True
                    return "stopped"

    def _over(self, now: float) -> Ending | None:
        limits = self._limits
        if limits.memory_mb is not None and self.peak > limits.memory_mb * 2**20:
            return "memory"
        if self._ready_at is None:
            if self._messages.exists() and self._messages.stat().st_size:
                self._ready_at = now
            return "startup" if now - self._begin > limits.startup_s else None
        return "time" if now - self._ready_at > limits.killed_after_s else None


def _kill_marked(mark: str) -> bool:
    found = False
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # ended meanwhile, or somebody else's
            if process.environ().get(MARK) == mark:
                found = True
                process.kill()
    return found


def _messages(path: Path) -> tuple[dict[str, Any], ...]:
    """Read what a task said; a line that it could not end is left out."""
    if not path.exists():
        return ()
    return tuple(json.loads(line) for line in path.read_bytes().split(b"\n")[:-1])


def _last_words(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 10 * _LAST_WORDS))
        lines = stream.read().decode(errors="replace").split("\n")
    return next((line.strip()[:_LAST_WORDS] for line in reversed(lines) if line.strip()), "")
