"""Planning what a cluster is to give up."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster.connect import ALL_NAMESPACES, Connection
from metronome_opt.kubernetes.cluster.definitions import deletable
from metronome_opt.kubernetes.cluster.desired import Desired, JobKey, job_of
from metronome_opt.kubernetes.cluster.failure import MissingDefinitionError
from metronome_opt.kubernetes.cluster.kinds import DEFINITIONS
from metronome_opt.kubernetes.cluster.plan import (
    Action,
    Identity,
    Part,
    Plan,
    Verb,
    identity,
    is_ours,
    plan_delete,
)
from metronome_opt.kubernetes.cluster.survey import survey


@dataclass(frozen=True)
class Removal:
    """What is to go.

    Attributes
    ----------
    desired
        The jobs of this export; None for others.
    names
        Jobs by their own names or their labels; None for all, or those of the export.
    capacities
        Capacities and topologies as well: those of the export, else all.
    definitions
        The definitions as well.
    everywhere
        Jobs and topologies of all namespaces.
    """

    desired: Desired | None = None
    names: Collection[str] | None = None
    capacities: bool = False
    definitions: bool = False
    everywhere: bool = False


def plan_removal(connection: Connection, group: str, removal: Removal) -> Plan:
    """Plan to delete what is there of this.

    Parameters
    ----------
    connection
        Where; its namespace counts where no export names one and not all are meant.
    group
        API group of the claims.
    removal
        What is to go.

    Raises
    ------
    InputError
        If something of others would go as well.
    ClusterError
        If the server cannot be asked or refuses the user.
    """
    desired = removal.desired
    here = ALL_NAMESPACES if removal.everywhere else connection.namespace
    places = desired.namespaces if desired else [here]
    try:
        live = survey(connection, group, places, capacities=removal.capacities).live
    except MissingDefinitionError:
        live = ()
    shared: Collection[Identity] | None = None
    if not removal.capacities:
        shared = ()
    elif desired is not None:
        shared = [identity(item, group) for item in desired.shared]
    plan = plan_delete(live, group, jobs=_jobs(live, group, removal), shared=shared)
    if not removal.definitions:
        return plan
    return _with_definitions(connection, group, plan, here)


def _jobs(live: Collection[Manifest], group: str, removal: Removal) -> Collection[JobKey] | None:
    if removal.desired is not None:
        return removal.desired.jobs.keys()
    if removal.names is None:
        return None
    found = set()
    for item in live:
        job = job_of(item, group)
        if job is not None and {job.name, item["spec"].get("job")} & set(removal.names):
            found.add(job)
    return found


def _with_definitions(connection: Connection, group: str, plan: Plan, namespace: str) -> Plan:
    """Return a plan that deletes the definitions last."""
    found = deletable(connection, group, namespace)
    actions = tuple(Action(Verb.DELETE, DEFINITIONS, None, item) for item in found if is_ours(item))
    if not actions:
        return plan
    jobs = [part for part in plan.parts if part.job is not None]
    shared = [action for part in plan.parts if part.job is None for action in part.actions]
    return replace(plan, parts=(*jobs, Part(None, (*shared, *actions))))
