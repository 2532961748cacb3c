"""Two jobs on two nodes, small enough to work out every number of their claims by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.scenario.deployment import Deployment, Node, Task
from metronome_opt.schedule import Schedule, Status


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
        nodes=(
            Node("node-0", ("node-0",), rack="rack-0"),
            Node("node-1", ("node-1",), rack="rack-1"),
        ),
        tasks=(
            Task("VGG19_0", 0, "node-0", ("node-0",)),
            Task("VGG19_0", 1, "node-1", ("node-1",)),
            Task("resnet50-0", 0, "node-0", ("node-0",)),
            Task("resnet50-0", 1, "node-1", ("node-1",)),
        ),
        rack_cost={("rack-0", "rack-1"): 5, ("rack-1", "rack-0"): 5},
    )
    return instance, Schedule(**{**fields, **changes}), deployment
