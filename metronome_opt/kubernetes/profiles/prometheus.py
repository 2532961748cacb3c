"""Counters of gates from Prometheus; an answer that is not complete is refused.

Needs the extra `cluster`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from metronome_opt import errors
from metronome_opt.errors import InputError, MissingBackendError, RemoteError, quote
from metronome_opt.files.records import explain
from metronome_opt.kubernetes.state.observations import COUNTERS, GateCounter

try:
    import httpx2
except ModuleNotFoundError as error:
    raise MissingBackendError(
        f"reading from Prometheus needs {error.name}, which is not installed: "
        "pip install 'metronome-opt[cluster]'"
    ) from None

_QUERY = f'{{__name__=~"metronome_gate_({"|".join(COUNTERS)})_total"}}'
_MAX_BYTES = 64 * 2**20  # of an answer
_MAX_SHOWN = 200  # characters of an answer in a message


class PrometheusError(RemoteError):
    """Prometheus gave no usable answer; the text says where, what, and the remedy."""


class Prometheus:
    """A Prometheus server, or another one with its query language over HTTP.

    The address is ``http://HOST:PORT`` and perhaps a path; ``USER:PASSWORD@`` is never shown. The
    timeout limits a whole exchange.
    """

    def __init__(self, url: str, *, timeout_s: float = 5.0) -> None:
        self._url = _address(url)
        self._where = _without_credentials(self._url)
        self._timeout_s = timeout_s

    def read(self, begin_s: float, end_s: float) -> list[GateCounter]:
        """Return the raw samples of the counters of all gates, both ends included.

        A range query would move samples to its own steps, and repeat them where some are missing.
        """
        begin, end = round(begin_s * 1000), round(end_s * 1000)
        form = {
            # Whether the range includes its beginning depends on the version of Prometheus.
            "query": f"{_QUERY}[{end - begin + 1}ms]",
            "time": f"{end // 1000}.{end % 1000:03d}",
            "timeout": f"{self._timeout_s:g}",
        }
        return self._counters(*self._exchange(form), begin / 1000)

    def _exchange(self, form: dict[str, str]) -> tuple[httpx2.Response, bytes]:
        """Send a form; return the answer, complete and not too large."""
        body, end_s = bytearray(), time.monotonic() + self._timeout_s
        url = self._url.join("api/v1/query")
        try:
            with (
                httpx2.Client(timeout=self._timeout_s) as client,
                client.stream("POST", url, data=form) as response,
            ):
                for piece in response.iter_bytes():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise self._refusal(f"the answer is larger than {_MAX_BYTES} bytes")
                    if time.monotonic() > end_s:  # the limits of the client are on each read
                        raise httpx2.ReadTimeout("")
                return response, bytes(body)
        except httpx2.TimeoutException:
            fault = f"no whole answer within {self._timeout_s:g} s; is it overloaded?"
            raise self._refusal(fault) from None
        except httpx2.HTTPError as error:
            said = _short(str(error)) or type(error).__name__
            fault = f"cannot be reached ({said}); is it up, is the address right?"
            raise self._refusal(fault) from None

    def _refusal(self, fault: str) -> PrometheusError:
        return PrometheusError(f"{self._where}: {fault}")

    def _counters(
        self, response: httpx2.Response, body: bytes, begin_s: float
    ) -> list[GateCounter]:
        """Return the counters of a complete answer, since some time."""
        status = response.status_code
        try:
            answer = _Answer.model_validate_json(body)
        except ValidationError as error:
            fault = f"not an answer of Prometheus ({_short(explain(error))})"
            with suppress(ValidationError):
                refusal = _Refusal.model_validate_json(body)
                fault = _short(f"{refusal.errorType}: {refusal.error}")
            raise self._refusal(f"status {status}, {fault}; is the address right?") from None
        if status != 200:
            raise self._refusal(f"status {status}; is the address right?")
        if answer.warnings:
            raise self._refusal(f"the answer is not complete ({_short(answer.warnings[0])})")
        counters, seen = [], set()
        for series in answer.data.result:
            labels = series.metric
            name = labels.get("__name__", "").removeprefix("metronome_gate_")
            key = frozenset(labels.items())
            table = np.array(series.values, dtype=np.float64).reshape(-1, 2)
            table = table[np.isfinite(table[:, 1])]
            if key in seen or (np.diff(table[:, 0]) <= 0).any():
                fault = "is answered twice" if key in seen else "goes back in time"
                raise self._refusal(f"series {_short(str(labels))} {fault}")
            seen.add(key)
            if (name := name.removesuffix("_total")) in COUNTERS:
                times, values = table[table[:, 0] >= begin_s].T
                counters.append(GateCounter(labels.get("job", ""), name, times, values))
        return counters


def _address(url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url)
        usable = parsed.scheme in {"http", "https"} and parsed.host and (parsed.port or 0) < 2**16
    except (httpx2.InvalidURL, ValueError, TypeError):
        raise InputError("the address of Prometheus is no URL; give http://HOST:PORT") from None
    if not usable or parsed.query or parsed.fragment:
        shown = quote(_without_credentials(parsed))
        raise InputError(f"{shown}: not the address of a server; give http://HOST:PORT")
    return parsed.copy_with(path=parsed.path.rstrip("/") + "/")


def _without_credentials(url: httpx2.URL) -> str:
    """Return an address as it may be displayed: without credentials, query and fragment."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")


def _short(text: str) -> str:
    return errors.sanitize(text, _MAX_SHOWN)


# ------------------------------------------------------------------ shape of an answer


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
