"""A server that answers as it is told to: well, badly or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl


class Handler(BaseHTTPRequestHandler):
    """Takes one request and lets the next of the answers deal with it; the last one stays."""

    server: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        form = dict(parse_qsl(self.rfile.read(length).decode()))
        self.server.told.asked.append((self.path, form, dict(self.headers)))
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answer(self)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Answer = Callable[[Handler], None]


@dataclass
class Told:
    """Where the server is and what it was asked: path, form, headers."""

    url: str
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)


class Server(ThreadingHTTPServer):
    """The answers to give, and what was asked."""

    daemon_threads = True
    answers: list[Answer]
    told: Told
    closing: threading.Event


@contextmanager
def fake(*answers: Answer) -> Iterator[Told]:
    server = Server(("127.0.0.1", 0), Handler)
    server.answers = list(answers)
    server.told = Told(f"http://127.0.0.1:{server.server_port}")
    server.closing = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.told
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def says(body: str | bytes, status: int = 200, **headers: str) -> Answer:
    content = body.encode() if isinstance(body, str) else body

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def matrix(*series: tuple[dict[str, str], list[list[Any]]], **more: Any) -> Answer:
    result = [{"metric": labels, "values": values} for labels, values in series]
    data = {"resultType": "matrix", "result": result}
    return says(json.dumps({"status": "success", "data": data, **more}))


def says_nothing(handler: Handler) -> None:
    handler.server.closing.wait()


def breaks_off(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"status": "succ')


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True


def dribbles_its_body(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not handler.server.closing.wait(0.02):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return
