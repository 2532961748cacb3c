"""Sinks of measurements: lines of a file, answers to scrapes.

No sink ever fails its gate: what cannot be written or opened is one warning, and the gate goes on
without it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from metronome_opt.gate.burst import Burst

_CREATE = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC


class Record:
    """A file with a line of JSON for each burst, appended once a second.

    A line has ``at``, when the burst began, in seconds since the epoch; ``iteration`` and
    ``phase``, from 0; ``waited_ms``; ``late_ms``, null without a window; ``burst_ms``;
    ``iteration_ms``, in the first burst of an iteration, since the iteration before began, else
    null; ``sent_bytes``, null if unknown; and ``job`` and ``task``, the `labels`. `warn` is called
    with a message when the file cannot be written any more.
    """

    def __init__(self, path: str, labels: dict[str, Any], warn: Callable[[str], None]) -> None:
        self._path, self._warn = path, warn
        self._labels = json.dumps(labels)[1:]
        self._file: int | None = os.open(path, _CREATE, 0o666)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # a writer before was killed in the middle of a line

    def write(self, ended: list[Burst]) -> None:
        """Append the lines of some bursts that have ended."""
        if self._file is None:
            return
        # Some names are no UTF-8.
        left = "".join(map(self._line, ended)).encode(errors="backslashreplace")
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            self.close()
            self._warn(f"{self._path}: {reason_of(error)}; bursts are not recorded any more")

    def close(self) -> None:
        """Leave the file, also to the process that this one was forked from."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

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


class Server:
    """Answers to scrapes over HTTP at ``HOST:PORT``, from threads of their own."""

    def __init__(self, place: str, text: Callable[[], str], warn: Callable[[str], None]) -> None:
        # These take longer to import than all that other gates need.
        import socket
        import socketserver
        import sys
        import threading
        from http.server import BaseHTTPRequestHandler

        host, _, port = place.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise ValueError("must be HOST:PORT")
        host = host.removeprefix("[").removesuffix("]")

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads = True  # one that is slow holds up neither others nor the end
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            allow_reuse_address = True

            def handle_error(self, *_: Any) -> None:
                """Say nothing of scrapers that hang up."""
                error = sys.exc_info()[1]
                if isinstance(error, Exception) and not isinstance(error, OSError):
                    warn(f"{place}: {reason_of(error)}; a scrape is not answered")

        class Handler(BaseHTTPRequestHandler):
            timeout = 2  # seconds, for one that asks nothing

            def do_GET(self) -> None:
                """Answer a scrape."""
                known = self.path.partition("?")[0] in ("/", "/metrics")
                body = text().encode() if known else b"try /metrics\n"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing of scrapes."""

        self._server = Listener((host, int(port)), Handler)
        self.address: tuple[str, int] = self._server.socket.getsockname()[:2]
        thread = threading.Thread(
            target=self._server.serve_forever, name="metronome-gate-metrics", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._server.server_close()
            raise

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def drop(self) -> None:
        """Close the socket of a process that was forked, in which no thread listens to it."""
        self._server.socket.close()


def reason_of(error: Exception) -> str:
    """Return what an error says, without numbers of the operating system."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def _ms(ns: int | None) -> str:
    return "null" if ns is None else f"{ns // 10**6}.{ns % 10**6:06d}"
