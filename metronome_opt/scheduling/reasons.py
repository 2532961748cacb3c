"""Reasons for which a job finds no place."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from metronome_opt.cluster.gang import Gang
from metronome_opt.cluster.state import ClusterState, lacking
from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle

# Faults of a node; of several that apply the first is reported.
_DOWN, _RESOURCES, _INTERFACE, _UPLINK, _OTHERS = range(1, 6)
_WORDS = {  # of one node and of several
    _DOWN: ("takes no tasks", "take no tasks"),
    _RESOURCES: ("lacks GPUs, CPU or memory", "lack GPUs, CPU or memory"),
    _INTERFACE: ("lacks bandwidth", "lack bandwidth"),
    _UPLINK: (
        "is in a rack whose uplink lacks bandwidth",
        "are in racks whose uplink lacks bandwidth",
    ),
    _OTHERS: (
        "leaves too little room for the other tasks",
        "leave too little room for the other tasks",
    ),
}


def why_not(state: ClusterState, gang: Gang) -> str:
    """Return in one line why a job finds no place.

    How many nodes refuse its first task and for which reason, as schedulers of pods report it, with
    the numbers of the commonest case; where tasks fit one by one, how many fit together and what
    limits them. Or, if some node takes the first task, that no place was found for all.
    """
    cycle = Cycle(state, gang)
    faults = _faults(cycle)
    total, refusing = len(faults), np.count_nonzero(faults)
    if refusing < total:
        return (
            f"{total - refusing} of {total} nodes take a task of {gang.name}, "
            f"but no place for all {gang.tasks} was found"
        )
    refused: dict[int, list[int]] = {}
    for node, fault in enumerate(faults.tolist()):
        refused.setdefault(fault, []).append(node)
    commonest = sorted(refused.items(), key=lambda each: -len(each[1]))
    counts = ", ".join(_summary(cycle, fault, nodes) for fault, nodes in commonest)
    line = f"none of {total} nodes takes a task of {gang.name}: {counts}"
    limit = "bandwidth" if refused.keys() & {_INTERFACE, _UPLINK} else ""
    if _OTHERS in refused:
        # How many find room together: on a node, in a rack, or in several; and the first of a few
        # limits without which it would be more.
        lifted = np.minimum(cycle.holds, cycle.lifted)
        maximum = max(_in_racks(cycle, lifted), int(cycle.holds.max()), int(cycle.room.max()))
        rooms = np.bincount(state.rack, weights=cycle.room, minlength=len(cycle.holds))
        if _in_racks(cycle, cycle.holds) > maximum:
            limit = "the uplinks"
        elif int(lifted.sum()) > maximum:
            limit = f"most_racks: {gang.most_racks}"
        elif _in_racks(cycle, rooms.astype(np.int64)) > maximum:
            limit = "the interfaces"
        else:
            limit = ""
        line += f"; {maximum} of {gang.tasks} tasks find room"
        line += f", limited by {limit}" if limit else ""
    short = gang.tasks - int(cycle.room.sum())
    return f"{line}; needs {_nodes(cycle, short)}" if short > 0 and not limit else line


def _nodes(cycle: Cycle, tasks: int) -> str:
    """Return how many more nodes some tasks take, as large as this cluster has them."""
    needs = np.array(cycle.gang.each.vector, dtype=np.int64)
    fit = (cycle.state.total[:, needs > 0] // needs[needs > 0]).min(axis=1, initial=tasks).max()
    on_each = max(1, int(fit))
    nodes = -(-tasks // on_each)
    units = (" GPUs" if on_each * needs[0] > 1 else " GPU", "m CPU", " MiB of memory")
    free = [f"{n}{unit}" for n, unit in zip((on_each * needs).tolist(), units, strict=True) if n]
    return f"{nodes} more node{'s' if nodes > 1 else ''} with {', '.join(free)} free"


def _in_racks(cycle: Cycle, holds: Ints) -> int:
    """Return how many tasks find room in as many racks as the gang may span."""
    return int(np.sort(holds)[::-1][: cycle.gang.most_racks].sum())


def _faults(cycle: Cycle) -> NDArray[np.int8]:
    """Return why each node cannot take the first task of a gang, 0 if it can.

    A node needs GPUs, CPU and memory for it, and a link that carries it at its fastest; the
    interface only if the gang does not fit onto the node as a whole, the uplink only if it does not
    fit into the rack. And the tasks that follow need room as well.
    """
    state, rack = cycle.state, cycle.state.rack
    leaves_node = cycle.room < cycle.gang.tasks
    leaves_rack = leaves_node & (cycle.holds < cycle.gang.tasks)[rack]
    faults = np.zeros(len(rack), dtype=np.int8)
    # From the last to be reported to the first.
    faults[leaves_rack & ~_hold_all(cycle)[rack]] = _OTHERS
    faults[leaves_rack & (cycle.lifted == 0)[rack]] = _UPLINK
    faults[leaves_node & (cycle.carried == 0)] = _INTERFACE
    faults[cycle.room == 0] = _RESOURCES
    faults[~state.up] = _DOWN
    return faults


def _hold_all(cycle: Cycle) -> NDArray[np.bool_]:
    """Return whether all tasks find room in several racks if the first one comes to each rack."""
    racks = len(cycle.holds)
    limit = racks if cycle.gang.most_racks is None else min(cycle.gang.most_racks, racks)
    holds = np.minimum(cycle.holds, cycle.lifted)
    largest = np.concatenate([[0], np.sort(holds)[::-1].cumsum()])
    # That rack, and then the largest of the others; it may be one of the largest itself.
    total: Ints = np.minimum(holds + largest[limit - 1], largest[limit])
    return total >= cycle.gang.tasks


def _reason(cycle: Cycle, node: int, fault: int) -> str:
    """Return a fault of a node with its numbers."""
    state, gang = cycle.state, cycle.gang
    if fault == _RESOURCES:
        spare = (state.free[node] - state.others[node]).clip(0)
        return lacking(spare, gang.each, 1) or ""
    uplinks = state.uplink if fault == _UPLINK else state.interface
    link = state.cluster.links[uplinks[node]].name
    return f"{link} has room for {state.room(link)} Mbit/s, {gang.peak} needed"


def _summary(cycle: Cycle, fault: int, nodes: list[int]) -> str:
    words = f"{len(nodes)} {_WORDS[fault][len(nodes) > 1]}"
    if fault in (_DOWN, _OTHERS):
        return words
    reasons = Counter(_reason(cycle, node, fault) for node in nodes)
    numbers, count = reasons.most_common(1)[0]
    on = "" if count == len(nodes) else f"{count} of them: "
    return f"{words} ({on}{numbers})"
