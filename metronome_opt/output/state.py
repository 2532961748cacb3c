"""A cluster's state for the terminal: its jobs, its busiest links, and where a job is placed."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from rich.table import Table

from metronome_opt.errors import first_few, pluralise
from metronome_opt.kubernetes.state.placement import PlacementDecision
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.output.tables import MAX_NODES, format_nodes, plain_table, spines_text, terminal
from metronome_opt.problem.objectives import format_share

_BUSIEST = 20
_RESOURCES = {"GPUs": 1, "CPU (cores)": 1000, "memory (GiB)": 1024}


def print_state(state: ClusterState) -> None:
    """Print the tables of a state."""
    for table in state_tables(state):
        terminal().print(table)
    for job, links in state.cut_off.items():
        terminal().print(f"{job} has no network; links that carry nothing: {first_few(links)}")


def state_tables(state: ClusterState) -> list[Table]:
    """Return tables of the cluster, its jobs and its busiest links; empty ones are dropped."""
    tables = [_cluster_table(state), _jobs_table(state), _links_table(state)]
    return [table for table in tables if table.row_count]


def _cluster_table(state: ClusterState) -> Table:
    rows = []
    for column, (name, unit) in enumerate(_RESOURCES.items()):
        total, free = (int(part[:, column].sum()) for part in (state.total, state.free))
        rows.append((name, f"{total / unit:,.0f}", f"{free / unit:,.0f}"))
    rows.append(("nodes", f"{len(state.up):,}", f"{int(state.up.sum()):,} take tasks"))
    return plain_table((state.cluster.name, "total", "free"), rows)


def _jobs_table(state: ClusterState) -> Table:
    slot_ms, hosts = state.cluster.slot_ms, state.cluster.nodes_by_name
    rows = [
        (
            job,
            str(reservation.gang.weight),
            str(len(reservation.nodes)),
            str(len(set(reservation.nodes))),
            str(len({hosts[node].rack for node in reservation.nodes})),
            f"{reservation.period * slot_ms:,}",
            f"{reservation.offset * slot_ms:,}",
            format_nodes(reservation.nodes, MAX_NODES),
        )
        for job, reservation in state.reservations.items()
    ]
    counts = ("priority", "tasks", "nodes", "racks")
    headings = ("job", *counts, "period\n(ms)", "offset\n(ms)", "placement")
    return plain_table(headings, rows, left=("placement",))


def _links_table(state: ClusterState) -> Table:
    """Return the shared links, by number of jobs, then by demand, descending."""
    users = Counter(link for job in state.reservations for link in state.flows[job])
    rows = []
    for link, jobs in users.items():
        if jobs > 1 and state.capacities[link]:
            residual = state.residual(link)
            carries = int(state.capacities[link])
            used = Fraction(int((carries - residual).sum()), len(residual) * carries)
            rows.append(
                (-jobs, -used, link, carries, Fraction(int((residual < 0).sum()), len(residual)))
            )
    texts = [
        (link, str(-jobs), f"{carries:,}", format_share(-used), format_share(overloaded))
        for jobs, used, link, carries, overloaded in sorted(rows)[:_BUSIEST]
    ]
    headings = ("shared link", "jobs", "Mbit/s", "mean demand", "overloaded slots")
    return plain_table(headings, texts)


# ------------------------------------------------------------------ a placement


def placement_document(
    state: ClusterState, decision: PlacementDecision, *, reserved: bool
) -> dict[str, Any]:
    """Return where a job is placed, as JSON.

    Parameters
    ----------
    state
        The state before, without the job.
    decision
        Its placement.
    reserved
        Whether its nodes are reserved.

    Returns
    -------
    dict
        Times in ms, and the jobs that become slower.
    """
    held, slot_ms = decision.reservation, state.cluster.slot_ms
    return {
        "job": held.job,
        "placed": True,
        "reserved": reserved,
        "nodes": list(held.nodes),
        "racks": decision.placement.racks,
        "gated": held.gated,
        "traffic_class": held.traffic_class,
        "offset": held.offset,
        "offset_ms": held.offset * slot_ms,
        **({"paths": held.paths} if held.paths else {}),
        "stretch": held.stretch,
        "period_ms": held.period * slot_ms,
        "best_ms": round(decision.best_ms, 1),
        "alone_ms": round(decision.alone_ms, 1),
        "expected_ms": round(decision.expected_ms, 1),
        "why_slower": decision.why_slower,
        "affected": [
            {"job": name, "before_ms": round(before, 1), "expected_ms": round(after, 1)}
            for name, before, after in decision.affected(state)
        ],
    }


def placement_lines(
    state: ClusterState, decision: PlacementDecision, *, reserved: bool
) -> list[str]:
    """Return where a job is placed, in lines.

    Parameters
    ----------
    state, decision, reserved
        As of `placement_document`.

    Returns
    -------
    list
        The job first, then those that become slower.
    """
    held, slot_ms = decision.reservation, state.cluster.slot_ms
    placed, why = "placed" if reserved else "would be placed", decision.why_slower
    racks = pluralise(decision.placement.racks, "rack")
    offset, period = held.offset * slot_ms, held.period * slot_ms
    windows = f"windows: offset {offset} ms of a period of {period} ms"
    lines = [
        f"{held.job}: {placed} on {format_nodes(held.nodes)}; {racks}",
        f"iteration {decision.expected_ms:.0f} ms"
        + (f" instead of {decision.best_ms:.0f}: {why}" if why else ""),
        windows if held.gated else "no windows: bursts begin when they are ready",
    ]
    if state.cluster.traffic_classes > 1:
        lines.append(f"traffic class: {held.traffic_class}")
    if held.paths:
        lines.append(f"spines: {spines_text(held.paths)}")
    for name, before, after in decision.affected(state):
        shared = ", ".join(sorted(state.flows[name].keys() & decision.placement.links.keys()))
        times = f"iteration {after:.0f} ms instead of {before:.0f}"
        lines.append(f"{name}: {times}: also sends on {shared}")
    return lines
