"""What a monitor says of itself: the values of its metrics, in formats that Prometheus reads."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metronome_opt.control.declared import METRICS, Declared
from metronome_opt.errors import InputError, MissingBackendError, show

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

MAX_RESUMED_BYTES = 2**24

_DECLARED = {metric.name: metric for metric in METRICS}


class Metrics:
    """Values of the metrics. A scrape may come at any time, from another thread.

    Counters whose labels are known beforehand begin at 0, so that the first event counts as an
    increase. Gauges are absent until they are known.

    Raises
    ------
    MissingBackendError
        If `prometheus_client` is not installed.
    """

    def __init__(self) -> None:
        self._client = _client()
        self._lock = threading.Lock()
        self._values: dict[str, dict[tuple[str, ...], float]] = {
            metric.name: dict.fromkeys(_first(metric), 0.0) for metric in METRICS
        }

    def set(self, name: str, value: float | None, **labels: str) -> None:
        """Set a gauge; None for a value that is not known (any more)."""
        metric, key = _key(name, labels, "gauge")
        with self._lock:
            if value is None:
                self._values[metric.name].pop(key, None)
            else:
                self._values[metric.name][key] = _finite(name, value)

    def replace(self, name: str, values: Mapping[str, float]) -> None:
        """Set a gauge of one label: its values by those of the label. All others vanish."""
        metric = _find(name, "gauge")
        if len(metric.labels) != 1:
            raise InputError(f"{name}: has not one label; set its values one by one")
        (label,) = metric.labels
        new = {
            _key(name, {label: each}, "gauge")[1]: _finite(name, value)
            for each, value in values.items()
        }
        with self._lock:
            self._values[name] = new

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Let a counter grow. By 0, it comes to be known where its labels were not."""
        metric, key = _key(name, labels, "counter")
        if not (math.isfinite(amount) and amount >= 0):
            raise InputError(f"{name}: a counter grows by 0 or more, got {show(amount)}")
        with self._lock:
            values = self._values[metric.name]
            values[key] = values.get(key, 0.0) + amount

    def value(self, name: str, **labels: str) -> float | None:
        """Return a value, None if it is not known."""
        metric, key = _key(name, labels)
        with self._lock:
            return self._values[metric.name].get(key)

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        return str(self._client.generate_latest(self._registry()).decode())

    def write(self, path: str | Path) -> None:
        """Write the text to a file, whole or not at all, for node_exporter's textfile collector.

        The temporary file has another suffix, as the collector reads whatever is called ``.prom``.

        Raises
        ------
        InputError
            If the name does not end in ``.prom``, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix != ".prom":
            raise InputError(f"{path}: node_exporter reads files that end in .prom; call it so")
        try:
            self._client.write_to_textfile(str(path), self._registry())
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None

    def resume(self, path: str | Path) -> None:
        """Let counters go on from where a file left them that was written before, if there is one.

        Raises
        ------
        InputError
            If the file cannot be read or does not hold metrics.
        """
        from prometheus_client.parser import text_string_to_metric_families

        path = Path(path)
        try:
            with path.open("rb") as file:
                content = file.read(MAX_RESUMED_BYTES + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        if len(content) > MAX_RESUMED_BYTES:
            raise InputError(f"{path}: larger than {MAX_RESUMED_BYTES} bytes; is it the file?")
        try:
            families = list(text_string_to_metric_families(content.decode()))
        except ValueError:
            raise InputError(
                f"{path}: no metrics in the text format of Prometheus; delete it to count anew"
            ) from None
        for family in families:
            for sample in family.samples:
                self._take_up(path, sample.name, sample.labels, float(sample.value))

    @contextmanager
    def serve(self, address: str) -> Iterator[str]:
        """Answer scrapes at ``HOST:PORT`` while the block runs; yield the address of the metrics.

        Parameters
        ----------
        address
            Port 0 is any that is free; an IPv6 address stands in brackets.

        Raises
        ------
        InputError
            If the address is none or is taken.
        """
        host, port = _host_and_port(address)
        try:
            server, thread = self._client.start_http_server(port, host, self._registry())
        except OSError as error:
            raise InputError(
                f"{address}: cannot be listened on ({error.strerror}); choose another address"
            ) from None
        try:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _registry(self) -> CollectorRegistry:
        registry: CollectorRegistry = self._client.CollectorRegistry()
        registry.register(_Collector(self))
        return registry

    def _take_up(self, path: Path, name: str, labels: Mapping[str, str], value: float) -> None:
        """Take a counter of an earlier run; what another version counted is left out."""
        metric = _DECLARED.get(name)
        if metric is None or metric.kind != "counter" or _fault(metric, labels):
            return
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"{path}: {name} is {show(value)}; delete the file to count anew")
        with self._lock:
            self._values[name][tuple(labels[label] for label in metric.labels)] = value

    def _families(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            values = {name: dict(each) for name, each in self._values.items()}
        for metric in METRICS:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            for key, value in values[metric.name].items():
                family.add_metric(key, value)
            yield family


@dataclass(frozen=True)
class _Collector:
    """What a registry asks for the metrics."""

    metrics: Metrics

    def collect(self) -> Iterator[Metric]:
        return self.metrics._families()


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError:
        raise MissingBackendError(
            "metrics need prometheus_client, which is not installed: "
            "pip install 'metronome-opt[monitor]'"
        ) from None
    return prometheus_client


def _first(metric: Declared) -> list[tuple[str, ...]]:
    if metric.kind == "gauge" or set(metric.choices) != set(metric.labels):
        return []
    return list(product(*(metric.choices[label] for label in metric.labels)))


def _find(name: str, kind: str | None = None) -> Declared:
    metric = _DECLARED.get(name)
    if metric is None:
        raise InputError(f"{show(name)}: no such metric; declare it")
    if kind is not None and metric.kind != kind:
        raise InputError(f"{name}: is a {metric.kind}, no {kind}")
    return metric


def _key(
    name: str, labels: Mapping[str, str], kind: str | None = None
) -> tuple[Declared, tuple[str, ...]]:
    metric = _find(name, kind)
    fault = _fault(metric, labels)
    if fault:
        raise InputError(f"{name}: {fault}")
    return metric, tuple(labels[label] for label in metric.labels)


def _fault(metric: Declared, labels: Mapping[str, str]) -> str:
    if set(labels) != set(metric.labels):
        return f"has the labels {', '.join(metric.labels) or 'none'}, got {', '.join(labels)}"
    for label, value in labels.items():
        if label in metric.choices and value not in metric.choices[label]:
            return f"{label}: must be one of {', '.join(metric.choices[label])}, got {show(value)}"
    return ""


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise InputError(f"{name}: must be a finite number, got {show(value)}; None is not known")
    return float(value)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise InputError(f"{show(address)}: no address to listen on; give HOST:PORT")
    return host, int(port)
