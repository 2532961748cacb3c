"""Where what was measured goes: lines of a file, a file of metrics, answers to scrapes.

None of them ever fails its gate: what cannot be written or opened is one warning, and the gate goes
on without it.
"""

from __future__ import annotations

import atexit
import json
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from metronome_opt.gate.burst import Burst
    from metronome_opt.gate.gate import Gate

Path = str | os.PathLike[str]

_FLUSH_NS = 10**9
_CREATE = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC


class Sink(Protocol):
    """What gets to know of every burst."""

    def add(self, burst: Burst, now: int) -> None:
        """Take note of a burst that has just ended."""

    def close(self) -> None:
        """Write what is not written yet."""

    def drop(self) -> None:
        """Leave everything to the process that this one was forked from."""


def open_sinks(gate: Gate, record: Path | None, metrics: Path | None) -> list[Sink]:
    """Return what was asked for, as far as it can be had."""
    sinks: list[Sink] = []
    if record:
        try:
            sinks.append(Record(gate, os.fspath(record)))
        except (OSError, ValueError) as error:
            gate.warn(f"{record}: {_why(error)}; bursts are not recorded")
    if metrics:
        try:
            sinks.append(_metrics(gate, os.fspath(metrics)))
        except (OSError, ValueError, OverflowError) as error:
            gate.warn(f"{metrics}: {_why(error)}; no metrics are given")
    if sinks:
        atexit.register(gate.close)
    return sinks


def _metrics(gate: Gate, metrics: str) -> Sink:
    if metrics.endswith(".prom"):
        return TextFile(gate, metrics)
    host, _, port = metrics.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise ValueError("must be HOST:PORT, or a path that ends in .prom")
    from metronome_opt.gate.serving import Server

    return Server(gate, host.removeprefix("[").removesuffix("]"), int(port))


class Record:
    """A file with a line of JSON for each burst, appended once a second.

    A line has ``at``, when the burst began, in seconds since the epoch; ``iteration`` and
    ``phase``, from 0; ``waited_ms``; ``late_ms``, null without a slot; ``burst_ms``;
    ``iteration_ms``, in the first burst of an iteration, since the iteration before began, else
    null; ``sent_bytes``, null if nobody told; ``job`` and ``task``.
    """

    def __init__(self, gate: Gate, path: str) -> None:
        self._gate, self._path = gate, path
        self._who = json.dumps({"job": gate.measured.job, "task": gate.measured.task})[1:]
        self._lines: list[str] = []
        self._flushed = 0
        self._file: int | None = os.open(path, _CREATE, 0o666)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            self._lines.append("\n")  # whoever wrote before was killed in the middle of a line

    def add(self, burst: Burst, now: int) -> None:
        """Take note of a burst, and write if a second has passed."""
        self._lines.append(
            f'{{"at": {burst.began_at // 10**9}.{burst.began_at % 10**9:09d}, '
            f'"iteration": {burst.iteration}, "phase": {burst.phase}, '
            f'"waited_ms": {_ms(burst.waited_ns)}, "late_ms": {_ms(burst.late_ns)}, '
            f'"burst_ms": {_ms(burst.ended - burst.began)}, '
            f'"iteration_ms": {_ms(burst.iteration_ns)}, '
            f'"sent_bytes": {_json(burst.sent_bytes)}, {self._who}\n'
        )
        if now - self._flushed >= _FLUSH_NS:
            self._flushed = now
            self._flush()

    def close(self) -> None:
        """Write what is not written yet."""
        self._flush()
        self.drop()

    def drop(self) -> None:
        """Close the file as it is."""
        self._lines = []
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _flush(self) -> None:
        if self._file is None:
            return
        left = "".join(self._lines).encode()
        self._lines = []
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            self.drop()
            self._gate.warn(f"{self._path}: {_why(error)}; bursts are not recorded any more")


class TextFile:
    """A file of metrics, as the textfile collector of node_exporter reads them."""

    def __init__(self, gate: Gate, path: str) -> None:
        self._gate, self._path = gate, path
        self._fresh = f"{path}.{os.getpid()}.tmp"
        self._written: int | None = None
        self._open = True

    def add(self, burst: Burst, now: int) -> None:  # noqa: ARG002 (what is written are totals)
        """Write the file anew if a second has passed."""
        if self._open and (self._written is None or now - self._written >= _FLUSH_NS):
            self._written = now
            self._write()

    def close(self) -> None:
        """Write the last totals."""
        if self._open:
            self._write()
        self._open = False

    def drop(self) -> None:
        """Write nothing any more."""
        self._open = False

    def _write(self) -> None:
        try:
            with open(self._fresh, "w", encoding="utf-8") as stream:  # noqa: PTH123 (light)
                stream.write(self._gate.metrics())
            os.replace(self._fresh, self._path)  # noqa: PTH105
        except OSError as error:
            self._open = False
            self._gate.warn(f"{self._path}: {_why(error)}; no metrics are written any more")


def _why(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def _ms(ns: int | None) -> str:
    return "null" if ns is None else f"{ns // 10**6}.{ns % 10**6:06d}"


def _json(number: int | None) -> str:
    return "null" if number is None else str(number)
