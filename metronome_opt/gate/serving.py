"""Answers to scrapes of Prometheus over HTTP, from threads of their own."""

from __future__ import annotations

import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metronome_opt.gate.burst import Burst
    from metronome_opt.gate.gate import Gate


class Server:
    """A server on one address.

    Attributes
    ----------
    address
        Host and port that it listens on.
    """

    def __init__(self, gate: Gate, host: str, port: int) -> None:
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
        self.address: tuple[str, int] = self._server.socket.getsockname()[:2]
        thread = threading.Thread(
            target=self._server.serve_forever, name="metronome-gate-metrics", daemon=True
        )
        thread.start()

    def add(self, ended: list[Burst]) -> None:
        """Do nothing: totals are read when somebody asks."""

    def write(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def drop(self) -> None:
        """Close the socket of a process that was forked, in which no thread listens to it."""
        self._server.socket.close()
