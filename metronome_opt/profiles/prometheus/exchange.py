"""One question over HTTP, and its whole answer within limits of time and size.

A read time-out alone does not help against a server that sends a byte now and then, in the head of
its answer or in the body. So the exchange runs in an event loop of its own, where it can be
abandoned as a whole. The loop has a thread to itself, because notebooks already run one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from metronome_opt.profiles.prometheus.failure import PrometheusError, told

CONNECT_S = 5.0


@dataclass(frozen=True)
class Reply:
    """What came back: the status, the address of a redirect, the wait asked for, the body."""

    status: int
    location: str | None
    wait_s: float | None
    body: bytes


@dataclass(frozen=True)
class Limits:
    """How long an exchange may take in all (seconds), and how large its answer may be (bytes)."""

    timeout_s: float
    max_bytes: int


def exchange(
    server: httpx.URL,
    path: str,
    form: Mapping[str, str],
    *,
    headers: Mapping[str, str],
    limits: Limits,
) -> Reply:
    """Send a form to a path below a server's address; return what comes back, whatever its status.

    Raises
    ------
    PrometheusError
        If no whole answer comes within the limits.
    """
    with start_blocking_portal() as portal:
        return portal.call(_exchange, server, path, form, headers, limits)


def shown(url: httpx.URL) -> str:
    """Return an address as it may be shown: without credentials, query and fragment."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")


async def _exchange(
    server: httpx.URL,
    path: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    limits: Limits,
) -> Reply:
    where = shown(server)
    timeout = httpx.Timeout(limits.timeout_s, connect=min(CONNECT_S, limits.timeout_s))
    try:
        with anyio.fail_after(limits.timeout_s):
            async with (
                httpx.AsyncClient(headers=headers, timeout=timeout) as client,
                client.stream("POST", server.join(path), data=form) as response,
            ):
                return Reply(
                    status=response.status_code,
                    location=_location(response),
                    wait_s=_wait(response.headers.get("Retry-After")),
                    body=await _body(response, where, limits.max_bytes),
                )
    except httpx.ConnectTimeout:
        raise PrometheusError(
            f"{where}: no connection within {timeout.connect:g} s; is the address right?"
        ) from None
    except (TimeoutError, httpx.TimeoutException):
        raise PrometheusError(
            f"{where}: no whole answer within {limits.timeout_s:g} s; "
            "ask for less, or allow more time"
        ) from None
    except httpx.ConnectError as error:
        raise PrometheusError(
            f"{where}: cannot be reached ({told(str(error))}); is it up, is the address right?"
        ) from None
    except httpx.HTTPError as error:
        raise PrometheusError(
            f"{where}: the exchange broke off ({told(str(error)) or type(error).__name__}); "
            "is there a Prometheus at this address?"
        ) from None


async def _body(response: httpx.Response, where: str, max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > max_bytes:
            raise PrometheusError(
                f"{where}: the answer is larger than {max_bytes} bytes; "
                "ask for a shorter time or for fewer series",
                final=True,
            )
    return bytes(body)


def _location(response: httpx.Response) -> str | None:
    if not response.has_redirect_location:
        return None
    try:
        return told(shown(response.url.join(response.headers["Location"])))
    except httpx.InvalidURL:
        return "nowhere"


def _wait(header: str | None) -> float | None:
    """Return the seconds that a Retry-After means: a number of them, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
