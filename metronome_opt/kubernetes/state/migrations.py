"""Migrations of running jobs of a cluster's state, as `allocation` decides them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metronome_opt.allocation import migrations
from metronome_opt.allocation.migrations import Migration
from metronome_opt.allocation.paths import reroute_jobs
from metronome_opt.kubernetes.state.placement import find_undelayed, occupancy_of, on_links
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario.cluster import Paths


def decide_migrations(
    state: ClusterState, cost_s: float | Mapping[str, float], now_s: float
) -> list[Migration]:
    """Decide which jobs migrate; nothing is changed yet.

    Parameters
    ----------
    cost_s
        Time that a migration costs any job; or the jobs that may migrate, by name.
    now_s
        Unix time, by which remaining times of jobs are known.
    """
    occupancy, slot_ms = occupancy_of(state, now_s), state.cluster.slot_ms
    kept = {
        name: state.reservations[name].iteration * slot_ms / occupancy.placed[name].job.best_ms - 1
        for name in find_undelayed(state)
    }
    costs_s = cost_s if isinstance(cost_s, Mapping) else dict.fromkeys(occupancy.placed, cost_s)
    costs_ms = {job: 1000 * cost for job, cost in costs_s.items()}
    return migrations.choose_migrations(occupancy, costs_ms, kept)


def reroute(state: ClusterState, now_s: float) -> bool:
    """Give flows of running jobs other paths where these cost less; return whether any change."""
    if state.cluster.routing != "chosen":
        return False
    occupancy = occupancy_of(state, now_s)
    changed = reroute_jobs(occupancy, list(occupancy.placed))
    there = apply_migrations(
        state, {}, {job: placement.paths for job, placement in changed.items()}
    )
    return state.revise(there.reservations[job] for job in changed)


def apply_migrations(
    state: ClusterState,
    places: Mapping[str, Sequence[str]],
    paths: Mapping[str, Paths] | None = None,
) -> ClusterState:
    """Return a copy of a state with jobs on other nodes or paths; jobs that do not run are skipped.

    Bursts of a job become as fast as its links allow; its windows stay otherwise.

    Parameters
    ----------
    places
        Nodes of the tasks of jobs.
    paths
        Paths of the flows of jobs; those of other jobs that migrate follow from their hash.

    Raises
    ------
    InputError
        If there is no room.
    """
    there, reservations, paths = state.copy(), [], paths or {}
    if state.cluster.routing != "chosen":
        paths = {}
    for job in {**places, **paths}:
        reservation = state.reservations.get(job)
        if reservation is None:
            continue
        nodes = tuple(places.get(job, reservation.nodes))
        its = paths.get(job, reservation.paths if nodes == reservation.nodes else ())
        if (nodes, its) == (reservation.nodes, reservation.paths):
            continue
        moved = reservation.model_copy(update={"nodes": nodes, "paths": its})
        reservations.append(on_links(state, moved))
    there.revise(reservations)
    return there
