"""The objects that a cluster holds of each job, as a table for people and programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import typer
from rich.table import Table

from metronome_opt.cli.options import print_json
from metronome_opt.kubernetes.cluster import ALL_NAMESPACES, Connection
from metronome_opt.kubernetes.cluster.objects import Desired, JobKey, claims_of, identity, job_of
from metronome_opt.kubernetes.cluster.plan import survey
from metronome_opt.kubernetes.schemas import Manifest
from metronome_opt.report.tables import plain_table, terminal


def show_status(
    connection: Connection,
    group: str,
    desired: Desired | None,
    *,
    everywhere: bool,
    as_json: bool,
) -> int:
    """Print the claims of each job; return 1 if a job is not as an export says."""
    group = desired.group if desired else group
    here = ALL_NAMESPACES if everywhere else connection.namespace
    places = desired.namespaces if desired else [here]
    live, _ = survey(connection, [claims_of(group)], places)
    # A claim without an allocation is a template: a pattern of traffic, nobody's reservation.
    held = _by_job((item for item in live if "allocation" in item["spec"]), group)
    wanted = (
        _by_job((item for of in desired.jobs.values() for item in of), group) if desired else {}
    )
    rows = [
        _row(job, held[job], None if desired is None else _compare(held[job], wanted.get(job)))
        for job in sorted({*held, *wanted})
    ]
    if as_json:
        print_json(rows)
    elif rows:
        terminal().print(_table(rows))
    else:
        typer.echo(f"no claims in {'any namespace' if everywhere else ', '.join(places)}")
    return 1 if any(row["as_exported"] not in (None, "yes") for row in rows) else 0


def _by_job(items: Iterable[Manifest], group: str) -> defaultdict[JobKey, list[Manifest]]:
    """Return the claims among some objects by their jobs."""
    found: defaultdict[JobKey, list[Manifest]] = defaultdict(list)
    for item in items:
        job = job_of(item, group)
        if job is not None and identity(item, group)[0] == claims_of(group):
            found[job].append(item)
    return found


def _compare(held: list[Manifest], wanted: list[Manifest] | None) -> str:
    """Return whether the claims of a job are in the cluster as they are in an export."""
    if wanted is None:
        return "not in the export"
    if not held:
        return "not in the cluster"
    specs = [{one["metadata"]["name"]: one["spec"] for one in claims} for claims in (held, wanted)]
    return "yes" if specs[0] == specs[1] else "differs"


def _row(job: JobKey, claims: list[Manifest], as_exported: str | None) -> dict[str, Any]:
    """Return what the claims of a job say; offsets and periods that differ, each once."""
    allocations = [claim["spec"]["allocation"] for claim in claims]
    periods = [claim["spec"]["traffic"]["periodMicroseconds"] for claim in claims]
    stretches = [one["stretchMicroseconds"] for one in allocations]
    observed = [claim.get("status") or {} for claim in claims]
    conditions: Counter[str] = Counter()
    for one in (one for status in observed for one in status.get("conditions") or ()):
        conditions[one["type"]] += one["status"] == "True"
    return {
        "namespace": job.namespace,
        "job": job.name,
        "tasks": len(claims),
        "nodes": sorted({one["node"] for one in allocations}),
        "offsets_us": _different(one["offsetMicroseconds"] for one in allocations),
        "periods_us": _different(map(sum, zip(periods, stretches, strict=True))),
        "conditions": dict(sorted(conditions.items())),
        "observed_offsets_us": _different(
            one.get("observedOffsetMicroseconds") for one in observed
        ),
        "observed_periods_us": _different(
            one.get("observedPeriodMicroseconds") for one in observed
        ),
        "as_exported": as_exported,
    }


def _different(values: Iterable[int | None]) -> list[int]:
    return sorted({value for value in values if value is not None})


def _table(rows: Iterable[dict[str, Any]]) -> Table:
    cells = []
    for row in rows:
        names = row["nodes"]
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        seen = [f"{name} {count}/{row['tasks']}" for name, count in row["conditions"].items()]
        seen += [
            f"{what} {_milliseconds(row[f'observed_{what}s_us'])} ms"
            for what in ("offset", "period")
            if row[f"observed_{what}s_us"]
        ]
        cells.append(
            (
                f"{row['namespace']}/{row['job']}",
                str(row["tasks"]),
                ", ".join(names[:2]) + more,
                _milliseconds(row["offsets_us"]),
                _milliseconds(row["periods_us"]),
                ", ".join(seen) or "nothing",
                row["as_exported"] or "",
            )
        )
    headings = ("job", "tasks", "nodes", "offset ms", "period ms", "observed", "as exported")
    return plain_table(headings, cells, left=("nodes", "observed", "as exported"))


def _milliseconds(values_us: list[int]) -> str:
    if len(values_us) > 2:
        return f"{len(values_us)} different"
    return " and ".join(f"{value / 1000:g}" for value in values_us)
