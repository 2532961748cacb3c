"""Throughput from a Prometheus server: long times in several queries, each asked until answered."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import httpx
import numpy as np
import pandas as pd
import tenacity

from metronome_opt.errors import InputError, show
from metronome_opt.profiles.prometheus.answer import Labels, Points, read_answer
from metronome_opt.profiles.prometheus.exchange import Limits, exchange, shown
from metronome_opt.profiles.prometheus.failure import PrometheusError
from metronome_opt.profiles.samples import Samples, from_series

MAX_POINTS = 11_000
"""So many points of a series Prometheus calculates for one query."""

MAX_QUERIES = 1_000
RAW_PIECE_MS = 600_000

_LONGEST_BACK_OFF_S = 30.0


class Prometheus:
    """A Prometheus server, or what speaks its query language over HTTP.

    Whatever may pass is asked again: no answer, a slow or broken one, nonsense, an answer with
    warnings, status 408, 429 and 5xx. In between it waits for random times that grow
    exponentially, or for as long as the server says.

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
        self._url = _address(url)
        self._where = shown(self._url)
        self._limits = Limits(timeout_s, max_bytes)
        self._partial = partial
        self._headers = _checked(headers or {})
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(attempts),
            wait=_pause,
            retry=tenacity.retry_if_exception(_may_pass),
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

        Raises
        ------
        InputError
            If the time is none or too long.
        PrometheusError
            If there is no answer that can be used.
        """
        start_ms, end_ms = _milliseconds(start_s, end_s)
        pieces = _pieces(start_ms, end_ms, RAW_PIECE_MS, 1)

        def form(first: int, last: int) -> dict[str, str]:
            # Whether the range includes its beginning depends on the version of Prometheus.
            return {"query": f"{selector}[{last - first + 1}ms]", "time": _seconds(last)}

        answers = self._ask_each("api/v1/query", pieces, form)
        return _join(answers, counter=counter, unit=unit)

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

        Raises
        ------
        InputError
            If the time is none or too long, or the step too short.
        PrometheusError
            If there is no answer that can be used.
        """
        start_ms, end_ms = _milliseconds(start_s, end_s)
        step_ms = round(step_s * 1000) if math.isfinite(step_s) else 0
        if step_ms < 1:
            raise InputError(f"step_s: {show(step_s)}: must be at least 0.001")
        # Some servers answer at multiples of the step whatever is asked for.
        start_ms = -(-start_ms // step_ms) * step_ms
        pieces = _pieces(start_ms, end_ms, (MAX_POINTS - 1) * step_ms, step_ms)

        def form(first: int, last: int) -> dict[str, str]:
            times = {"start": _seconds(first), "end": _seconds(last), "step": _seconds(step_ms)}
            return {"query": query, **times}

        answers = self._ask_each("api/v1/query_range", pieces, form)
        return _join(answers, counter=False, unit=unit)

    def _ask_each(
        self,
        path: str,
        pieces: Iterable[tuple[int, int]],
        form: Callable[[int, int], Mapping[str, str]],
    ) -> Iterator[dict[Labels, Points]]:
        """Ask for one piece of time after the other, each until it is answered."""
        for first, last in pieces:
            yield self._retrying(self._ask_once, path, form(first, last), first, last)

    def _ask_once(
        self, path: str, form: Mapping[str, str], first: int, last: int
    ) -> dict[Labels, Points]:
        """Ask, and return what lies between two moments, milliseconds since the epoch."""
        reply = exchange(
            self._url,
            path,
            {**form, "timeout": f"{self._limits.timeout_s:g}"},
            headers=self._headers,
            limits=self._limits,
        )
        series = read_answer(reply, self._where, partial=self._partial)
        return {labels: self._within(points, first, last) for labels, points in series.items()}

    def _within(self, points: Points, first: int, last: int) -> Points:
        times = points.times_ms
        if ((times < first - 1) | (times > last)).any():
            raise PrometheusError(
                f"{self._where}: samples from outside the time asked for; is it a Prometheus?"
            )
        asked = times >= first
        return Points(times[asked], points.values[asked])


def _address(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
        usable = parsed.scheme in {"http", "https"} and parsed.host and (parsed.port or 0) < 2**16
    except (httpx.InvalidURL, ValueError, TypeError):
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


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers that can be sent; what they hold is not shown, as it may be a secret."""
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise InputError(f"headers.{show(name)}: must be printable ASCII text on one line")
    return dict(headers)


def _milliseconds(start_s: float, end_s: float) -> tuple[int, int]:
    if not (math.isfinite(start_s) and math.isfinite(end_s) and start_s < end_s):
        raise InputError(
            f"from {show(start_s)} to {show(end_s)} s: is no time; begin before the end"
        )
    return round(start_s * 1000), round(end_s * 1000)


def _pieces(start: int, end: int, length: int, step: int) -> Iterable[tuple[int, int]]:
    """Cut the multiples of `step` from `start` to `end` into pieces no longer than `length`."""
    stride = length // step * step + step
    if end - start >= MAX_QUERIES * stride:
        raise InputError(
            f"{(end - start) / 1000:g} s: takes more than {MAX_QUERIES} queries; "
            "ask for a shorter time or a longer step"
        )
    return [(first, min(first + stride - step, end)) for first in range(start, end + 1, stride)]


def _join(
    answers: Iterable[Mapping[Labels, Points]], *, counter: bool, unit: str | None
) -> dict[Labels, Samples]:
    parts: dict[Labels, list[Points]] = {}
    for answer in answers:
        for labels, points in answer.items():
            parts.setdefault(labels, []).append(points)
    return {
        labels: from_series(_series(points), counter=counter, unit=unit)
        for labels, points in parts.items()
    }


def _series(parts: list[Points]) -> pd.Series[float]:
    times_ms = np.concatenate([part.times_ms for part in parts])
    return pd.Series(np.concatenate([part.values for part in parts]), index=times_ms / 1000)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, PrometheusError) and not error.final


_back_off = tenacity.wait_random_exponential(multiplier=1, max=_LONGEST_BACK_OFF_S)


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.wait_s if isinstance(error, PrometheusError) else None
    return max(_back_off(state), asked or 0.0)
