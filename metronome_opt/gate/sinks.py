"""Sinks of measurements: lines of a file, answers to scrapes.

None of them ever fails its gate: what cannot be written or opened is one warning, and the gate goes
on without it.
"""

from __future__ import annotations

import atexit
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metronome_opt.gate.burst import Burst
    from metronome_opt.gate.gate import Gate

Path = str | os.PathLike[str]

_CREATE = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC


class _Sink:
    """Base of the sinks."""

    address: tuple[str, int] | None = None

    def add(self, ended: list[Burst]) -> None:
        """Take note of some bursts that have ended; not needed by sinks of totals."""

    def write(self) -> None:
        """Write what is not written yet; called once a second, after a burst."""

    def close(self) -> None:
        """Write for the last time."""
        self.write()
        self.drop()

    def drop(self) -> None:
        """Leave everything to the process that this one was forked from."""


def open_sinks(gate: Gate, record: Path | None, metrics: str | None) -> list[_Sink]:
    """Return what was asked for, as far as it can be had."""
    sinks: list[_Sink] = []
    for place, make, missing in (
        (record, _Record, "bursts are not recorded"),
        (metrics, _metrics, "no metrics are given"),
    ):
        if place:
            try:
                sinks.append(make(gate, os.fspath(place)))
            except (OSError, ValueError, OverflowError, TypeError) as error:
                gate.warn(f"{place}: {_reason(error)}; {missing}")
    if sinks:
        atexit.register(gate.close)
    return sinks


def _metrics(gate: Gate, metrics: str) -> _Sink:
    host, _, port = metrics.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise ValueError("must be HOST:PORT")
    return _Server(gate, host.removeprefix("[").removesuffix("]"), int(port))


class _Record(_Sink):
    """A file with a line of JSON for each burst, appended once a second.

    A line has ``at``, when the burst began, in seconds since the epoch; ``iteration`` and
    ``phase``, from 0; ``waited_ms``; ``late_ms``, null without a slot; ``burst_ms``;
    ``iteration_ms``, in the first burst of an iteration, since the iteration before began, else
    null; ``sent_bytes``, null if unknown; ``job`` and ``task``.
    """

    def __init__(self, gate: Gate, path: str) -> None:
        self._gate, self._path = gate, path
        self._labels = json.dumps({"job": gate.measured.job, "task": gate.measured.task})[1:]
        self._lines: list[str] = []  # not written yet
        self._file: int | None = os.open(path, _CREATE, 0o666)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # a writer before was killed in the middle of a line

    def add(self, ended: list[Burst]) -> None:
        """Take note of some bursts that have ended."""
        self._lines += map(self._line, ended)

    def drop(self) -> None:
        """Close the file as it is."""
        self._lines = []
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def write(self) -> None:
        """Append the lines of bursts that are not written yet."""
        lines, self._lines = self._lines, []
        if self._file is None:
            return
        try:
            _write(self._file, "".join(lines))
        except OSError as error:
            self.drop()
            self._gate.warn(f"{self._path}: {_reason(error)}; bursts are not recorded any more")

    def _line(self, burst: Burst) -> str:
        began = burst.began_at
        return (
            f'{{"at": {began // 10**9}.{began % 10**9:09d}, '
            f'"iteration": {burst.iteration}, "phase": {burst.phase}, '
            f'"waited_ms": {_ms(burst.waited_ns)}, "late_ms": {_ms(burst.late_ns)}, '
            f'"burst_ms": {_ms(burst.ended - burst.began)}, '
            f'"iteration_ms": {_ms(burst.iteration_ns)}, '
            f'"sent_bytes": {"null" if burst.size is None else burst.size}, {self._labels}\n'
        )


class _Server(_Sink):
    """Answers to scrapes over HTTP, from threads of their own."""

    def __init__(self, gate: Gate, host: str, port: int) -> None:
        # These take longer to import than all that other gates need.
        import socket
        import socketserver
        import threading
        from http.server import BaseHTTPRequestHandler

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads = True  # one that is slow holds up neither others nor the end
            block_on_close = False
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            allow_reuse_address = True

            def handle_error(self, *_: Any) -> None:
                """Say nothing of scrapers that hang up."""

        class Handler(BaseHTTPRequestHandler):
            timeout = 2  # seconds, for one that asks nothing

            def do_GET(self) -> None:
                """Answer a scrape."""
                known = self.path.partition("?")[0] in ("/", "/metrics")
                body = gate.metrics().encode() if known else b"try /metrics\n"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing of scrapes."""

        self._server = Listener((host, port), Handler)
        self.address = self._server.socket.getsockname()[:2]
        thread = threading.Thread(
            target=self._server.serve_forever, name="metronome-gate-metrics", daemon=True
        )
        thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def drop(self) -> None:
        """Close the socket of a process that was forked, in which no thread listens to it."""
        self._server.socket.close()


def _write(file: int, text: str) -> None:
    left = text.encode(errors="backslashreplace")  # of names that are no UTF-8
    while left:
        left = left[os.write(file, left) :]


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def _ms(ns: int | None) -> str:
    return "null" if ns is None else f"{ns // 10**6}.{ns % 10**6:06d}"
