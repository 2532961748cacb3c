"""Counters of gates as Prometheus scraped them; an answer that is not whole is refused.

Needs the extra `cluster`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from metronome_opt.cluster.measured import COUNTERS, GateCounter
from metronome_opt.errors import InputError, MissingBackendError, RemoteError, quote, sanitize
from metronome_opt.records import explain

try:
    import httpx2
except ModuleNotFoundError as error:
    raise MissingBackendError(
        f"reading from Prometheus needs {error.name}, which is not installed: "
        "pip install 'metronome-opt[cluster]'"
    ) from None

_QUERY = f'{{__name__=~"metronome_gate_({"|".join(COUNTERS)})_total"}}'
_MAX_SHOWN = 200  # characters of an answer in a message


class PrometheusError(RemoteError):
    """Prometheus gave no answer, or none to be used; the text says where, what, the remedy."""


class Prometheus:
    """A Prometheus server, or another one that speaks its query language over HTTP.

    Parameters
    ----------
    url
        Its address, ``http://HOST:PORT`` and perhaps a path; ``USER:PASSWORD@`` is never shown.
    timeout_s
        Limit on each wait for the server, seconds.

    Raises
    ------
    InputError
        If it is no address.
    """

    def __init__(self, url: str, *, timeout_s: float = 5.0) -> None:
        try:
            address = httpx2.URL(url)
        except (httpx2.InvalidURL, TypeError):
            raise InputError("the address of Prometheus is no URL; give http://HOST:PORT") from None
        shown = address.copy_with(username=None, password=None, query=None, fragment=None)
        self._where = str(shown).rstrip("/")
        if address.scheme not in {"http", "https"} or not address.host or address.query:
            raise InputError(
                f"{quote(self._where)}: not the address of a server; give http://HOST:PORT"
            )
        self._url = address.copy_with(path=f"{address.path.rstrip('/')}/api/v1/query")
        self._timeout_s = timeout_s

    def read(self, begin_s: float, end_s: float) -> list[GateCounter]:
        """Return the raw samples of the counters of all gates, both ends included.

        A range query would move each sample to the next of its steps and repeat it where scrapes
        are missing.

        Raises
        ------
        PrometheusError
            If there is no answer, or none to be used.
        """
        begin, end = round(begin_s * 1000), round(end_s * 1000)
        form = {
            # Whether the range includes its beginning depends on the version of Prometheus.
            "query": f"{_QUERY}[{end - begin + 1}ms]",
            "time": f"{end // 1000}.{end % 1000:03d}",
            "timeout": f"{self._timeout_s:g}",
        }
        try:
            response = httpx2.post(self._url, data=form, timeout=self._timeout_s)
            answer = _Answer.model_validate_json(response.content)
        except ValidationError as error:
            fault = f"not an answer of Prometheus ({explain(error)})"
            raise self._refusal(f"status {response.status_code}, {fault}") from None
        except httpx2.TimeoutException:
            raise self._refusal(f"no answer within {self._timeout_s:g} s") from None
        except httpx2.HTTPError as error:
            fault = f"cannot be reached ({str(error) or type(error).__name__})"
            raise self._refusal(fault) from None
        if answer.data is None:
            fault = f"{answer.errorType}: {answer.error}"
            raise self._refusal(f"status {response.status_code}, {fault}")
        if answer.warnings:
            raise self._refusal(f"the answer is not complete ({answer.warnings[0]})")
        return [_counter(series, begin / 1000) for series in answer.data.result]

    def _refusal(self, fault: str) -> PrometheusError:
        said = sanitize(fault, _MAX_SHOWN)
        return PrometheusError(f"{self._where}: {said}; is it up, is the address right?")


def _counter(series: _Series, begin_s: float) -> GateCounter:
    table = np.array(series.values, dtype=np.float64).reshape(-1, 2)
    times, values = table[np.isfinite(table[:, 1]) & (table[:, 0] >= begin_s)].T
    name = series.metric.get("__name__", "")
    name = name.removeprefix("metronome_gate_").removesuffix("_total")
    return GateCounter(series.metric.get("job", ""), name, times, values)


# ------------------------------------------------------------------ shape of an answer


class _Series(BaseModel):
    metric: dict[str, str]
    values: list[tuple[Annotated[float, Field(strict=True, allow_inf_nan=False)], float]]


class _Data(BaseModel):
    resultType: Literal["matrix"]  # noqa: N815 (the name in the answer)
    result: list[_Series]


class _Answer(BaseModel):
    status: Literal["success", "error"]
    data: _Data | None = None
    warnings: list[str] = []
    errorType: str = "no data"  # noqa: N815 (the name in the answer)
    error: str = ""
