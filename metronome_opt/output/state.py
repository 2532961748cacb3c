"""A cluster's state for the terminal: its jobs, and its busiest links."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from rich.table import Table

from metronome_opt.output.tables import MAX_NODES, format_nodes, plain_table
from metronome_opt.problem.objectives import format_share

if TYPE_CHECKING:
    from metronome_opt.kubernetes.state.state import ClusterState

_BUSIEST = 20
_RESOURCES = {"GPUs": 1, "CPU (cores)": 1000, "memory (GiB)": 1024}


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
    counts = ("weight", "tasks", "nodes", "racks")
    headings = ("job", *counts, "period\n(ms)", "offset\n(ms)", "placement")
    return plain_table(headings, rows, left=("placement",))


def _links_table(state: ClusterState) -> Table:
    """Return the shared links, by number of jobs, then by demand, descending."""
    users = Counter(link for job in state.reservations for link in state.flows(job))
    rows = []
    for link, jobs in users.items():
        if jobs > 1:
            residual = state.residual(link)
            carries = int(state.capacity[state.link_index(link)])
            used = Fraction(int((carries - residual).sum()), len(residual) * max(1, carries))
            rows.append(
                (-jobs, -used, link, carries, Fraction(int((residual < 0).sum()), len(residual)))
            )
    texts = [
        (link, str(-jobs), f"{carries:,}", format_share(-used), format_share(overloaded))
        for jobs, used, link, carries, overloaded in sorted(rows)[:_BUSIEST]
    ]
    headings = ("shared link", "jobs", "Mbit/s", "mean demand", "overloaded slots")
    return plain_table(headings, texts)
