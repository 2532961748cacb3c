"""A server that answers as it is told to: well, badly or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str


class Handler(BaseHTTPRequestHandler):
    """Takes one request and lets the next of the answers deal with it; the last one stays."""

    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        told = self.server.told
        told.asked.append(Request(self.command, self.path, dict(self.headers), body))
        (told.answers.pop(0) if len(told.answers) > 1 else told.answers[0])(self)

    do_GET = do_PATCH = do_DELETE = do_POST  # noqa: N815 (names of the standard library)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Answer = Callable[[Handler], None]


@dataclass
class Told:
    """Where the server is, the answers to give, and what it was asked."""

    url: str
    answers: list[Answer]
    asked: list[Request] = field(default_factory=list)


class Server(ThreadingHTTPServer):
    """A server that is told what to say."""

    daemon_threads = True
    told: Told
    closing: threading.Event


@contextmanager
def fake(*answers: Answer) -> Iterator[Told]:
    server = Server(("127.0.0.1", 0), Handler)
    server.told = Told(f"http://127.0.0.1:{server.server_port}", list(answers))
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
