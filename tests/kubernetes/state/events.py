"""Events of a cluster, drawn at random one after the other, some of them mistakes.

The same seed brings the same events to the same state.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from metronome_opt.kubernetes.state.records import Change, Gang, Reservation, StateSnapshot
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.problem.instance import Link, Phase
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.nodes import Node, Rack, Resources

_WEIGHTS = {
    "arrival": 40,
    "departure": 16,
    "node": 8,
    "capacity": 10,
    "revision": 12,
    "mistake": 5,
}
_MAX_DOWN = 3
_UPLINKS = (150, 250, None)


def small_cluster() -> ClusterSpec:
    """Return twelve nodes in three racks, one without an uplink, and one node in no rack."""
    nodes = [
        Node(
            name=f"n{index}",
            has=Resources(gpus=3 + index % 3, cpu_millicores=64_000, memory_mib=65_536),
            interface=f"n{index}",
            rack=f"rack-{index % 3}" if index < 12 else None,
        )
        for index in range(13)
    ]
    uplinks = {f"rack-{rack}": carries for rack, carries in enumerate(_UPLINKS)}
    links = [Link(name=node.rails[0], capacity=100) for node in nodes]
    links += [
        Link(name=f"up-{rack}", capacity=carries) for rack, carries in uplinks.items() if carries
    ]
    return ClusterSpec(
        name="soaked",
        slot_ms=5,
        hyperperiod=24,
        nodes=tuple(nodes),
        racks=tuple(
            Rack(name=rack, uplink=f"up-{rack}" if carries else None)
            for rack, carries in uplinks.items()
        ),
        links=tuple(links),
    )


def draw(chance: random.Random, state: ClusterState) -> Change | None:
    """Draw the next event; None if a job finds no place, or no job is there for it."""
    kind = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    match kind:
        case "arrival":
            gang = _draw_gang(chance, f"job-{chance.getrandbits(40):x}")
            reservation = _any_place(chance, state, gang)
            return Change({reservation.job: reservation}) if reservation else None
        case "node":
            return _node(chance, state)
        case "capacity":
            link = chance.choice(state.cluster.links)
            capacity = int(link.capacity * chance.choice((0, 0.5, 0.8, 1, 1, 1, 1.5)))
            return Change(capacities={link.name: capacity})
    if not state.reservations:
        return None
    if kind == "departure":
        return Change({chance.choice(list(state.reservations)): None})
    return _revision(chance, state) if kind == "revision" else _mistake(chance, state)


def _draw_gang(chance: random.Random, name: str) -> Gang:
    """Draw a job of one to five tasks whose period divides 24 slots, or does if it is stretched."""
    return Gang(
        name=name,
        tasks=chance.randint(1, 5),
        each=Resources(gpus=1, cpu_millicores=chance.choice((500, 8_000)), memory_mib=1024),
        max_stretch=2,
        weight=chance.choice((0, 1, 1, 2, 4)),
        ready=chance.randrange(24),
        **_traffic(chance, chance.choice((5, 6, 7, 8, 10, 11, 12, 22, 24))),
    )


def _any_place(chance: random.Random, state: ClusterState, gang: Gang) -> Reservation | None:
    """Return any place with enough GPUs and wide enough links, and any rotation.

    None if the nodes that are tried first will not do.
    """
    free = [
        node.name
        for node, (gpus, _, _), up in zip(
            state.cluster.nodes, state.free.tolist(), state.up, strict=True
        )
        if up
        for _ in range(gpus)
    ]
    if len(free) < gang.tasks:
        return None
    nodes = tuple(chance.sample(free, gang.tasks))
    stretch = gang.stretch_for(state.cluster.hyperperiod)
    offset = chance.randrange(gang.period + stretch)
    flows = compute_placement(state.cluster, nodes).links
    if any(count * gang.peak > state.capacities[link] for link, count in flows.items()):
        return None
    return Reservation(gang=gang, nodes=nodes, offset=offset, stretch=stretch)


def _traffic(chance: random.Random, period: int) -> dict[str, Any]:
    """Draw one burst or two that lie in a period."""
    first = chance.randint(1, period // 2)
    phases = [Phase(start=0, length=first, rate=chance.randint(10, 60))]
    if chance.random() < 0.4:
        length = chance.randint(1, period - first - 1)
        phases.append(Phase(start=first + 1, length=length, rate=chance.randint(10, 60)))
    return {"period": period, "phases": tuple(phases)}


def _node(chance: random.Random, state: ClusterState) -> Change:
    """Let a node fail, or one of several that have failed come back."""
    down = [node.name for node, up in zip(state.cluster.nodes, state.up, strict=True) if not up]
    if len(down) >= chance.randint(1, _MAX_DOWN):
        return Change(up={chance.choice(down): True})
    return Change(up={chance.choice(state.cluster.nodes).name: False})


def _revision(chance: random.Random, state: ClusterState) -> Change:
    """Give up to three jobs another rotation, and some of them other traffic or another weight."""
    jobs = chance.sample(
        list(state.reservations), min(len(state.reservations), chance.randint(1, 3))
    )
    return Change({job: _revised(chance, state.reservations[job]) for job in jobs})


def _revised(chance: random.Random, reservation: Reservation) -> Reservation:
    gang = reservation.gang
    if chance.random() < 0.4:
        changes = {"weight": chance.choice((0, 1, 2, 4)), **_traffic(chance, gang.period)}
        gang = gang.model_copy(update=changes)
    return reservation.model_copy(
        update={"gang": gang, "offset": chance.randrange(reservation.period)}
    )


def _mistake(chance: random.Random, state: ClusterState) -> Change:
    """Draw an event that has to be refused."""
    reservation = chance.choice(list(state.reservations.values()))
    node = chance.choice(state.cluster.nodes)
    many = Resources(gpus=node.has.gpus)
    large = reservation.gang.model_copy(update={"name": "large", "tasks": 2, "each": many})
    moved = reservation.model_copy(update={"nodes": (*reservation.nodes, node.name)})
    late = reservation.model_copy(update={"offset": reservation.period})
    mistakes: list[Change] = [
        # The last of its nodes has no room any more.
        Change({"large": Reservation(gang=large, nodes=(node.name, node.name), offset=0)}),
        Change({reservation.job: _revised(chance, reservation), "unknown": None}),
        Change({moved.job: moved}),
        Change({late.job: late}),
        Change(capacities={"none": 1}),
        Change(capacities={node.rails[0]: 2**40}),
        Change(up={"none": True}),
    ]
    return chance.choice(mistakes)


# ------------------------------------------------------------------ comparing


def rebuilt(state: ClusterState) -> ClusterState:
    """Return a state made from the document of another one alone."""
    return ClusterState.of_snapshot(
        StateSnapshot.model_validate_json(state.snapshot.model_dump_json())
    )


def differences(one: ClusterState, other: ClusterState) -> list[str]:
    """Return the names of the parts in which two states differ, to the last number."""
    parts = zip(_parts(one).items(), _parts(other).values(), strict=True)
    return [name for (name, mine), its in parts if not _same(mine, its)]


def _same(mine: Any, its: Any) -> bool:
    if isinstance(mine, np.ndarray):
        return mine.dtype == its.dtype and np.array_equal(mine, its)
    return bool(mine == its)


def _parts(state: ClusterState) -> dict[str, Any]:
    names = ("cluster", "sequence", "flows", "total", "free", "up", "capacities")
    return {
        **{name: getattr(state, name) for name in names},
        "reservations": list(state.reservations.items()),  # in their order
    }
