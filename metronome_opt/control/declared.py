"""The metrics of a monitor, declared once: what it tells and what its dashboard asks for.

The label of a job is `training_job`: `job` and `instance` are Prometheus's own, and it would rename
ours to `exported_job`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from metronome_opt.control.decide import Verdict
from metronome_opt.control.detect import Kind


@dataclass(frozen=True)
class Declared:
    """A metric: its name, what it says, its labels, its unit as Grafana names it.

    Attributes
    ----------
    choices
        The values of a label, where they are known beforehand.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ()
    unit: str = "short"
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


JOBS = Declared(
    "metronome_jobs",
    "gauge",
    "Jobs that claim a slot, by what the last check saw of them.",
    ("state",),
    choices={"state": ("measured", "unmeasured", "gone")},
)
DRIFT = Declared(
    "metronome_job_phase_drift_seconds",
    "gauge",
    "How far a job was off its slot when it was last measured; above 0 is late.",
    ("training_job",),
    "s",
)
CUSHION = Declared(
    "metronome_job_cushion_seconds",
    "gauge",
    "How far a job may be off its slot without being in anybody's way.",
    ("training_job",),
    "s",
)
PERIOD = Declared(
    "metronome_job_period_seconds",
    "gauge",
    "The period of a job when it was last measured.",
    ("training_job",),
    "s",
)
SCORE = Declared(
    "metronome_link_score",
    "gauge",
    "Compatibility of the jobs on a link as measured: 1 less the share of capacity in excess.",
    ("link",),
    "percentunit",
)
CONTENTION = Declared(
    "metronome_contention_weighted_bytes_per_second",
    "gauge",
    "Mean bandwidth that jobs lack, times their weights: as claimed, as measured, as planned.",
    ("state",),
    "Bps",
    {"state": ("claimed", "measured", "planned")},
)
FINDINGS = Declared(
    "metronome_findings_total",
    "counter",
    "What was found not to be as claimed.",
    ("kind",),
    choices={"kind": tuple(Kind)},
)
DECISIONS = Declared(
    "metronome_decisions_total",
    "counter",
    "Checks, by what was decided.",
    ("decision",),
    choices={"decision": tuple(Verdict)},
)
REPHASINGS = Declared(
    "metronome_rephasings_total",
    "counter",
    "How often a job was told to wait once, so as to keep another slot.",
    ("training_job", "priority"),
)
ERRORS = Declared(
    "metronome_prometheus_errors_total",
    "counter",
    "Checks that were left out because Prometheus gave no answer that could be used.",
)
DURATION = Declared(
    "metronome_check_duration_seconds", "gauge", "How long the last check took.", unit="s"
)
LAST_CHECK = Declared(
    "metronome_last_check_timestamp_seconds",
    "gauge",
    "When the last check was completed, seconds since the epoch.",
    unit="s",
)

METRICS = (
    JOBS,
    DRIFT,
    CUSHION,
    PERIOD,
    SCORE,
    CONTENTION,
    FINDINGS,
    DECISIONS,
    REPHASINGS,
    ERRORS,
    DURATION,
    LAST_CHECK,
)
