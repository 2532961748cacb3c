"""The monitor's own metrics, in formats that Prometheus reads, and a dashboard that shows them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from metronome_opt.control.detect import Kind
from metronome_opt.control.monitor import Verdict
from metronome_opt.errors import InputError, MissingBackendError, quote
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.control.claims import Claims
    from metronome_opt.control.watch import Check

_MAX_BYTES = 2**24

_BYTES_PER_MBIT = 125_000

# By name, what they say and their labels.
_GAUGES = {
    "jobs": ("Jobs that claim a slot, by what the last check saw of them.", "state"),
    "job_phase_drift_seconds": (
        "How far a job was off its slot when it was last measured; above 0 is late.",
        "training_job",
    ),
    "job_cushion_seconds": (
        "How far a job may be off its slot without being in anybody's way.",
        "training_job",
    ),
    "job_period_seconds": ("The period of a job when it was last measured.", "training_job"),
    "link_score": (
        "Compatibility of the jobs on a link as measured: 1 less the share of capacity in excess.",
        "link",
    ),
    "contention_weighted_bytes_per_second": (
        "Mean bandwidth that jobs lack, times their weights: as claimed, as measured, as planned.",
        "state",
    ),
    "check_duration_seconds": ("How long the last check took.",),
    "last_check_timestamp_seconds": (
        "When the last check was completed, seconds since the epoch.",
    ),
}
_COUNTERS = {
    "findings_total": ("What was found not to be as claimed.", "kind"),
    "decisions_total": ("Checks, by what was decided.", "decision"),
    "rephasings_total": (
        "How often a job was told to wait once, so as to keep another slot.",
        "training_job",
        "priority",
    ),
    "prometheus_errors_total": (
        "Checks that were left out because Prometheus gave no answer that could be used.",
    ),
}


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
        try:
            import prometheus_client
        except ImportError:
            raise MissingBackendError(
                "metrics need prometheus_client, which is not installed: "
                "pip install 'metronome-opt[monitor]'"
            ) from None
        self._client = client = cast("Any", prometheus_client)
        client.disable_created_metrics()  # nobody asks when a counter was made
        self.registry = client.CollectorRegistry()
        self._of: dict[str, Any] = {}
        for name, (said, *labels) in _GAUGES.items():
            # One without labels would be 0 at once; it is registered when it is known.
            registry = self.registry if labels else None
            self._of[name] = client.Gauge(f"metronome_{name}", said, labels, registry=registry)
        for name, (said, *labels) in _COUNTERS.items():
            full = f"metronome_{name}"
            self._of[name] = client.Counter(full, said, labels, registry=self.registry)
        for kind in Kind:
            self._of["findings_total"].labels(kind)
        for decision in Verdict:
            self._of["decisions_total"].labels(decision)

    # ------------------------------------------------------------------ what there is to tell

    def failed(self) -> None:
        """Count a check that was left out because there was no answer to be used."""
        self._of["prometheus_errors_total"].inc()

    def tell(self, claims: Claims | None, check: Check, took_s: float, *, dry_run: bool) -> None:
        """Take in what a check came to; a dry run decides nothing and tells nobody to wait."""
        decision, seen = check.decision, check.observations
        gone = sum(each.gone for each in seen.values())
        self._set(
            "jobs",
            {"measured": len(seen) - gone, "unmeasured": check.jobs - len(seen), "gone": gone},
        )
        times = {"check_duration_seconds": took_s, "last_check_timestamp_seconds": check.at_s}
        for name, value in times.items():
            self._of[name].set(value)
            if self.value(f"metronome_{name}") is None:
                self.registry.register(self._of[name])
        if not dry_run:
            self._of["decisions_total"].labels(decision.kind if decision else Verdict.NOTHING).inc()
        if claims is None or decision is None:
            return
        drifts, periods = (
            {
                job: getattr(each, name)
                for job, each in seen.items()
                if getattr(each, name) is not None
            }
            for name in ("origin_ms", "period_ms")
        )
        slot_s = claims.instance.slot_ms / 1000
        self._set(
            "job_phase_drift_seconds",
            {job: claims.drift_ms(job, began) / 1000 for job, began in drifts.items()},
        )
        self._set("job_period_seconds", {job: each / 1000 for job, each in periods.items()})
        self._set(
            "job_cushion_seconds",
            {job: slot_s * claims.cushions.get(job, 0) for job in claims.offsets},
        )
        measured = decision.claims or claims
        links = evaluate(measured.instance, measured.offsets, measured.stretch).links
        self._set("link_score", {link.name: float(link.score) for link in links if link.jobs > 1})
        if decision.contention is not None:
            levels = vars(decision.contention).items()
            self._set(
                "contention_weighted_bytes_per_second",
                {state: float(level) * _BYTES_PER_MBIT for state, level in levels},
            )
        for finding in decision.findings:
            self._of["findings_total"].labels(finding.kind).inc()
        if not dry_run:
            steps = Counter(step.job for step in decision.plan.steps) if decision.plan else {}
            for job in claims.instance.jobs:
                told = self._of["rephasings_total"].labels(job.name, str(job.weight))
                told.inc(steps.get(job.name, 0))

    def _set(self, name: str, values: Mapping[str, float]) -> None:
        """Set a gauge of one label: its values by those of the label. All others vanish."""
        gauge = self._of[name]
        for family in gauge.collect():
            for sample in family.samples:
                (label,) = sample.labels.values()
                if label not in values:
                    gauge.remove(label)
        for label, value in values.items():
            gauge.labels(label).set(value)

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
                content = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        if len(content) > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES} bytes; is it the file?")
        try:
            families = list(text_string_to_metric_families(content.decode()))
        except ValueError:
            raise InputError(
                f"{path}: no metrics in the text format of Prometheus; delete it to count anew"
            ) from None
        for sample in (sample for family in families for sample in family.samples):
            name, labels, value = sample.name, sample.labels, float(sample.value)
            short = name.removeprefix("metronome_")
            of_a_job = short == "rephasings_total" and labels.keys() == {"training_job", "priority"}
            if short not in _COUNTERS or not (of_a_job or self.value(name, **labels) is not None):
                continue
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{path}: {name} is {quote(value)}; delete the file to count anew")
            counter = self._of[short]
            (counter.labels(**labels) if labels else counter).inc(value)

    @contextmanager
    def serve(self, address: str) -> Iterator[str]:
        """Answer scrapes at an address while the block runs; see `serve`."""
        with serve(address, self.registry) as url:
            yield url


@contextmanager
def serve(address: str, registry: Any) -> Iterator[str]:
    """Answer scrapes at ``HOST:PORT`` while the block runs; yield the address of the metrics.

    Port 0 is any that is free; an IPv6 address stands in brackets.

    Raises
    ------
    InputError
        If the address is none or is taken.
    """
    from prometheus_client import start_http_server

    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise InputError(f"{quote(address)}: no address to listen on; give HOST:PORT")
    try:
        server, thread = start_http_server(int(port), host, registry)
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
