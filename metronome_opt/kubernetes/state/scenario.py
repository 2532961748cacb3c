"""A cluster's state as a scenario of jobs at their nodes; windows that were solved for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.documents import read_document
from metronome_opt.kubernetes.state.migrations import apply_migrations
from metronome_opt.kubernetes.state.placement import on_links, place_scenario
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.store import read_cluster_state
from metronome_opt.kubernetes.state.views import with_slots
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario.build import with_hyperperiod
from metronome_opt.scenario.cluster_input import CLUSTER_FORMAT, ClusterSpec, read_cluster
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT, Scenario, locate, read_scenario
from metronome_opt.scenario.verification import verify_placed

_TREE = {
    *("nodes", "racks", "links", "zone_costs", "gpu", "network"),
    *("routing", "hash_seed", "queue_pairs"),
}
_TREE |= {"has_core"}


def make_state(path: Path, now_s: float, *, with_jobs: bool = False) -> ClusterState:
    """Return the state of a cluster, or of a scenario's, by its file or its name.

    Parameters
    ----------
    path
        A cluster or a scenario, or the name of one that comes with the package.
    now_s
        Start of the jobs, in Unix time.
    with_jobs
        Whether to reserve nodes for the jobs of the scenario.

    Raises
    ------
    InputError
        If the file holds neither, or there is no room for one of the jobs.
    """
    path = locate(path)
    kind = read_document(path).get("format")
    if kind == CLUSTER_FORMAT:
        if with_jobs:
            raise InputError(f"--with-jobs: {path} is a cluster, and has no jobs")
        return ClusterState(read_cluster(path))
    if kind not in (SCENARIO_FORMAT, None):
        known = f"{quote(CLUSTER_FORMAT)} or {quote(SCENARIO_FORMAT)}"
        raise InputError(f"{path}: format: must be {known}, got {quote(kind)}")
    scenario = read_scenario(path)
    with error_context(path):
        scenario = with_hyperperiod(scenario)
        grid = scenario.slot_ms, scenario.hyperperiod_ms or 0
        state = ClusterState(ClusterSpec.of_cluster(scenario.name, scenario.cluster, *grid))
        if with_jobs:
            place_scenario(state, scenario, now_s)
    return state


def read_state(path: str | Path, places: Mapping[str, Sequence[str]] | None = None) -> Scenario:
    """Read the state of a cluster as a scenario; errors name the file.

    Parameters
    ----------
    places
        Nodes of jobs that a schedule migrates; without room, all jobs stay where they are.
    """
    state = read_cluster_state(path)
    with suppress(InputError):
        state = apply_migrations(state, places or {})
    with error_context(path):
        return scenario_of(state)


def scenario_of(state: ClusterState) -> Scenario:
    """Return the reservations in force as a scenario.

    The cluster keeps its slots and its hyperperiod, so that all periods that are solved divide it.

    Raises
    ------
    InputError
        If no job sends anything.
    """
    document = document_of(state)
    if not document["jobs"]:
        raise InputError("no reservations of several tasks are in force; place jobs first")
    # A job that runs keeps the class with which it started; to change paths costs nothing.
    fixed = {**state.cluster.to_dict(), "background": {}, "traffic_classes": 1}
    spec = ClusterSpec.from_dict({**fixed, **document["cluster"]})
    for job in document["jobs"]:
        job.pop("paths", None)
    return Scenario.from_dict({**document, "cluster": spec})


def document_of(state: ClusterState) -> dict[str, Any]:
    """Return a state as a document of a scenario, with offsets in force as current offsets.

    Periods are without idle slots, and iterations as present links allow. A job of one task sends
    nothing: it is omitted, and its node has fewer resources. A node that is down has the resources
    of its jobs. Of a link that failed background traffic takes all.
    """
    cluster = state.cluster
    sending, held, single = [], Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for reservation in state.reservations.values():
        used = single
        if reservation.gang.tasks > 1:
            sending.append(reservation)
            used = held
        for node in reservation.nodes:
            used.update({(node, kind): amount for kind, amount in reservation.gang.each})
    tree = cluster.model_dump(mode="json", exclude_none=True, include=_TREE)
    for node, is_up in zip(tree["nodes"], state.up.tolist(), strict=True):
        name = node["name"]
        node["has"] = {
            kind: amount - single[name, kind] if is_up else held[name, kind]
            for kind, amount in node["has"].items()
        }
    failed = [link for link, capacity in state.capacities.items() if not capacity]
    for link in tree["links"]:
        link["capacity"] = state.capacities[link["name"]] or link["capacity"]
    if failed:
        tree["background"] = dict.fromkeys(failed, "100%")
    return {
        "format": SCENARIO_FORMAT,
        "name": cluster.name,
        "slot_ms": cluster.slot_ms,
        "cluster": {"topology": "listed", **tree},
        "jobs": [_described(_present(state, held), cluster.slot_ms) for held in sending],
    }


def _present(state: ClusterState, held: Reservation) -> Reservation:
    """Return a reservation as present links allow; as it is if that is too long."""
    if held.gang.step is not None and not held.gang.step.is_stated:
        with suppress(InputError):
            return on_links(state, held)
    return held


def _described(held: Reservation, slot_ms: int) -> dict[str, Any]:
    """Return a job that runs as a scenario describes it."""
    gang = held.gang
    phases = [
        {
            "start_ms": phase.start * slot_ms,
            "length_ms": phase.length * slot_ms,
            "rate_mbps": phase.rate,
        }
        for phase in gang.phases
    ]
    document = {
        "name": gang.name,
        "traffic": {"period_ms": gang.period * slot_ms, "phases": phases}
        if gang.step is None or gang.step.is_stated
        else gang.step.model_dump(mode="json"),
        "workers": gang.tasks,
        "each": dict(gang.each),
        "priority": gang.weight,
        "nodes": list(held.nodes),
        "ready_ms": gang.ready % gang.period * slot_ms,
        "max_stretch_ms": max(gang.max_stretch, held.stretch) * slot_ms,
        "current_offset_ms": held.offset * slot_ms,
    }
    usual = "tasks" if gang.step is None else gang.step.usual_algorithm
    optional = {
        "allreduce": None if gang.allreduce == usual else gang.allreduce,
        "iterations": gang.iterations,
        "jitter": gang.jitter,
        "paths": held.paths or None,
        **gang.limits.stated(),
    }
    return document | {name: value for name, value in optional.items() if value is not None}


def apply_schedule(state: ClusterState, schedule: Schedule) -> bool:
    """Put windows and placements of a schedule into force; return whether any reservation changes.

    Ungated jobs keep the periods of their reservations.

    Raises
    ------
    InputError
        If the schedule is false or of another state, its nodes lack free resources, or a period
        does not divide the hyperperiod.
    """
    there = apply_migrations(state, schedule.places or {}, schedule.paths)
    problem, faults = verify_placed(scenario_of(there), schedule)
    if problem is None or faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(f"{faults[0]}{more}; solve the state again")
    plan, reservations = Plan.of(problem.instance, schedule), []
    for job, offset in plan.offsets.items():
        held = _present(there, there.reservations[job])
        held = held.model_copy(update={"offset": offset % held.period})
        reservations.append(with_slots(held, plan))
    return state.revise(reservations)
