"""Clusters: of any racks, and a large one in use, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from metronome_opt.kubernetes.state.records import Gang, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.problem.instance import Link, Phase
from metronome_opt.scenario.cluster import Distance
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.nodes import Node, Rack, Resources

_RACK_COST = 2


def make_cluster(
    racks: Sequence[int],
    *,
    name: str = "drawn",
    gpus: int | Sequence[int],
    interface: int,
    uplink: int | None,
    hyperperiod: int,
) -> ClusterSpec:
    """Return nodes n0, n1, ... in racks of some sizes, rack-0, rack-1, ...

    Parameters
    ----------
    gpus
        Of all nodes, or of each.
    interface, uplink
        Mbit/s; None for racks that nothing limits.
    """
    homes = [f"rack-{rack}" for rack, size in enumerate(racks) for _ in range(size)]
    names = [f"rack-{rack}" for rack in range(len(racks))]
    each = [gpus] * len(homes) if isinstance(gpus, int) else gpus
    links = [Link(name=f"n{index}", capacity=interface) for index in range(len(homes))]
    if uplink is not None:
        links += [Link(name=f"up-{index}", capacity=uplink) for index in range(len(racks))]
    return ClusterSpec(
        name=name,
        slot_ms=5,
        hyperperiod=hyperperiod,
        nodes=tuple(
            Node(name=f"n{index}", has=Resources(gpus=count), interface=f"n{index}", rack=rack)
            for index, (rack, count) in enumerate(zip(homes, each, strict=True))
        ),
        racks=tuple(
            Rack(name=rack, uplink=None if uplink is None else f"up-{index}")
            for index, rack in enumerate(names)
        ),
        links=tuple(links),
        zone_costs=tuple(
            Distance(origin=one, destination=other, cost=_RACK_COST)
            for one in names
            for other in names
            if one != other
        ),
    )


def large_state(nodes: int, reservations: int, seed: int = 0) -> ClusterState:
    """Draw a cluster of 8 GPUs a node and 32 nodes a rack with reservations in force.

    Interfaces of 100 Gbit/s, uplinks of a quarter of what a rack can send. Jobs of two to eight
    tasks, most of them small, so that 10,000 of them have 84 % of the GPUs of 5,000 nodes; on
    neighbouring nodes, with weights of 1, 2 and 4, at random offsets. A GPU of every node is left
    free, so that each is a candidate and none is saved the scoring.

    A hyperperiod of 400 slots of 5 ms holds iterations of 200 ms to 2 s, what the workloads have
    that come with the package, in steps that are short beside their bursts.
    """
    draw = random.Random(seed)
    sizes = [min(32, nodes - first) for first in range(0, nodes, 32)]
    spec = make_cluster(sizes, gpus=8, interface=100_000, uplink=800_000, hyperperiod=400)
    state = ClusterState(spec)
    for index in range(reservations):
        gang = large_gang(
            f"job-{index}",
            draw.choice((2, 2, 2, 2, 3, 4, 4, 8)),
            period=draw.choice((40, 50, 80, 100, 200, 400)),
            duty=draw.uniform(0.1, 0.4),
            rate=draw.choice((10_000, 16_000, 25_000)),
            weight=draw.choice((1, 2, 4)),
            iterations=1000 * (index + 1),
        )
        homes = _neighbours(draw, state, gang.tasks)
        offset = draw.randrange(gang.period)
        reservation = Reservation(gang=gang, nodes=tuple(homes), offset=offset, started=0)
        state.add(reservation)
    return state


def large_gang(
    name: str,
    tasks: int,
    *,
    period: int = 100,
    duty: float = 0.3,
    rate: int = 25_000,
    weight: int,
    iterations: int = 5000,
) -> Gang:
    """Return a gang with one burst, a GPU for each task."""
    burst = Phase(start=0, length=max(1, round(duty * period)), rate=rate)
    return Gang(
        name=name,
        tasks=tasks,
        period=period,
        phases=(burst,),
        weight=weight,
        iterations=iterations,
    )


def _neighbours(draw: random.Random, state: ClusterState, tasks: int) -> list[str]:
    """Return nodes with more than one free GPU, up to four tasks on each, from a random one on."""
    hosts = state.cluster.nodes
    homes: list[str] = []
    node = draw.randrange(len(hosts))
    while len(homes) < tasks:
        count = min(int(state.free[node, 0]) - 1, draw.randint(1, 4), tasks - len(homes))
        homes += [hosts[node].name] * count
        node = (node + 1) % len(hosts)
    return homes
