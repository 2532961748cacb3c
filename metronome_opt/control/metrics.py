"""The monitor's own metrics, in formats that Prometheus reads, and a dashboard that shows them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metronome_opt.control.decide import Verdict
from metronome_opt.control.detect import Kind
from metronome_opt.errors import InputError, MissingBackendError, show
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.control.claims import Claims
    from metronome_opt.control.watch import Check

MAX_RESUMED_BYTES = 2**24

_BYTES_PER_MBIT = 125_000


def dashboard_json() -> str:
    """Return a Grafana dashboard of the metrics; it asks which Prometheus and jobs to show."""
    return files("metronome_opt.control").joinpath("dashboard.json").read_text(encoding="utf-8")


class Metrics:
    """Metrics of one monitor. A scrape may come at any time, from another thread.

    Counters whose labels are known beforehand begin at 0, so that the first event counts as an
    increase. Gauges are absent until they are known. The label of a job is `training_job`: `job`
    and `instance` are Prometheus's own, and it would rename ours to `exported_job`.

    Attributes
    ----------
    registry
        Of `prometheus_client`, where the metrics are.

    Raises
    ------
    MissingBackendError
        If `prometheus_client` is not installed.
    """

    def __init__(self) -> None:
        self._client = client = _client()
        client.disable_created_metrics()  # when a counter was made is told nobody else
        self.registry = client.CollectorRegistry()
        self._counters: dict[str, Any] = {}

        def gauge(name: str, said: str, *labels: str) -> Any:
            # One without labels would be 0 from the beginning.
            registry = self.registry if labels else None
            return client.Gauge(f"metronome_{name}", said, labels, registry=registry)

        def counter(name: str, said: str, *labels: str) -> Any:
            name = f"metronome_{name}_total"
            self._counters[name] = client.Counter(name, said, labels, registry=self.registry)
            return self._counters[name]

        self._jobs = gauge(
            "jobs", "Jobs that claim a slot, by what the last check saw of them.", "state"
        )
        self._drift = gauge(
            "job_phase_drift_seconds",
            "How far a job was off its slot when it was last measured; above 0 is late.",
            "training_job",
        )
        self._cushion = gauge(
            "job_cushion_seconds",
            "How far a job may be off its slot without being in anybody's way.",
            "training_job",
        )
        self._period = gauge(
            "job_period_seconds",
            "The period of a job when it was last measured.",
            "training_job",
        )
        self._score = gauge(
            "link_score",
            "Compatibility of the jobs on a link as measured: 1 less the share of capacity in "
            "excess.",
            "link",
        )
        self._contention = gauge(
            "contention_weighted_bytes_per_second",
            "Mean bandwidth that jobs lack, times their weights: as claimed, as measured, as "
            "planned.",
            "state",
        )
        self._duration = gauge("check_duration_seconds", "How long the last check took.")
        self._last_check = gauge(
            "last_check_timestamp_seconds",
            "When the last check was completed, seconds since the epoch.",
        )
        self._findings = counter("findings", "What was found not to be as claimed.", "kind")
        self._decisions = counter("decisions", "Checks, by what was decided.", "decision")
        self._rephasings = counter(
            "rephasings",
            "How often a job was told to wait once, so as to keep another slot.",
            "training_job",
            "priority",
        )
        self._errors = counter(
            "prometheus_errors",
            "Checks that were left out because Prometheus gave no answer that could be used.",
        )
        for kind in Kind:
            self._findings.labels(kind)
        for decision in Verdict:
            self._decisions.labels(decision)

    # ------------------------------------------------------------------ what there is to tell

    def failed(self) -> None:
        """Count a check that was left out because there was no answer to be used."""
        self._errors.inc()

    def tell(self, claims: Claims | None, check: Check, took_s: float, *, dry_run: bool) -> None:
        """Take in what a check came to; a dry run decides nothing and tells nobody to wait."""
        decision, seen = check.decision, check.observations
        gone = sum(each.gone for each in seen.values())
        self._jobs.labels("measured").set(len(seen) - gone)
        self._jobs.labels("unmeasured").set(check.jobs - len(seen))
        self._jobs.labels("gone").set(gone)
        self._duration.set(took_s)
        self._last_check.set(check.at_s)
        if self.value("metronome_last_check_timestamp_seconds") is None:
            self.registry.register(self._duration)
            self.registry.register(self._last_check)
        if not dry_run:
            self._decisions.labels(decision.kind if decision else Verdict.NOTHING).inc()
        if claims is None or decision is None:
            return
        slot_s = claims.instance.slot_ms / 1000
        _replace(
            self._drift,
            {
                job: claims.drift_ms(job, each.origin_ms) / 1000
                for job, each in seen.items()
                if each.origin_ms is not None
            },
        )
        _replace(
            self._cushion, {job: slot_s * claims.cushions.get(job, 0) for job in claims.offsets}
        )
        _replace(
            self._period,
            {
                job: each.period_ms / 1000
                for job, each in seen.items()
                if each.period_ms is not None
            },
        )
        measured = decision.claims or claims
        links = evaluate(measured.instance, measured.offsets, measured.stretch).links
        _replace(self._score, {link.name: float(link.score) for link in links if link.jobs > 1})
        if decision.contention is not None:
            for state, level in vars(decision.contention).items():
                self._contention.labels(state).set(float(level) * _BYTES_PER_MBIT)
        for finding in decision.findings:
            self._findings.labels(finding.kind).inc()
        if not dry_run:
            steps = Counter(step.job for step in decision.plan.steps) if decision.plan else {}
            for job in claims.instance.jobs:
                self._rephasings.labels(job.name, str(job.weight)).inc(steps.get(job.name, 0))

    def value(self, name: str, **labels: str) -> float | None:
        """Return a value, None if it is not known."""
        found: float | None = self.registry.get_sample_value(name, labels)
        return found

    # ------------------------------------------------------------------ where they are told

    def write(self, path: str | Path) -> None:
        """Write the metrics to a file, whole or not at all, for node_exporter's textfile collector.

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
            self._client.write_to_textfile(str(path), self.registry)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None

    def resume(self, path: str | Path) -> None:
        """Let counters go on from where a file left them that was written before, if there is one.

        What another version counted is left out.

        Raises
        ------
        InputError
            If the file cannot be read or does not hold metrics.
        """
        from prometheus_client.parser import text_string_to_metric_families

        try:
            with Path(path).open("rb") as file:
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
        for sample in (sample for family in families for sample in family.samples):
            name, labels, value = sample.name, sample.labels, float(sample.value)
            counter = self._counters.get(name)
            of_a_job = counter is self._rephasings and labels.keys() == {"training_job", "priority"}
            if counter is None or not (of_a_job or self.value(name, **labels) is not None):
                continue
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{path}: {name} is {show(value)}; delete the file to count anew")
            (counter.labels(**labels) if labels else counter).inc(value)

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
        host, colon, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 2**16):
            raise InputError(f"{show(address)}: no address to listen on; give HOST:PORT")
        try:
            server, thread = self._client.start_http_server(int(port), host, self.registry)
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


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError:
        raise MissingBackendError(
            "metrics need prometheus_client, which is not installed: "
            "pip install 'metronome-opt[monitor]'"
        ) from None
    return prometheus_client


def _replace(gauge: Any, values: Mapping[str, float]) -> None:
    """Set a gauge of one label: its values by those of the label. All others vanish."""
    for family in gauge.collect():
        for sample in family.samples:
            (label,) = sample.labels.values()
            if label not in values:
                gauge.remove(label)
    for label, value in values.items():
        gauge.labels(label).set(value)
