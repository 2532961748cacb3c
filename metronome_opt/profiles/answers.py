"""What an answer of Prometheus must look like before a number in it is believed."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Literal

import httpx2
import numpy as np
import pandas as pd
from immutabledict import immutabledict
from pydantic import BaseModel, Field, ValidationError

from metronome_opt import errors
from metronome_opt.errors import MetronomeError, show
from metronome_opt.records import explain

Labels = immutabledict[str, str]

_LONGEST_WAIT_S = 60.0
_TRY_AGAIN = (408, 429)


class PrometheusError(MetronomeError):
    """Prometheus gave no answer, or none to be used; the text says where, what, the remedy.

    Parameters
    ----------
    message
        The line; it is to contain no credentials.
    final
        Asking again would bring the same.
    wait_s
        Seconds for which the server asked to be left alone; 0 where it did not say.
    """

    def __init__(self, message: str, *, final: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.final = final
        self.wait_s = wait_s


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


def read_answer(
    response: httpx2.Response, body: bytes, where: str, *, partial: bool
) -> dict[Labels, pd.Series[float]]:
    """Return the series of an answer by their labels.

    Parameters
    ----------
    response, body
        What came back.
    where
        The server, as errors are to name it.
    partial
        Take answers that carry warnings, which say that something is missing.

    Returns
    -------
    dict
        Values, float64, by times, milliseconds since the epoch, int64, increasing. Values that are
        infinite are NaN. Empty if nothing matches the query.

    Raises
    ------
    PrometheusError
        If it is a refusal or a redirect, not of the expected shape, partial, has one series twice,
        a time twice or a negative value.
    """
    if response.status_code != 200:
        raise _refused(response, body, where)
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        said = _said(body) or f"not an answer of Prometheus ({told(explain(error))})"
        raise PrometheusError(f"{where}: status 200, {said}; is the address right?") from None
    if answer.warnings and not partial:
        raise PrometheusError(
            f"{where}: the answer is not complete ({told(answer.warnings[0])}); "
            "see what its sources lack, or accept partial answers"
        )
    series: dict[Labels, pd.Series[float]] = {}
    for one in answer.data.result:
        labels = immutabledict(one.metric)
        if labels in series:
            raise PrometheusError(f"{where}: series {_named(labels)} is answered twice")
        series[labels] = _points(one, f"{where}: series {_named(labels)}")
    return series


def shown(url: httpx2.URL) -> str:
    """Return an address as it may be shown: without credentials, query and fragment."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")


def told(text: str) -> str:
    """Return what a server said as it may stand in a line: printable and short."""
    return errors.told(text, 200)


def _refused(response: httpx2.Response, body: bytes, where: str) -> PrometheusError:
    status = response.status_code
    if response.has_redirect_location:
        try:
            elsewhere = told(shown(response.url.join(response.headers["Location"])))
        except httpx2.InvalidURL:
            elsewhere = "nowhere"
        return PrometheusError(
            f"{where}: status {status}, go to {elsewhere}; "
            "name that address if it is to be trusted",
            final=True,
        )
    passing = status in _TRY_AGAIN or status >= 500
    wait_s = _wait_s(response.headers.get("Retry-After", ""))
    if passing and wait_s > _LONGEST_WAIT_S:
        return PrometheusError(
            f"{where}: status {status}, asks to be left alone for {wait_s:.0f} s; ask again then",
            final=True,
        )
    said = _said(body) or "is Prometheus at this address, may you ask it?"
    return PrometheusError(f"{where}: status {status}, {said}", final=not passing, wait_s=wait_s)


def _said(body: bytes) -> str | None:
    """Return what Prometheus itself says against the query, if that is what came back."""
    try:
        refusal = _Refusal.model_validate_json(body)
    except ValidationError:
        return None
    return told(f"{refusal.errorType}: {refusal.error}")


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


def _points(series: _Series, where: str) -> pd.Series[float]:
    table = np.array(series.values, dtype=np.float64).reshape(-1, 2)
    if not (np.abs(table[:, 0]) < 2**40).all():
        raise PrometheusError(f"{where} has a time out of this world")
    times_ms = np.rint(table[:, 0] * 1000).astype(np.int64)
    values = np.where(np.isfinite(table[:, 1]), table[:, 1], math.nan)
    if (np.diff(times_ms) <= 0).any():
        raise PrometheusError(f"{where} goes back in time")
    if (values < 0).any():
        raise PrometheusError(
            f"{where} has the negative value {show(float(values[values < 0][0]))}; "
            "ask for a counter of bytes, or its rate"
        )
    return pd.Series(values, index=times_ms)


def _named(labels: Labels) -> str:
    matchers = ", ".join(
        f"{key}={value!r}" for key, value in sorted(labels.items()) if key[:2] != "__"
    )
    return told(f"{labels.get('__name__', '')}{{{matchers}}}")
