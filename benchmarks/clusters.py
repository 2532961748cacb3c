"""Clusters in use, drawn from a seed, for placing gangs on them: small ones, and a large one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.state import ClusterState, Mode
from metronome_opt.instance import Link, Phase
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scenario.network import Distance, Host, Rack, Resources
from metronome_opt.scheduling.cycle import Cycle

_RACK_COST = 2
LARGE_HYPERPERIOD = 400


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
            Host(name=f"n{index}", has=Resources(gpus=count), interface=f"n{index}", rack=rack)
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


# ------------------------------------------------------------------ small ones


def small_case(
    seed: int,
    *,
    nodes: tuple[int, int] = (4, 10),
    most_racks: int = 4,
    tasks: tuple[int, int] = (2, 6),
    mode: Mode = "shared",
) -> Cycle:
    """Draw a cluster in use and a gang that asks for a place there.

    One to three GPUs of each node are free; jobs of two and three tasks run, with weights of 1, 2
    and 4 and periods of 8, 12 and 24 slots. Most of their links can be overloaded.

    Parameters
    ----------
    nodes, tasks
        Fewest and most.
    """
    draw = random.Random(seed)
    size = draw.randint(*nodes)
    cuts = sorted(draw.sample(range(1, size), draw.randint(1, min(most_racks, size)) - 1))
    spec = make_cluster(
        [end - begin for begin, end in zip([0, *cuts], [*cuts, size], strict=True)],
        gpus=[draw.randint(1, 3) + draw.choice((0, 4)) for _ in range(size)],
        interface=100,
        uplink=draw.choice((None, 100, 160, 250)),
        hyperperiod=24,
    )
    state = ClusterState(spec, mode=mode)
    hosts = [host.name for host in spec.nodes]
    for index in range(draw.randint(size, 3 * size)):
        homes = draw.choices(hosts, k=draw.randint(2, 3))
        gang = _small_gang(draw, f"job-{index}", len(homes), gpus=0)
        _reserve_if_it_fits(state, gang, homes, draw.randrange(gang.period))
    for index, host in enumerate(hosts):
        used = int(state.total[index, 0]) - draw.randint(1, 3)
        if used > 0:
            _reserve_if_it_fits(state, _small_gang(draw, f"alone-{index}", 1, gpus=used), [host], 0)
    limit = draw.choice((None, None, 1, 2))
    gang = _small_gang(draw, "new", draw.randint(*tasks), gpus=1)
    return Cycle(state, gang.model_copy(update={"most_racks": limit}))


def _small_gang(draw: random.Random, name: str, tasks: int, *, gpus: int) -> Gang:
    period = draw.choice((8, 12, 24))
    first = draw.randint(1, period // 2)
    phases = [Phase(start=0, length=first, rate=draw.randint(20, 60))]
    if draw.random() < 0.3:
        length = draw.randint(1, period - first - 1)
        phases.append(Phase(start=first + 1, length=length, rate=draw.randint(20, 60)))
    return Gang(
        name=name,
        tasks=tasks,
        each=Resources(gpus=gpus),
        period=period,
        phases=tuple(phases),
        weight=draw.choice((1, 2, 4)),
        ready=draw.randrange(period),
    )


def _reserve_if_it_fits(state: ClusterState, gang: Gang, homes: Sequence[str], offset: int) -> None:
    crossed = state.cluster.flows(homes)
    if all(count * gang.peak <= state.room(link) for link, count in crossed.items()):
        state.reserve(Reservation(gang=gang, nodes=tuple(homes), offset=offset))


# ------------------------------------------------------------------ a large one


def large_state(nodes: int, claims: int, seed: int = 0) -> ClusterState:
    """Draw a cluster of 8 GPUs a node and 32 nodes a rack with claims in force.

    Interfaces of 100 Gbit/s, uplinks of a quarter of what a rack can send. Jobs of two to eight
    tasks, most of them small, so that 10,000 of them have 84 % of the GPUs of 5,000 nodes; on
    neighbouring nodes, with weights of 1, 2 and 4, at random offsets. A GPU of every node is left
    free, so that each is a candidate and none is saved the scoring.

    A hyperperiod of 400 slots of 5 ms holds iterations of 200 ms to 2 s, what the workloads have
    that come with the package, in steps that are short beside their bursts.
    """
    draw = random.Random(seed)
    sizes = [min(32, nodes - first) for first in range(0, nodes, 32)]
    spec = make_cluster(
        sizes, gpus=8, interface=100_000, uplink=800_000, hyperperiod=LARGE_HYPERPERIOD
    )
    state = ClusterState(spec)
    for index in range(claims):
        gang = large_gang(
            f"job-{index}",
            draw.choice((2, 2, 2, 2, 3, 4, 4, 8)),
            period=draw.choice((40, 50, 80, 100, 200, 400)),
            duty=draw.uniform(0.1, 0.4),
            rate=draw.choice((10_000, 16_000, 25_000)),
            weight=draw.choice((1, 2, 4)),
        )
        homes = _neighbours(draw, state, gang.tasks)
        offset = draw.randrange(gang.period)
        state.take(Reservation(gang=gang, nodes=tuple(homes), offset=offset))
    return state


def large_gang(
    name: str, tasks: int, *, period: int = 100, duty: float = 0.3, rate: int = 25_000, weight: int
) -> Gang:
    """Return a gang with one burst, a GPU for each task."""
    burst = Phase(start=0, length=max(1, round(duty * period)), rate=rate)
    return Gang(name=name, tasks=tasks, period=period, phases=(burst,), weight=weight)


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
