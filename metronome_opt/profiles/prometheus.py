"""Throughput from Prometheus: the raw samples of counters, or the values of an expression.

Needs the extra `monitor`.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import pandas as pd

from metronome_opt.errors import InputError, MissingBackendError, show
from metronome_opt.profiles.samples import Samples, from_series

try:
    import anyio
    import httpx2
    import tenacity
    from anyio.from_thread import start_blocking_portal
except ModuleNotFoundError as error:
    raise MissingBackendError(
        f"reading from Prometheus needs {error.name}, which is not installed: "
        "pip install 'metronome-opt[monitor]'"
    ) from None
from metronome_opt.profiles.answers import Labels, PrometheusError, read_answer, shown, told

__all__ = ["NODE_COUNTER", "POD_COUNTER", "Labels", "Prometheus", "PrometheusError", "selector"]

NODE_COUNTER = "node_network_transmit_bytes_total"
"""Of node_exporter, by `device`: all that leaves an interface, read when it is scraped."""

POD_COUNTER = "container_network_transmit_bytes_total"
"""Of the kubelet's cAdvisor, by `namespace`, `pod` and `interface`: what leaves a pod, read as
often as the kubelet is set to, which may be too seldom to see bursts."""

_MAX_POINTS = 11_000  # so many points of a series Prometheus calculates for one query
_MAX_QUERIES = 1_000
_RAW_PIECE_MS = 600_000
_CONNECT_S = 5.0
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_back_off = tenacity.wait_random_exponential(multiplier=1, max=30.0)

_Series = dict[Labels, "pd.Series[float]"]


def selector(metric: str, **labels: str) -> str:
    """Return the PromQL that selects the series of `metric` with exactly these labels.

    >>> selector(NODE_COUNTER, instance="n-1:9100", device="eth0")
    'node_network_transmit_bytes_total{instance="n-1:9100",device="eth0"}'

    Raises
    ------
    InputError
        If a name is none that Prometheus takes.
    """
    for name, pattern in [(metric, _METRIC), *((label, _LABEL) for label in labels)]:
        if not pattern.fullmatch(name):
            raise InputError(f"{show(name)}: no name of Prometheus; use letters, digits and _")
    matchers = ",".join(
        f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in labels.items()
    )
    return f"{metric}{{{matchers}}}"


class Prometheus:
    """A Prometheus server, or what speaks its query language over HTTP.

    Whatever may pass is asked again: no answer, a slow or broken one, nonsense, an answer with
    warnings, status 408, 429 and 5xx. In between it waits for random times that grow
    exponentially, or for as long as the server says. A PrometheusError says what came of it in the
    end; times that are none, or too long, are an InputError.

    Parameters
    ----------
    url
        Its address, ``http://HOST:PORT`` and perhaps a path; ``USER:PASSWORD@`` is never shown.
    timeout_s
        Limit on each whole exchange, seconds.
    attempts
        How often to ask in all.
    partial
        Take answers that carry warnings: something is missing from them.
    headers
        Sent along, say ``{"Authorization": "Bearer ..."}``.
    max_bytes
        Limit on the size of an answer.
    sleep
        Waits for that many seconds.

    Raises
    ------
    InputError
        If an argument cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 30.0,
        attempts: int = 4,
        partial: bool = False,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = 64 * 2**20,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise InputError(f"timeout_s: {show(timeout_s)}: must be above 0")
        if attempts < 1:
            raise InputError(f"attempts: {show(attempts)}: must be at least 1")
        for name, value in (headers or {}).items():  # what they hold may be a secret
            if not (value.isascii() and value.isprintable()):
                raise InputError(f"headers.{show(name)}: must be printable ASCII text on one line")
        self._url = _address(url)
        self._where = shown(self._url)
        self._timeout_s = timeout_s
        self._partial = partial
        self._headers = dict(headers or {})
        self._max_bytes = max_bytes
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(attempts),
            wait=lambda state: max(_back_off(state), getattr(_error_of(state), "wait_s", 0.0)),
            retry=tenacity.retry_if_exception(lambda error: not getattr(error, "final", True)),
            sleep=sleep,
            reraise=True,
        )

    def __str__(self) -> str:
        return self._where

    def raw(
        self,
        selector: str,
        start_s: float,
        end_s: float,
        *,
        counter: bool = True,
        unit: str | None = None,
    ) -> dict[Labels, Samples]:
        """Return the samples as they were scraped, at their own times: the way to see bursts.

        A range query would move each sample to the next of its steps and repeat it where scrapes
        are missing, which looks like a pause and a burst.

        Parameters
        ----------
        selector
            Of series, without a range: see `selector`.
        start_s, end_s
            The time to read, seconds since the epoch, both ends included.
        counter, unit
            What the series hold, as in `from_series`: bytes sent since some moment by default.

        Returns
        -------
        dict
            By labels, which no two series share. Empty if there are none.
        """
        start_ms, end_ms = _milliseconds(start_s, end_s)

        def form(first: int, last: int) -> dict[str, str]:
            # Whether the range includes its beginning depends on the version of Prometheus.
            return {"query": f"{selector}[{last - first + 1}ms]", "time": _seconds(last)}

        pieces = _pieces(start_ms, end_ms, _RAW_PIECE_MS, 1)
        return _join(self._ask("api/v1/query", pieces, form), counter=counter, unit=unit)

    def range(
        self, query: str, start_s: float, end_s: float, step_s: float, *, unit: str = "byte"
    ) -> dict[Labels, Samples]:
        """Return the values of an expression at all multiples of a step.

        Parameters
        ----------
        query
            PromQL for throughput, such as ``irate(COUNTER[1m])``. A `rate` over a whole period
            would wipe out its bursts.
        start_s, end_s
            The time to read, seconds since the epoch, both ends included.
        step_s
            The step, seconds, at least 0.001.
        unit
            Per second, in which the expression is: one of `UNITS`.

        Returns
        -------
        dict
            By labels, which no two series share. Empty if there are none.
        """
        start_ms, end_ms = _milliseconds(start_s, end_s)
        step_ms = round(step_s * 1000) if math.isfinite(step_s) else 0
        if step_ms < 1:
            raise InputError(f"step_s: {show(step_s)}: must be at least 0.001")
        # Some servers answer at multiples of the step whatever is asked for.
        start_ms = -(-start_ms // step_ms) * step_ms

        def form(first: int, last: int) -> dict[str, str]:
            times = {"start": _seconds(first), "end": _seconds(last), "step": _seconds(step_ms)}
            return {"query": query, **times}

        pieces = _pieces(start_ms, end_ms, (_MAX_POINTS - 1) * step_ms, step_ms)
        return _join(self._ask("api/v1/query_range", pieces, form), counter=False, unit=unit)

    def _ask(
        self,
        path: str,
        pieces: Iterable[tuple[int, int]],
        form: Callable[[int, int], Mapping[str, str]],
    ) -> Iterator[_Series]:
        """Ask for one piece of time after the other, each until it is answered."""
        for first, last in pieces:
            yield self._retrying(self._ask_once, path, form(first, last), first, last)

    def _ask_once(self, path: str, form: Mapping[str, str], first: int, last: int) -> _Series:
        """Ask, and return what lies between two moments, milliseconds since the epoch."""
        # A read time-out alone does not help against a server that sends a byte now and then, in
        # the head of its answer or in the body. So the exchange runs in an event loop of its own,
        # where it can be abandoned as a whole; in a thread, because notebooks already run one.
        with start_blocking_portal() as portal:
            response, body = portal.call(self._exchange, path, form)
        series = read_answer(response, body, self._where, partial=self._partial)
        for points in series.values():
            if ((points.index < first - 1) | (points.index > last)).any():
                raise PrometheusError(
                    f"{self._where}: samples from outside the time asked for; is it a Prometheus?"
                )
        return {labels: points[points.index >= first] for labels, points in series.items()}

    async def _exchange(self, path: str, form: Mapping[str, str]) -> tuple[httpx2.Response, bytes]:
        """Send a form to a path; return the whole answer, if it comes within the limits."""
        limit_s, where = self._timeout_s, self._where
        timeout = httpx2.Timeout(limit_s, connect=min(_CONNECT_S, limit_s))
        data = {**form, "timeout": f"{limit_s:g}"}
        body = bytearray()
        try:
            with anyio.fail_after(limit_s):
                async with (
                    httpx2.AsyncClient(headers=self._headers, timeout=timeout) as client,
                    client.stream("POST", self._url.join(path), data=data) as response,
                ):
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > self._max_bytes:
                            raise PrometheusError(
                                f"{where}: the answer is larger than {self._max_bytes} bytes; "
                                "ask for a shorter time or for fewer series",
                                final=True,
                            )
                    return response, bytes(body)
        except httpx2.ConnectTimeout:
            fault = f"no connection within {timeout.connect:g} s; is the address right?"
        except (TimeoutError, httpx2.TimeoutException):
            fault = f"no whole answer within {limit_s:g} s; ask for less, or allow more time"
        except httpx2.HTTPError as error:
            said = told(str(error)) or type(error).__name__
            fault = f"cannot be reached ({said}); is it up, is the address right?"
            if not isinstance(error, httpx2.ConnectError):
                fault = f"the exchange broke off ({said}); is there a Prometheus at this address?"
        raise PrometheusError(f"{where}: {fault}")


def _address(url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url)
        usable = parsed.scheme in {"http", "https"} and parsed.host and (parsed.port or 0) < 2**16
    except (httpx2.InvalidURL, ValueError, TypeError):
        raise InputError("the address of Prometheus is no URL; give http://HOST:PORT") from None
    if not usable:
        raise InputError(
            f"{show(shown(parsed))}: not the address of a server; give http://HOST:PORT"
        )
    if parsed.query or parsed.fragment:
        raise InputError(
            f"{shown(parsed)}: give its address without what follows a question mark or #"
        )
    return parsed.copy_with(path=parsed.path.rstrip("/") + "/")


def _milliseconds(start_s: float, end_s: float) -> tuple[int, int]:
    if not (math.isfinite(start_s) and math.isfinite(end_s) and start_s < end_s):
        raise InputError(
            f"from {show(start_s)} to {show(end_s)} s: is no time; begin before the end"
        )
    return round(start_s * 1000), round(end_s * 1000)


def _pieces(start: int, end: int, length: int, step: int) -> Iterable[tuple[int, int]]:
    """Cut the multiples of `step` from `start` to `end` into pieces no longer than `length`."""
    stride = length // step * step + step
    if end - start >= _MAX_QUERIES * stride:
        raise InputError(
            f"{(end - start) / 1000:g} s: takes more than {_MAX_QUERIES} queries; "
            "ask for a shorter time or a longer step"
        )
    return [(first, min(first + stride - step, end)) for first in range(start, end + 1, stride)]


def _join(answers: Iterable[_Series], *, counter: bool, unit: str | None) -> dict[Labels, Samples]:
    parts: dict[Labels, list[pd.Series[float]]] = {}
    for answer in answers:
        for labels, points in answer.items():
            parts.setdefault(labels, []).append(points)
    series = {labels: pd.concat(points) for labels, points in parts.items()}
    return {
        labels: from_series(points.set_axis(points.index / 1000), counter=counter, unit=unit)
        for labels, points in series.items()
    }


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _error_of(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
