"""Two jobs on two nodes, small enough to work out every number of their claims by hand."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from metronome_opt.problem.instance import Instance, Link
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.scenario.cluster import Cluster, Distance
from metronome_opt.scenario.nodes import Node, Rack, Resources
from metronome_opt.scenario.placed_instance import Deployment, Task
from tests.builders import job, schedule


def cluster_of(
    racks: Mapping[str, str],
    *,
    regions: Mapping[str, str] | None = None,
    uplinks: Mapping[str, str] | None = None,
    costs: Mapping[tuple[str, str], int] | None = None,
) -> Cluster:
    """Return a cluster given the rack of each node, whose interface is called like the node.

    Regions and uplinks are by rack.
    """
    ups, region_of = uplinks or {}, regions or {}
    return Cluster(
        nodes=tuple(
            Node(name=node, has=Resources(), interface=node, rack=rack, region=region_of.get(rack))
            for node, rack in racks.items()
        ),
        racks=tuple(
            Rack(name=rack, uplink=ups.get(rack)) for rack in dict.fromkeys(racks.values())
        ),
        links=tuple(Link(name=name, capacity=100) for name in (*racks, *ups.values())),
        zone_costs=tuple(
            Distance(origin=here, destination=there, cost=cost)
            for (here, there), cost in (costs or {}).items()
        ),
    )


def two_jobs(**changes: Any) -> tuple[Instance, Schedule, Deployment]:
    """Return the example, some fields of its schedule changed.

    Both jobs have a task on either node. Of 40 slots VGG19 bursts in [0, 12) and ResNet50, shifted
    by 20, in [20, 30): VGG19 may grow by 8 slots until it meets ResNet50, which may grow by 10.
    """
    nodes = ("node-0", "node-1")
    links = dict.fromkeys(nodes, 1)
    instance = Instance(
        name="two-jobs",
        slot_ms=5,
        links=tuple(Link(name=node, capacity=50_000) for node in nodes),
        jobs=(
            job("VGG19_0", 40, (0, 12, 40_000), weight=4, links=links),
            job("resnet50-0", 40, (0, 10, 12_500), links=links),
        ),
    )
    fields: dict[str, Any] = {
        "offsets": {"VGG19_0": 0, "resnet50-0": 20},
        "status": Status.OPTIMAL,
        "objectives": {"contention": Fraction(0)},
        "lower_bound": Fraction(0),
    }
    deployment = Deployment(
        cluster=cluster_of(
            {"node-0": "rack-0", "node-1": "rack-1"},
            costs={("rack-0", "rack-1"): 5, ("rack-1", "rack-0"): 5},
        ),
        tasks=tuple(
            Task(each.name, index, node, (node,))
            for each in instance.jobs
            for index, node in enumerate(nodes)
        ),
    )
    return instance, schedule(instance.name, **{**fields, **changes}), deployment
