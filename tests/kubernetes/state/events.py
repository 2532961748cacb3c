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

_KINDS = {"arrival": 40, "departure": 16, "node": 8, "capacity": 10, "revision": 12, "mistake": 5}
_MAX_DOWN = 3


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
    uplinks = {"rack-0": "up-0", "rack-1": "up-1", "rack-2": None}
    links = [Link(name=node.name, capacity=100) for node in nodes]
    return ClusterSpec(
        name="soaked",
        slot_ms=5,
        hyperperiod=24,
        nodes=tuple(nodes),
        racks=tuple(Rack(name=rack, uplink=uplink) for rack, uplink in uplinks.items()),
        links=(*links, Link(name="up-0", capacity=150), Link(name="up-1", capacity=250)),
    )


def draw(chance: random.Random, state: ClusterState) -> Change | None:
    """Draw the next event; None if a job finds no placement, or no job is there for it."""
    kind, jobs = chance.choices([*_KINDS], [*_KINDS.values()])[0], [*state.reservations]
    if kind == "arrival":
        reservation = _any_place(chance, state, _draw_gang(chance))
        return Change({reservation.job: reservation}) if reservation else None
    if kind == "node":
        return _node(chance, state)
    if kind == "capacity":
        link = chance.choice(state.cluster.links)
        capacity = int(link.capacity * chance.choice((0, 0.5, 0.8, 1, 1, 1, 1.5)))
        return Change(capacities={link.name: capacity})
    if not jobs:
        return None
    if kind == "departure":
        return Change({chance.choice(jobs): None})
    if kind == "mistake":
        return _mistake(chance, state)
    chosen = chance.sample(jobs, min(len(jobs), chance.randint(1, 3)))
    return Change({job: _revised(chance, state.reservations[job]) for job in chosen})


def _draw_gang(chance: random.Random) -> Gang:
    """Draw a job of one to five tasks whose period divides 24 slots, or does if it is stretched."""
    return Gang(
        name=f"job-{chance.getrandbits(40):x}",
        tasks=chance.randint(1, 5),
        each=Resources(gpus=1, cpu_millicores=chance.choice((500, 8_000)), memory_mib=1024),
        max_stretch=2,
        weight=chance.choice((0, 1, 1, 2, 4)),
        ready=chance.randrange(24),
        **_traffic(chance, chance.choice((5, 6, 7, 8, 10, 11, 12, 22, 24))),
    )


def _any_place(chance: random.Random, state: ClusterState, gang: Gang) -> Reservation | None:
    """Return any placement with enough GPUs and wide enough links, and any rotation.

    None if the nodes that are tried first will not do.
    """
    rows = zip(state.names, state.free[:, 0].tolist(), state.up, strict=True)
    free = [node for node, gpus, up in rows if up for _ in range(gpus)]
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
    down = [node for node, up in zip(state.names, state.up, strict=True) if not up]
    if len(down) >= chance.randint(1, _MAX_DOWN):
        return Change(up={chance.choice(down): True})
    return Change(up={chance.choice(state.names): False})


def _revised(chance: random.Random, reservation: Reservation) -> Reservation:
    """Give a job another rotation, and perhaps other traffic or another weight."""
    gang = reservation.gang
    if chance.random() < 0.4:
        changes = {"weight": chance.choice((0, 1, 2, 4)), **_traffic(chance, gang.period)}
        gang = gang.model_copy(update=changes)
    changes = {"gang": gang, "offset": chance.randrange(reservation.period)}
    return reservation.model_copy(update=changes)


def _mistake(chance: random.Random, state: ClusterState) -> Change:
    """Draw an event that has to be refused."""
    reservation = chance.choice(list(state.reservations.values()))
    node = chance.choice(state.cluster.nodes)
    many = {"name": "large", "tasks": 2, "each": Resources(gpus=node.has.gpus)}
    large = Reservation(
        gang=reservation.gang.model_copy(update=many), nodes=(node.name, node.name), offset=0
    )
    moved = reservation.model_copy(update={"nodes": (*reservation.nodes, node.name)})
    mistakes = [
        Change({"large": large}),  # the last of its nodes has no room any more
        Change({reservation.job: _revised(chance, reservation)}, capacities={"none": 1}),
        Change({moved.job: moved}),
        Change({moved.job: None}, up={"none": True}),
    ]
    return chance.choice(mistakes)


# ------------------------------------------------------------------ comparing


def rebuilt(state: ClusterState) -> ClusterState:
    """Return a state made from the document of another one alone."""
    document = state.snapshot.model_dump_json()
    return ClusterState.of_snapshot(StateSnapshot.model_validate_json(document))


def differences(one: ClusterState, other: ClusterState) -> list[str]:
    """Return the names of the parts in which two states differ, to the last number."""
    names = ("cluster", "sequence", "flows", "capacities", "total", "free", "up")
    differing = [
        name for name in names if not np.array_equal(getattr(one, name), getattr(other, name))
    ]
    if [*one.reservations.items()] != [*other.reservations.items()]:  # in their order
        differing.append("reservations")
    return differing
