"""AppGroup and NetworkTopology, the resources of the network-aware scheduler plugins.

Their definitions are installed with those plugins (kubernetes-sigs/scheduler-plugins), not by us;
kinds.yaml states the fields and limits that upstream gives them, for checking what is written.
"""

from __future__ import annotations

from typing import Any

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance
from metronome_opt.kubernetes.names import Naming
from metronome_opt.kubernetes.quantities import quantity
from metronome_opt.scenario.deployment import Deployment

APPGROUP = ("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup")
NETWORK_TOPOLOGY = ("networktopology.diktyo.x-k8s.io/v1alpha1", "NetworkTopology")

ZONE_KEY = "topology.kubernetes.io/zone"
REGION_KEY = "topology.kubernetes.io/region"
_LARGEST_NETWORK_COST = 10_000


def app_groups(instance: Instance, naming: Naming) -> list[dict[str, Any]]:
    """Return one AppGroup per job that has tasks, in the order of their names.

    Upstream says what an AppGroup is; these are choices of ours:

    - A workload is a single pod, called like its claim, because every task is placed on its own.
    - The tasks depend on one another in a ring, each on the next, as in a ring all-reduce. The
      bandwidth between neighbours is the job's peak rate. A ring has no topological order, so
      upstream's controller gives none and its queue sorting does not apply; its network cost
      plugin asks for direct dependencies alone and works.
    - Each dependency tolerates any network cost. Left out, upstream reads zero and its filter
      would turn down a placement across racks that was already decided.
    """
    members: dict[str, list[tuple[int, str]]] = {}
    for (job, index), name in naming.tasks.items():
        members.setdefault(job, []).append((index, name))
    groups = []
    for job, tasks in sorted(members.items(), key=lambda item: naming.jobs[item[0]]):
        ring = [name for _, name in sorted(tasks)]
        namespace = naming.namespace_of(job)
        following = dict(zip(ring, [*ring[1:], ring[0]], strict=True))
        workloads: list[dict[str, Any]] = [
            {"workload": _workload(name, namespace)} for name in sorted(ring)
        ]
        for member in workloads if len(ring) > 1 else ():
            dependency = {
                "workload": _workload(following[member["workload"]["name"]], namespace),
                "minBandwidth": quantity(instance.job(job).peak),
                "maxNetworkCost": _LARGEST_NETWORK_COST,
            }
            member["dependencies"] = [dependency]
        spec = {
            "numMembers": len(ring),
            "topologySortingAlgorithm": "KahnSort",
            "workloads": workloads,
        }
        groups.append(naming.manifest(*APPGROUP, naming.jobs[job], spec, job=job))
    return groups


def _workload(name: str, namespace: str) -> dict[str, str]:
    return {
        "kind": "Pod",
        "name": name,
        "selector": name,
        "apiVersion": "v1",
        "namespace": namespace,
    }


def network_topology(deployment: Deployment, naming: Naming) -> dict[str, Any] | None:
    """Return the NetworkTopology, None where the costs between racks are not known.

    A rack is a zone. Upstream looks at zones only within a region; that the cost between two
    regions is the largest between a rack of one and a rack of the other is a choice of ours. So is
    the name of the config map for measured costs, which upstream wants named although only costs
    defined by the user are given.

    Raises
    ------
    InputError
        If the nodes of one rack are said to be in different regions.
    """
    if not deployment.rack_cost:
        return None
    region_of = _regions(deployment)
    zones: dict[str, dict[str, int]] = {}
    regions: dict[str, dict[str, int]] = {}
    for (origin, destination), cost in deployment.rack_cost.items():
        here, there = region_of.get(origin), region_of.get(destination)
        if here is None or there is None or here == there:
            zones.setdefault(naming.racks[origin], {})[naming.racks[destination]] = cost
        else:
            costs = regions.setdefault(naming.regions[here], {})
            far = naming.regions[there]
            costs[far] = max(cost, costs.get(far, 0))
    topologies = [
        {"topologyKey": key, "originList": _origins(costs)}
        for key, costs in ((REGION_KEY, regions), (ZONE_KEY, zones))
        if costs
    ]
    spec = {
        "configmapName": "netperf-metrics",
        "weights": [{"name": "UserDefined", "topologyList": topologies}],
    }
    return naming.manifest(*NETWORK_TOPOLOGY, "nt-default", spec)


def _regions(deployment: Deployment) -> dict[str, str]:
    regions: dict[str, str] = {}
    for index, node in enumerate(deployment.nodes):
        if node.rack is None or node.region is None:
            continue
        region = regions.setdefault(node.rack, node.region)
        if region != node.region:
            raise InputError(
                f"deployment.nodes[{index}].region: {show(node.region)}, but rack "
                f"{show(node.rack)} is also in {show(region)}; a rack is in one region"
            )
    return regions


def _origins(costs: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    return [
        {
            "origin": origin,
            "costList": [
                {"destination": destination, "networkCost": cost}
                for destination, cost in sorted(destinations.items())
            ],
        }
        for origin, destinations in sorted(costs.items())
    ]
