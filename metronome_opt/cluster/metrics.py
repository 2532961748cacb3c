"""Answers to scrapes of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from metronome_opt.errors import InputError, quote


@contextmanager
def serve(address: str, registry: Any) -> Iterator[str]:
    """Answer scrapes at ``HOST:PORT`` while the block runs; yield the address of the metrics.

    Port 0 is any that is free; an IPv6 address stands in brackets.

    Raises
    ------
    InputError
        If the address is none or is taken.
    """
    from prometheus_client import start_http_server

    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise InputError(f"{quote(address)}: no address to listen on; give HOST:PORT")
    try:
        server, thread = start_http_server(int(port), host, registry)
    except OSError as error:
        raise InputError(
            f"{address}: cannot be listened on ({error.strerror}); choose another address"
        ) from None
    try:
        in_url = f"[{host}]" if ":" in host else host
        yield f"http://{in_url}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
