"""Throughput from Prometheus: the raw samples of counters, or the values of an expression.

Needs the extra `monitor`.
"""

from __future__ import annotations

from metronome_opt.errors import MissingBackendError

try:
    from metronome_opt.profiles.prometheus.client import Prometheus
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"anyio", "httpx", "tenacity"}:
        raise
    raise MissingBackendError(
        f"reading from Prometheus needs {error.name}, which is not installed: "
        "pip install 'metronome-opt[monitor]'"
    ) from None
from metronome_opt.profiles.prometheus.answer import Labels
from metronome_opt.profiles.prometheus.failure import PrometheusError
from metronome_opt.profiles.prometheus.selectors import NODE_COUNTER, POD_COUNTER, selector

__all__ = ["NODE_COUNTER", "POD_COUNTER", "Labels", "Prometheus", "PrometheusError", "selector"]
