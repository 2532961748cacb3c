"""What an answer of Prometheus must look like before a number in it is believed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from immutabledict import immutabledict
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from metronome_opt.errors import show
from metronome_opt.profiles.prometheus.exchange import Reply
from metronome_opt.profiles.prometheus.failure import PrometheusError, told
from metronome_opt.records import explain

Labels = immutabledict[str, str]

LONGEST_WAIT_S = 60.0
_TRY_AGAIN = (408, 429)


@dataclass(frozen=True)
class Points:
    """One series as answered: times_ms int64 (n,), increasing; values float64 (n,), some NaN."""

    times_ms: NDArray[np.int64]
    values: NDArray[np.float64]


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


def read_answer(reply: Reply, where: str, *, partial: bool) -> dict[Labels, Points]:
    """Return the series of an answer by their labels.

    Parameters
    ----------
    reply
        What came back.
    where
        The server, as errors are to name it.
    partial
        Take answers that carry warnings, which say that something is missing.

    Returns
    -------
    dict
        Values that are NaN or infinite are NaN. Empty if nothing matches the query.

    Raises
    ------
    PrometheusError
        If it is a refusal or a redirect, not of the expected shape, partial, has one series twice,
        a time twice or a negative value.
    """
    _check_status(reply, where)
    try:
        answer = _Answer.model_validate_json(reply.body)
    except ValidationError as error:
        raise _refusal(reply, where) or PrometheusError(
            f"{where}: not an answer of Prometheus ({told(explain(error))}); is the address right?"
        ) from None
    if answer.warnings and not partial:
        raise PrometheusError(
            f"{where}: the answer is not complete ({told(answer.warnings[0])}); "
            "see what its sources lack, or accept partial answers"
        )
    series: dict[Labels, Points] = {}
    for one in answer.data.result:
        labels = immutabledict(one.metric)
        if labels in series:
            raise PrometheusError(f"{where}: series {_named(labels)} is answered twice")
        series[labels] = _points(one, labels, where)
    return series


def _check_status(reply: Reply, where: str) -> None:
    if reply.status == 200:
        return
    if 300 <= reply.status < 400:
        raise PrometheusError(
            f"{where}: status {reply.status}, go to {reply.location}; "
            "name that address if it is to be trusted",
            final=True,
        )
    passing = reply.status in _TRY_AGAIN or reply.status >= 500
    if passing and reply.wait_s is not None and reply.wait_s > LONGEST_WAIT_S:
        raise PrometheusError(
            f"{where}: status {reply.status}, asks to be left alone for {reply.wait_s:.0f} s; "
            "ask again then",
            final=True,
        )
    raise _refusal(reply, where, final=not passing) or PrometheusError(
        f"{where}: status {reply.status}; is Prometheus at this address, may you ask it?",
        final=not passing,
        wait_s=reply.wait_s,
    )


def _refusal(reply: Reply, where: str, *, final: bool = False) -> PrometheusError | None:
    """Return what Prometheus itself says against the query, if that is what came back."""
    try:
        refusal = _Refusal.model_validate_json(reply.body)
    except ValidationError:
        return None
    said = told(f"{refusal.errorType}: {refusal.error}")
    return PrometheusError(
        f"{where}: status {reply.status}, {said}", final=final, wait_s=reply.wait_s
    )


def _points(series: _Series, labels: Labels, where: str) -> Points:
    table = np.array(series.values, dtype=np.float64).reshape(-1, 2)
    if not (np.abs(table[:, 0]) < 2**40).all():
        raise PrometheusError(f"{where}: series {_named(labels)} has a time out of this world")
    times_ms = np.rint(table[:, 0] * 1000).astype(np.int64)
    values = np.where(np.isfinite(table[:, 1]), table[:, 1], math.nan)
    if (np.diff(times_ms) <= 0).any():
        raise PrometheusError(f"{where}: series {_named(labels)} goes back in time")
    if (values < 0).any():
        raise PrometheusError(
            f"{where}: series {_named(labels)} has the negative value "
            f"{show(float(values[values < 0][0]))}; ask for a counter of bytes, or its rate"
        )
    return Points(times_ms, values)


def _named(labels: Labels) -> str:
    name = labels.get("__name__", "")
    matchers = ", ".join(
        f"{key}={value!r}" for key, value in sorted(labels.items()) if key[:2] != "__"
    )
    return told(f"{name}{{{matchers}}}")
