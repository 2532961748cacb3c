"""Two jobs on two nodes, small enough to work out every number of their claims by hand."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.scenario.deployment import Deployment, Task
from metronome_opt.scenario.network import Cluster, Distance, Host, Rack, Resources
from metronome_opt.schedule import Schedule, Status


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
    ups = uplinks or {}
    return Cluster(
        nodes=tuple(
            Host(
                name=node,
                has=Resources(),
                interface=node,
                rack=rack,
                region=(regions or {}).get(rack),
            )
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
    links = {"node-0": 1, "node-1": 1}
    instance = Instance(
        name="two-jobs",
        slot_ms=5,
        links=(Link(name="node-0", capacity=50_000), Link(name="node-1", capacity=50_000)),
        jobs=(
            Job(
                name="VGG19_0",
                period=40,
                weight=4,
                phases=(Phase(start=0, length=12, rate=40_000),),
                links=links,
            ),
            Job(
                name="resnet50-0",
                period=40,
                phases=(Phase(start=0, length=10, rate=12_500),),
                links=links,
            ),
        ),
    )
    fields: dict[str, Any] = {
        "instance": "two-jobs",
        "offsets": {"VGG19_0": 0, "resnet50-0": 20},
        "stretch": {},
        "status": Status.OPTIMAL,
        "objectives": {"contention": Fraction(0)},
        "lower_bound": Fraction(0),
        "solver": "branch-bound",
        "seed": 0,
        "runtime_s": 0.0,
    }
    deployment = Deployment(
        cluster=cluster_of(
            {"node-0": "rack-0", "node-1": "rack-1"},
            costs={("rack-0", "rack-1"): 5, ("rack-1", "rack-0"): 5},
        ),
        tasks=(
            Task("VGG19_0", 0, "node-0", ("node-0",)),
            Task("VGG19_0", 1, "node-1", ("node-1",)),
            Task("resnet50-0", 0, "node-0", ("node-0",)),
            Task("resnet50-0", 1, "node-1", ("node-1",)),
        ),
    )
    return instance, Schedule(**{**fields, **changes}), deployment
