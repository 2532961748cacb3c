"""Throughput from Prometheus: the raw samples of counters, believed only if they can be.

Needs the extra `monitor`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from immutabledict import immutabledict
from pydantic import BaseModel, Field, ValidationError

from metronome_opt import errors
from metronome_opt.errors import InputError, MissingBackendError, RemoteError, quote
from metronome_opt.profiles.samples import Samples, from_series
from metronome_opt.records import explain

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

_MAX_QUERIES = 1_000
_MAX_BYTES = 64 * 2**20  # of an answer
_PIECE_MS = 600_000
_CONNECT_S = 5.0
_LONGEST_WAIT_S = 60.0
_TRY_AGAIN = (408, 429)
_SHOWN = 200  # characters of what a server says
_back_off = tenacity.wait_random_exponential(multiplier=1, max=30.0)

Labels = immutabledict[str, str]
_Points = dict[Labels, "pd.Series[float]"]  # values by milliseconds since the epoch


class PrometheusError(RemoteError):
    """Prometheus gave no answer, or none to be used; the text says where, what, the remedy."""


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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise InputError(f"timeout_s: {quote(timeout_s)}: must be above 0")
        if attempts < 1:
            raise InputError(f"attempts: {quote(attempts)}: must be at least 1")
        self._url = _address(url)
        self._where = _shown(self._url)
        self._timeout_s = timeout_s
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(attempts),
            wait=_wait,
            retry=tenacity.retry_if_exception(lambda error: getattr(error, "passing", False)),
            sleep=sleep,
            reraise=True,
        )

    def __str__(self) -> str:
        return self._where

    def raw(self, selector: str, start_s: float, end_s: float) -> dict[Labels, Samples]:
        """Return the samples of counters of bytes as they were scraped: the way to see bursts.

        A range query would move each sample to the next of its steps and repeat it where scrapes
        are missing, which looks like a pause and a burst.

        Parameters
        ----------
        selector
            PromQL of series, without a range: ``COUNTER{label="value"}``.
        start_s, end_s
            The time to read, seconds since the epoch, both ends included.

        Returns
        -------
        dict
            By labels, which no two series share. Empty if there are none.
        """
        if not (math.isfinite(start_s) and math.isfinite(end_s) and start_s < end_s):
            raise InputError(
                f"from {quote(start_s)} to {quote(end_s)} s: is no time; begin before the end"
            )
        start, end = round(start_s * 1000), round(end_s * 1000)
        if end - start >= _MAX_QUERIES * _PIECE_MS:
            raise InputError(
                f"{end_s - start_s:g} s: takes more than {_MAX_QUERIES} queries; "
                "ask for a shorter time"
            )
        parts: dict[Labels, list[pd.Series[float]]] = {}
        for first in range(start, end + 1, _PIECE_MS):
            last = min(first + _PIECE_MS - 1, end)
            for labels, points in self._retrying(self._ask, selector, first, last).items():
                parts.setdefault(labels, []).append(points)
        series = {labels: pd.concat(points) for labels, points in parts.items()}
        return {
            labels: from_series(points.set_axis(points.index / 1000), counter=True)
            for labels, points in series.items()
        }

    def _ask(self, selector: str, first: int, last: int) -> _Points:
        """Ask for what lies between two moments, milliseconds since the epoch."""
        form = {
            # Whether the range includes its beginning depends on the version of Prometheus.
            "query": f"{selector}[{last - first + 1}ms]",
            "time": f"{last // 1000}.{last % 1000:03d}",
            "timeout": f"{self._timeout_s:g}",
        }
        # A read time-out alone does not help against a server that sends a byte now and then, in
        # the head of its answer or in the body. So the exchange runs in an event loop of its own,
        # where it can be abandoned as a whole; in a thread, because notebooks already run one.
        with start_blocking_portal() as portal:
            response, body = portal.call(self._exchange, form)
        series = _read_answer(response, body, self._where)
        for points in series.values():
            if ((points.index < first - 1) | (points.index > last)).any():
                raise PrometheusError(
                    f"{self._where}: samples from outside the time asked for; is it a Prometheus?",
                    passing=True,
                )
        return {labels: points[points.index >= first] for labels, points in series.items()}

    async def _exchange(self, form: Mapping[str, str]) -> tuple[httpx2.Response, bytes]:
        """Send a form; return the whole answer, if it comes within the limits."""
        limit_s = self._timeout_s
        timeout = httpx2.Timeout(limit_s, connect=min(_CONNECT_S, limit_s))
        body = bytearray()
        try:
            with anyio.fail_after(limit_s):
                async with (
                    httpx2.AsyncClient(timeout=timeout) as client,
                    client.stream("POST", self._url.join("api/v1/query"), data=form) as response,
                ):
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > _MAX_BYTES:
                            raise PrometheusError(
                                f"{self._where}: the answer is larger than {_MAX_BYTES} bytes; "
                                "ask for a shorter time or for fewer series"
                            )
                    return response, bytes(body)
        except httpx2.ConnectTimeout:
            fault = f"no connection within {timeout.connect:g} s; is the address right?"
        except (TimeoutError, httpx2.TimeoutException):
            fault = f"no whole answer within {limit_s:g} s; ask for less, or allow more time"
        except httpx2.HTTPError as error:
            said = _told(str(error)) or type(error).__name__
            fault = f"cannot be reached ({said}); is it up, is the address right?"
            if not isinstance(error, httpx2.ConnectError):
                fault = f"the exchange broke off ({said}); is there a Prometheus at this address?"
        raise PrometheusError(f"{self._where}: {fault}", passing=True)


def _address(url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url)
        usable = parsed.scheme in {"http", "https"} and parsed.host and (parsed.port or 0) < 2**16
    except (httpx2.InvalidURL, ValueError, TypeError):
        raise InputError("the address of Prometheus is no URL; give http://HOST:PORT") from None
    if not usable:
        raise InputError(
            f"{quote(_shown(parsed))}: not the address of a server; give http://HOST:PORT"
        )
    if parsed.query or parsed.fragment:
        raise InputError(
            f"{_shown(parsed)}: give its address without what follows a question mark or #"
        )
    return parsed.copy_with(path=parsed.path.rstrip("/") + "/")


def _shown(url: httpx2.URL) -> str:
    """Return an address as it may be shown: without credentials, query and fragment."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")


