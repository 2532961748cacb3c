"""`metronome claims status`: what the cluster holds of each job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options as common
from metronome_opt.cli.claims import options

if TYPE_CHECKING:
    from rich.table import Table

    from metronome_opt.kubernetes.cluster.status import JobStatus


def status(
    directory: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]", help="Compare with this export."),
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.LookIn = None,
    everywhere: options.Everywhere = False,
    timeout: options.Timeout = options.TIMEOUT,
    group: common.Group = common.GROUP,
    as_json: common.Json = False,
) -> int:
    """Show the claims in the cluster, job by job: where, when, and what is observed of them.

    Exit 1 if DIR is given and a job is not as it says.
    """
    from metronome_opt.kubernetes.cluster import ALL_NAMESPACES, connect
    from metronome_opt.kubernetes.cluster.desired import read_desired
    from metronome_opt.kubernetes.cluster.status import Step, job_statuses
    from metronome_opt.kubernetes.cluster.survey import list_claims
    from metronome_opt.report import terminal

    options.check_places(directory, namespace, everywhere)
    desired = read_desired(directory, namespace) if directory else None
    with connect(kubeconfig, context, namespace, timeout_s=timeout) as connection:
        here = ALL_NAMESPACES if everywhere else connection.namespace
        places = desired.namespaces if desired else [here]
        group = desired.group if desired else group
        live = list_claims(connection, group, places)
    rows = job_statuses(live, group, desired)
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows], indent=2))
    elif rows:
        terminal().print(_table(rows))
    else:
        typer.echo(f"no claims in {'any namespace' if everywhere else ', '.join(places)}")
    apart = desired is not None and any(row.as_exported is not Step.SAME for row in rows)
    return 1 if apart else 0


def _table(rows: Iterable[JobStatus]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("job", "tasks", "nodes", "offset ms", "period ms", "observed", "as exported"):
        numeric = heading in ("tasks", "offset ms", "period ms")
        table.add_column(heading, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(
            str(row.job),
            str(row.tasks),
            _nodes(row.nodes),
            _milliseconds(row.offsets_us),
            _milliseconds(row.periods_us),
            _observed(row),
            "" if row.as_exported is None else row.as_exported.value,
        )
    return table


def _nodes(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:2])
    return shown if len(names) <= 2 else f"{shown} and {len(names) - 2} more"


def _milliseconds(values_us: tuple[int, ...]) -> str:
    if len(values_us) > 2:
        return f"{len(values_us)} different"
    return " and ".join(f"{value / 1000:g}" for value in values_us)


def _observed(row: JobStatus) -> str:
    parts = [f"{name} {count}/{row.tasks}" for name, count in row.conditions.items()]
    for what, values in (("offset", row.observed_offsets_us), ("period", row.observed_periods_us)):
        if values:
            parts.append(f"{what} {_milliseconds(values)} ms")
    return ", ".join(parts) or "nothing"
