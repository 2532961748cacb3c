"""Objects of a cluster for a verified schedule.

They are a capacity for each node, a claim for each task, and AppGroups and a NetworkTopology for
the network-aware scheduler plugins (kubernetes-sigs/scheduler-plugins), which install the
definitions of these two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metronome_opt.errors import MetronomeError
from metronome_opt.kubernetes.claims.files import OBJECT_FILES, write_manifests
from metronome_opt.kubernetes.claims.names import (
    CAPACITY,
    CLAIM,
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    VERSION,
    Manifest,
    Manifests,
    Naming,
    read_shipped,
)
from metronome_opt.kubernetes.claims.quantities import quantity
from metronome_opt.kubernetes.state.records import Gang
from metronome_opt.problem.evaluation import LinkReport
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.scenario.cluster import ANY_COST, Cluster
from metronome_opt.scenario.placed_instance import Deployment
from metronome_opt.verify import comparable_part, evaluate, verify_schedule

_CAPACITY, _CLAIM = ((f"{DEFAULT_GROUP}/{VERSION}", kind) for kind in (CAPACITY, CLAIM))
_APPGROUP = ("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup")
_NETWORK_TOPOLOGY = ("networktopology.diktyo.x-k8s.io/v1alpha1", "NetworkTopology")
ZONE_KEY = "topology.kubernetes.io/zone"
REGION_KEY = "topology.kubernetes.io/region"


class VerificationError(MetronomeError):
    """A schedule with false statements, or without offsets to claim."""

    exit_status = 1


def build_manifests(
    instance: Instance,
    schedule: Schedule,
    deployment: Deployment,
    *,
    namespace: str = DEFAULT_NAMESPACE,
) -> Manifests:
    """Return every object of an export.

    Parameters
    ----------
    instance, schedule, deployment, namespace
        As of `export_claims`; the schedule is taken to be true.

    Returns
    -------
    Manifests
        Lists of objects by name of the file.

    Raises
    ------
    InputError
        If `namespace` is not valid, or a bandwidth is larger than a quantity can hold.
    """
    naming = Naming(deployment, namespace)
    objects: tuple[list[Manifest], ...] = (
        read_shipped("crds.yaml"),
        _capacities(instance, deployment, naming),
        _app_groups(instance, deployment, naming),
        _network_topologies(deployment.cluster, naming),
        _claims(instance, schedule, deployment, naming),
    )
    return {name: items for name, items in zip(OBJECT_FILES, objects, strict=True) if items}


def export_claims(
    instance: Instance,
    schedule: Schedule,
    deployment: Deployment,
    directory: str | Path,
    *,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[Path]:
    """Verify a schedule and write its objects to a folder; return the files.

    Parameters
    ----------
    instance, schedule, deployment
        The instance, a schedule of it, and where its tasks run.
    directory
        The folder: missing, empty, or written by an earlier export.
    namespace
        Namespace of objects whose job names no other.

    Raises
    ------
    VerificationError
        If the schedule has no offsets or makes a false statement.
    InputError
        If `namespace` is not valid, a bandwidth is larger than a quantity can hold, or the folder
        holds files of others.
    """
    if schedule.status in (Status.INFEASIBLE, Status.UNKNOWN):
        raise VerificationError(f"schedule: status: {schedule.status}; solve the instance first")
    faults = verify_schedule(instance, schedule)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise VerificationError(f"schedule: {faults[0]}{more}; claims are for true schedules only")
    manifests = build_manifests(instance, schedule, deployment, namespace=namespace)
    return write_manifests(manifests, directory)


def _capacities(instance: Instance, deployment: Deployment, naming: Naming) -> list[Manifest]:
    """Return one STBandwidthCapacity per node, in the order of their names.

    It is a choice of ours that a link is of scope ``Node`` if it is an interface of its node; any
    other link is ``Shared``, or ``Uplink`` and ``Downlink`` to and from one of several spines, in
    their order. The node's rack and region stand in the well-known topology labels.
    """
    capacities = {link.name: quantity(link.capacity) for link in instance.links}
    cluster, objects = deployment.cluster, []
    scopes = {
        link: scope
        for racks, scope in ((cluster.uplinks, "Uplink"), (cluster.downlinks, "Downlink"))
        for links in racks.values()
        for link in (links if cluster.spines > 1 else ())
    }
    for node in sorted(cluster.nodes, key=lambda node: naming.nodes[node.name]):
        name = naming.nodes[node.name]
        zone, region = naming.racks.get(node.rack or ""), naming.regions.get(node.region or "")
        scopes_here = {**scopes, **dict.fromkeys(node.rails, "Node")}
        links = [
            {"name": link, "capacity": capacities[link], "scope": scopes_here.get(link, "Shared")}
            for link in cluster.links_of(node)
        ]
        labels = {REGION_KEY: region, ZONE_KEY: zone}
        named = {"node": (node.name, name), "rack": (node.rack, zone)}
        named |= {"region": (node.region, region)}
        spec = {"links": links}
        objects.append(naming.manifest(*_CAPACITY, name, spec, labels=labels, originals=named))
    return objects


def claim_spec(
    job: Job | Gang,
    task: int,
    place: tuple[str, Sequence[str]],
    slot_us: int,
    slots: Mapping[str, int | None],
    *,
    parts: int = 1,
    gated: bool = True,
    traffic_class: int | None = None,
    path: Sequence[int] = (),
) -> dict[str, Any]:
    """Return ``spec`` of the claim of a task on a node, with the links that it crosses.

    `slots` are the times of its allocation by name, dropped if None; the task sends `parts` flows
    at once.
    """
    node, links = place
    phases = [
        {
            "startMicroseconds": slot_us * phase.start,
            "lengthMicroseconds": slot_us * phase.length,
            "rate": quantity(parts * phase.rate),
        }
        for phase in sorted(job.phases, key=lambda phase: phase.start)
    ]
    period = slot_us * job.period
    return {
        "job": job.name,
        "task": task,
        "traffic": {"periodMicroseconds": period, "phases": phases, "priority": job.weight},
        "allocation": {
            "node": node,
            **({"link": links[0]} if links else {}),
            **{f"{name}Microseconds": slot_us * n for name, n in slots.items() if n is not None},
            **({} if gated else {"gated": False}),
            **({} if traffic_class is None else {"trafficClass": traffic_class}),
            **({"path": [*path]} if path else {}),
        },
    }


def _claims(
    instance: Instance, schedule: Schedule, deployment: Deployment, naming: Naming
) -> list[Manifest]:
    """Return one STBandwidthClaim per task, in the order of job names and indices.

    That a claim is called like its pod is a choice of ours. A reserved cushion changes neither
    traffic nor cushion, and stands beside them. The first of several interfaces is named, and the
    traffic is the sum over all of them. A task that crosses no link while others of its job do has
    the minimum cushion of their links: it is as late as they are.
    """
    part, gated = comparable_part(instance, schedule)
    reports: dict[str, LinkReport] = {}
    if any((gated.gated or {"": True}).values()) or not part.long_hyperperiods(gated.stretch):
        limit = schedule.stretch_limit
        evaluation = evaluate(part, gated.offsets, gated.stretch, stretch_limit=limit)
        reports = {report.name: report for report in evaluation.links}
    hosts = deployment.cluster.nodes_by_name
    paths = (schedule.paths or {}) if deployment.cluster.routing == "chosen" else {}
    objects = []
    for task in sorted(deployment.tasks, key=lambda task: (naming.jobs[task.job], task.index)):
        job = instance.job(task.job)
        node = naming.nodes[task.node]
        stretch = schedule.stretch.get(job.name, 0)
        own = {*hosts[task.node].rails}.intersection(task.links)
        links = [reports[link] for link in own or job.links if link in reports]
        cushion = min((link.cushion for link in links if link.cushion is not None), default=None)
        hyperperiod = math.lcm(job.period + stretch, *(link.hyperperiod for link in links))
        slots = {
            "offset": schedule.offsets[job.name],
            "stretch": stretch,
            "cushion": cushion,
            "reservedCushion": schedule.cushion_slots or None,
            "hyperperiod": hyperperiod,
        }
        flows = sum(link in hosts[task.node].rails for link in task.links)
        spec = claim_spec(
            job,
            task.index,
            (node, task.links),
            1000 * instance.slot_ms,
            slots,
            parts=flows or deployment.parts.get(job.name, 1),
            gated=(schedule.gated or {}).get(job.name, True),
            traffic_class=(schedule.classes or {}).get(job.name),
            path=paths[job.name][task.index] if job.name in paths else (),
        )
        name, originals = naming.tasks[task.job, task.index], {"node": (task.node, node)}
        objects.append(naming.manifest(*_CLAIM, name, spec, job=task.job, originals=originals))
    return objects


def _app_groups(instance: Instance, deployment: Deployment, naming: Naming) -> list[dict[str, Any]]:
    """Return one AppGroup per job that has tasks, in the order of their names.

    Upstream defines AppGroups; these are choices of ours: a workload is a single pod, called like
    its claim, since tasks are placed one by one. Tasks depend on one another in a ring, as in a
    ring all-reduce, at the job's peak rate; a ring has no topological order, so that upstream's
    queue sorting does not apply, but its network cost plugin does. Each dependency states the cost
    that its job tolerates: upstream would read none as zero, and refuse placements across racks.
    """
    tasks_of: dict[str, list[tuple[int, str]]] = {}
    for (job, index), name in naming.tasks.items():
        tasks_of.setdefault(job, []).append((index, name))
    groups = []
    for job, tasks in sorted(tasks_of.items(), key=lambda item: naming.jobs[item[0]]):
        ring = [name for _, name in sorted(tasks)]
        common = {"apiVersion": "v1", "namespace": naming.namespace_of(job)}
        pods = {name: {"kind": "Pod", "name": name, "selector": name, **common} for name in ring}
        cost = deployment.max_network_cost.get(job, ANY_COST)
        peak, workloads = quantity(instance.job(job).peak), []
        for name, following in sorted(zip(ring, [*ring[1:], ring[0]], strict=True)):
            dependency = {"workload": pods[following], "minBandwidth": peak, "maxNetworkCost": cost}
            depends = {"dependencies": [dependency]} if len(ring) > 1 else {}
            workloads.append({"workload": pods[name], **depends})
        spec = {"numMembers": len(ring), "topologySortingAlgorithm": "KahnSort"}
        spec |= {"workloads": workloads}
        groups.append(naming.manifest(*_APPGROUP, naming.jobs[job], spec, job=job))
    return groups


def _network_topologies(cluster: Cluster, naming: Naming) -> list[Manifest]:
    """Return the NetworkTopology, nothing where the costs between racks are not known.

    A rack is a zone. Upstream looks at zones only within a region; that two regions cost as much as
    the most distant racks of them is a choice of ours. So is the name of the config map for
    measured costs, which upstream wants although only costs defined by the user are given.
    """
    if not cluster.rack_cost:
        return []
    region_of = {node.rack: node.region for node in cluster.nodes if node.region is not None}
    within = {
        (origin, destination): cost
        for (origin, destination), cost in cluster.rack_cost.items()
        if (region_of.get(origin), region_of.get(destination)) not in cluster.region_cost
    }
    topologies = []
    for key, costs, names in (
        (REGION_KEY, cluster.region_cost, naming.regions),
        (ZONE_KEY, within, naming.racks),
    ):
        origins: dict[str, list[Manifest]] = {}
        named = sorted(
            (names[origin], names[there], cost) for (origin, there), cost in costs.items()
        )
        for origin, there, cost in named:
            item = {"destination": there, "networkCost": cost}
            origins.setdefault(origin, []).append(item)
        items = [{"origin": origin, "costList": listed} for origin, listed in origins.items()]
        if items:
            topologies.append({"topologyKey": key, "originList": items})
    weights = [{"name": "UserDefined", "topologyList": topologies}]
    spec = {"configmapName": "netperf-metrics", "weights": weights}
    return [naming.manifest(*_NETWORK_TOPOLOGY, "nt-default", spec)]
