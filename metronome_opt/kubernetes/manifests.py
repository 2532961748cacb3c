"""From a verified schedule to the objects of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from metronome_opt.errors import InputError, MetronomeError, place, show
from metronome_opt.instance import Instance, Job
from metronome_opt.kubernetes.check import Manifest, Manifests
from metronome_opt.kubernetes.claims import capacities, claims
from metronome_opt.kubernetes.crd import custom_resource_definitions
from metronome_opt.kubernetes.diktyo import app_groups, network_topology
from metronome_opt.kubernetes.names import DEFAULT_GROUP, DEFAULT_NAMESPACE, Naming
from metronome_opt.kubernetes.write import OBJECT_FILES, write_manifests
from metronome_opt.scenario.deployment import Deployment, Task
from metronome_opt.schedule import Schedule, Status
from metronome_opt.verify import check


class VerificationError(MetronomeError):
    """A schedule states what is not true, or nothing that could be claimed."""

    exit_status = 1


def build_manifests(
    instance: Instance,
    schedule: Schedule,
    deployment: Deployment,
    *,
    group: str = DEFAULT_GROUP,
    namespace: str = DEFAULT_NAMESPACE,
) -> Manifests:
    """Return every object of an export, by file.

    Parameters
    ----------
    instance, schedule
        The problem and its answer.
    deployment
        Where the tasks run.
    group
        API group of the claims and capacities.
    namespace
        Namespace of every namespaced object.

    Returns
    -------
    Manifests
        The objects of each file, in the order in which they are written; a file without objects is
        left out. Nothing is checked against a schema yet.

    Raises
    ------
    InputError
        If offsets are missing, the deployment does not fit the instance, or `group` or
        `namespace` is not valid.
    """
    _check_deployment(instance, deployment)
    naming = Naming.of(deployment, group, namespace)
    topology = network_topology(deployment, naming)
    objects: tuple[list[Manifest], ...] = (
        custom_resource_definitions(group),
        capacities(instance, deployment, naming),
        app_groups(instance, deployment, naming),
        [] if topology is None else [topology],
        claims(instance, schedule, deployment, naming),
    )
    return {name: items for name, items in zip(OBJECT_FILES, objects, strict=True) if items}


def export_claims(
    instance: Instance,
    schedule: Schedule,
    deployment: Deployment,
    directory: str | Path,
    *,
    group: str = DEFAULT_GROUP,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[Path]:
    """Verify a schedule and write its objects to a folder; see `write_manifests`.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    VerificationError
        If the schedule has no offsets or states anything that is not true.
    InputError
        If the objects are not valid or the folder cannot be written.
    """
    if schedule.status in (Status.INFEASIBLE, Status.UNKNOWN):
        raise VerificationError(
            f"schedule: status: {schedule.status}, so there is nothing to claim; "
            "solve the instance first"
        )
    faults = check(instance, schedule)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise VerificationError(
            f"schedule: {faults[0]}{more}; claims are written of true schedules only"
        )
    manifests = build_manifests(instance, schedule, deployment, group=group, namespace=namespace)
    return write_manifests(manifests, directory)


def _check_deployment(instance: Instance, deployment: Deployment) -> None:
    """Refuse a deployment that names what there is not, or one thing twice."""
    links = {link.name for link in instance.links}
    nodes: dict[str, tuple[str, ...]] = {}
    for index, node in enumerate(deployment.nodes):
        if node.name in nodes:
            _refuse("nodes", index, "name", f"{show(node.name)} is there twice")
        nodes[node.name] = node.links
        for link in node.links:
            if link not in links:
                _refuse("nodes", index, "links", f"the instance has no link {show(link)}")
        if len(set(node.links)) < len(node.links):
            _refuse("nodes", index, "links", "a link is there twice")
    jobs = {job.name: job for job in instance.jobs}
    seen: set[tuple[str, int]] = set()
    for index, task in enumerate(deployment.tasks):
        if task.job not in jobs:
            _refuse("tasks", index, "job", f"the instance has no job {show(task.job)}")
        _check_task(index, task, jobs[task.job], nodes)
        if (task.job, task.index) in seen:
            _refuse("tasks", index, "index", f"{task.index} of its job is there twice")
        seen.add((task.job, task.index))


def _check_task(index: int, task: Task, job: Job, nodes: Mapping[str, tuple[str, ...]]) -> None:
    if task.index < 0:
        _refuse("tasks", index, "index", f"must be at least 0, got {task.index}")
    if task.node not in nodes:
        _refuse("tasks", index, "node", f"there is no node {show(task.node)}")
    for link in task.links:
        if link not in job.links:
            _refuse("tasks", index, "links", f"job {show(task.job)} does not use {show(link)}")
    if task.links and task.links[0] not in nodes[task.node]:
        _refuse(
            "tasks", index, "links", f"{show(task.links[0])} is no link of node {show(task.node)}"
        )


def _refuse(kind: str, index: int, field: str, message: str) -> None:
    raise InputError(f"{place(['deployment', kind, index, field])}: {message}")
