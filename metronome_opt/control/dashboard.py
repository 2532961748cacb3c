"""A Grafana dashboard of the monitor's metrics, made from their declarations.

Grafana's own library for making dashboards calls itself experimental and numbers its releases by
Grafana's, so the document is stated here as it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from metronome_opt.control.declared import (
    CONTENTION,
    CUSHION,
    DECISIONS,
    DRIFT,
    DURATION,
    ERRORS,
    FINDINGS,
    JOBS,
    LAST_CHECK,
    PERIOD,
    REPHASINGS,
    SCORE,
)

SCHEMA_VERSION = 39  # Grafana 11; later ones bring it up to date as they load it

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_OF_JOBS = '{training_job=~"$training_job"}'


@dataclass(frozen=True)
class Query:
    """PromQL, and how each of its series is called."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A picture of queries.

    Attributes
    ----------
    kind
        As Grafana names it.
    unit
        As Grafana names it.
    width
        Of 24 columns.
    bars
        Whether values are drawn as stacked bars.
    limit
        Where values begin to be worth a look, drawn as a line in a time series.
    """

    title: str
    description: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 12
    bars: bool = False
    limit: float | None = None

    @property
    def height(self) -> int:
        """Rows of the grid that it takes."""
        return 4 if self.kind == "stat" else 8


PANELS = (
    Panel(
        "Age of the last check",
        "Time since a check was completed. If it grows beyond the interval, the monitor is stuck, "
        "gone, or gets no answers.",
        (Query(f"time() - {LAST_CHECK.name}"),),
        "stat",
        LAST_CHECK.unit,
        6,
        limit=300,
    ),
    Panel("Jobs", JOBS.help, (Query(JOBS.name, "{{state}}"),), "stat", JOBS.unit, 6),
    Panel(
        "Prometheus errors in the last hour",
        ERRORS.help,
        (Query(f"increase({ERRORS.name}[1h])"),),
        "stat",
        ERRORS.unit,
        6,
        limit=1,
    ),
    Panel("Last check", DURATION.help, (Query(DURATION.name),), "stat", DURATION.unit, 6),
    Panel(
        "Drift as a share of the cushion",
        "Above 1 a job is off its slot by more than its cushion, and may be in somebody's way. "
        "Jobs without a cushion are not shown.",
        (
            Query(
                f"abs({DRIFT.name}{_OF_JOBS}) / ({CUSHION.name}{_OF_JOBS} > 0)", "{{training_job}}"
            ),
        ),
        unit="percentunit",
        limit=1,
    ),
    Panel(
        "Drift by job", DRIFT.help, (Query(DRIFT.name + _OF_JOBS, "{{training_job}}"),), unit="s"
    ),
    Panel("Score by link", SCORE.help, (Query(SCORE.name, "{{link}}"),), unit=SCORE.unit),
    Panel(
        "Contention", CONTENTION.help, (Query(CONTENTION.name, "{{state}}"),), unit=CONTENTION.unit
    ),
    Panel(
        "Decisions",
        DECISIONS.help,
        (
            Query(
                f"sum by (decision) (increase({DECISIONS.name}[$__rate_interval]))", "{{decision}}"
            ),
        ),
        bars=True,
    ),
    Panel(
        "Findings",
        FINDINGS.help,
        (Query(f"sum by (kind) (increase({FINDINGS.name}[$__rate_interval]))", "{{kind}}"),),
        bars=True,
    ),
    Panel(
        "Re-phasings per hour, by priority",
        "How often jobs were told to wait in the hour before. Those of high priority are to be "
        "disturbed least.",
        (Query(f"sum by (priority) (increase({REPHASINGS.name}[1h]))", "priority {{priority}}"),),
    ),
    Panel(
        "Jobs re-phased most in the last hour",
        REPHASINGS.help,
        (
            Query(
                "topk(10, sum by (training_job, priority) "
                f"(increase({REPHASINGS.name}{_OF_JOBS}[1h])))",
                "{{training_job}}, priority {{priority}}",
            ),
        ),
    ),
    Panel(
        "Period by job",
        PERIOD.help,
        (Query(PERIOD.name + _OF_JOBS, "{{training_job}}"),),
        unit=PERIOD.unit,
        width=_COLUMNS,
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it; it asks which Prometheus and jobs to show."""
    return {
        "uid": "metronome-monitor",
        "title": "Metronome monitor",
        "tags": ["metronome"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_source_variable(), _jobs_variable()]},
        "panels": [
            _panel(number, panel, position)
            for number, (panel, position) in enumerate(zip(PANELS, _positions(), strict=True), 1)
        ],
    }


def dashboard_json() -> str:
    """Return the dashboard as the text of a file."""
    return json.dumps(dashboard(), indent=2) + "\n"


def _source_variable() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _jobs_variable() -> dict[str, Any]:
    return {
        "name": "training_job",
        "label": "Job",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({PERIOD.name}, training_job)", "refId": "jobs"},
        "refresh": 2,  # whenever the time changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _positions() -> list[dict[str, int]]:
    """Return where each panel is, row by row from the left."""
    positions = []
    x = y = row = 0
    for panel in PANELS:
        if x + panel.width > _COLUMNS:
            x, y, row = 0, y + row, 0
        positions.append({"x": x, "y": y, "w": panel.width, "h": panel.height})
        x += panel.width
        row = max(row, panel.height)
    return positions


def _panel(number: int, panel: Panel, position: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": position,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
            }
            for index, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "bars" if panel.bars else "line",
            "fillOpacity": 80 if panel.bars else 0,
            "stacking": {"mode": "normal" if panel.bars else "none"},
            "thresholdsStyle": {"mode": "off" if panel.limit is None else "line"},
        }
    return defaults


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