def _told(text: str) -> str:
    return errors.sanitize(text, _SHOWN)


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the seconds to wait before asking again, at least as many as the server asked for."""
    error = state.outcome.exception() if state.outcome else None
    return max(_back_off(state), getattr(error, "wait_s", 0.0))


# ------------------------------------------------------------------ what an answer has to look like


class _Series(BaseModel):
    metric: dict[str, str]
    values: list[tuple[Annotated[float, Field(strict=True, allow_inf_nan=False)], float]]


class _Data(BaseModel):
    resultType: Literal["matrix"]  # noqa: N815 (the name in the answer)
    result: list[_Series]


class _Answer(BaseModel):
    status: Literal["success"]
    data: _Data
    warnings: list[str] = []


class _Refusal(BaseModel):
    status: Literal["error"]
    errorType: str = ""  # noqa: N815 (the name in the answer)
    error: str = ""


def _read_answer(response: httpx2.Response, body: bytes, where: str) -> _Points:
    """Return the series of an answer by their labels; values that are infinite are NaN.

    Refused is what is an error or a redirect, not of the expected shape or partial, and what has
    one series twice, a time twice or a negative value.
    """
    if response.status_code != 200:
        raise _refused(response, body, where)
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        said = _said(body) or f"not an answer of Prometheus ({_told(explain(error))})"
        raise PrometheusError(
            f"{where}: status 200, {said}; is the address right?", passing=True
        ) from None
    if answer.warnings:
        raise PrometheusError(
            f"{where}: the answer is not complete ({_told(answer.warnings[0])}); "
            "see what its sources lack",
            passing=True,
        )
    series: _Points = {}
    for one in answer.data.result:
        labels = immutabledict(one.metric)
        matchers = ", ".join(
            f"{key}={value!r}" for key, value in sorted(labels.items()) if key[:2] != "__"
        )
        named = _told(f"{labels.get('__name__', '')}{{{matchers}}}")
        fault = "is answered twice" if labels in series else None
        series[labels], wrong = _points(one)
        if fault or wrong:
            raise PrometheusError(f"{where}: series {named} {fault or wrong}", passing=True)
    return series


def _points(series: _Series) -> tuple[pd.Series[float], str | None]:
    """Return the values of a series by time, and what is wrong with them."""
    table = np.array(series.values, dtype=np.float64).reshape(-1, 2)
    if not (np.abs(table[:, 0]) < 2**40).all():
        return pd.Series(dtype=float), "has a time out of this world"
    times_ms = np.rint(table[:, 0] * 1000).astype(np.int64)
    values = np.where(np.isfinite(table[:, 1]), table[:, 1], math.nan)
    wrong = None
    if (np.diff(times_ms) <= 0).any():
        wrong = "goes back in time"
    elif (values < 0).any():
        below = quote(float(values[values < 0][0]))
        wrong = f"has the negative value {below}; ask for a counter of bytes"
    return pd.Series(values, index=times_ms), wrong


def _refused(response: httpx2.Response, body: bytes, where: str) -> PrometheusError:
    status = response.status_code
    if response.has_redirect_location:
        try:
            elsewhere = _told(_shown(response.url.join(response.headers["Location"])))
        except httpx2.InvalidURL:
            elsewhere = "nowhere"
        return PrometheusError(
            f"{where}: status {status}, go to {elsewhere}; name that address if it is to be trusted"
        )
    passing = status in _TRY_AGAIN or status >= 500
    wait_s = _wait_s(response.headers.get("Retry-After", ""))
    if passing and wait_s > _LONGEST_WAIT_S:
        return PrometheusError(
            f"{where}: status {status}, asks to be left alone for {wait_s:.0f} s; ask again then"
        )
    said = _said(body) or "is Prometheus at this address, may you ask it?"
    return PrometheusError(f"{where}: status {status}, {said}", passing=passing, wait_s=wait_s)


def _said(body: bytes) -> str | None:
    """Return what Prometheus itself says against the query, if that is what came back."""
    try:
        refusal = _Refusal.model_validate_json(body)
    except ValidationError:
        return None
    return _told(f"{refusal.errorType}: {refusal.error}")


def _wait_s(header: str) -> float:
    """Return the seconds that a Retry-After means: a number of them, or a date."""
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
