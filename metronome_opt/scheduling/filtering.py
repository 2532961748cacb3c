"""Filter: which nodes can take one more task of a gang, and why the others cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.state import ClusterState, lacking


class Fault(IntEnum):
    """What speaks against a node; the first that applies is told."""

    NONE = 0
    DOWN = 1
    RESOURCES = 2
    INTERFACE = 3
    LEFT_NODE = 4
    LEFT_RACK = 5
    UPLINK = 6
    OTHERS = 7


_WORDS = {  # of one node and of several; those out of reach are not told by `why_not`
    Fault.DOWN: ("takes no tasks", "take no tasks"),
    Fault.RESOURCES: ("lacks GPUs, CPU or memory", "lack GPUs, CPU or memory"),
    Fault.INTERFACE: ("lacks bandwidth", "lack bandwidth"),
    Fault.UPLINK: (
        "is in a rack whose uplink lacks bandwidth",
        "are in racks whose uplink lacks bandwidth",
    ),
    Fault.OTHERS: (
        "leaves too little room for the other tasks",
        "leave too little room for the other tasks",
    ),
}


class Filtered(Mapping[str, str]):
    """Why nodes are refused, by name, in words found when asked for; `nodes` are the others."""

    def __init__(self, cycle: Cycle, partial: Partial, faults: NDArray[np.int8]) -> None:
        self.nodes: Ints = np.flatnonzero(faults == Fault.NONE)
        self._cycle, self._partial, self._faults = cycle, partial, faults

    def fault(self, node: str) -> Fault:
        """Return what speaks against a node."""
        return Fault(int(self._faults[self._cycle.state.node_index(node)]))

    def __iter__(self) -> Iterator[str]:
        nodes = self._cycle.state.cluster.nodes
        return (nodes[index].name for index in np.flatnonzero(self._faults).tolist())

    def __len__(self) -> int:
        return len(self._faults) - len(self.nodes)

    def __getitem__(self, node: str) -> str:
        cycle, partial = self._cycle, self._partial
        state, gang = cycle.state, cycle.gang
        index = state.node_index(node)
        count, rack = partial.nodes.get(index, 0) + 1, int(state.rack[index])
        match self.fault(node):
            case Fault.NONE:
                raise KeyError(node)
            case Fault.DOWN:
                return "takes no tasks"
            case Fault.RESOURCES:
                return lacking(state.free[index], gang.each, count) or ""
            case Fault.OTHERS:
                limit = gang.most_racks
                racks = "" if limit is None else f" in {limit} rack{'s' if limit > 1 else ''}"
                return f"the other tasks would find too little room{racks}"
            case Fault.INTERFACE:
                link, tasks = state.interface[index], count
            case Fault.UPLINK:
                link, tasks = cycle.uplinks[rack], partial.racks.get(rack, 0) + 1
            case Fault.LEFT_NODE:
                ((only, tasks),) = partial.nodes.items()
                link = state.interface[only]
            case Fault.LEFT_RACK:
                ((only, tasks),) = partial.racks.items()
                link = cycle.uplinks[only]
        name = state.cluster.links[link].name
        return f"{name} has room for {state.room(name)} Mbit/s, {tasks * gang.peak} needed"


def filter_nodes(cycle: Cycle, partial: Partial) -> Filtered:
    """Return which nodes can take one more task beside those of `partial`.

    A node needs GPUs, CPU and memory for it, and a link that carries the tasks there at their
    fastest; the interface only if the gang will not fit onto the node as a whole, the uplink
    only if it will not fit into the rack. And the tasks that follow need room as well: if a node
    passes there is a place for all, so that taking any that passes leads to one.
    """
    state = cycle.state
    rack = state.rack
    here, in_rack = _counts(partial.nodes, cycle.room), _counts(partial.racks, cycle.whole)
    leaves_node = cycle.has_to_leave_node(partial)
    leaves_rack = cycle.has_to_leave_rack(partial)
    faults = np.zeros(len(cycle.room), dtype=np.int8)
    # From the last to be told to the first.
    leaves_rack_too = leaves_node & leaves_rack[rack]
    faults[leaves_rack_too & ~_holds_all(cycle, partial)[rack]] = Fault.OTHERS
    faults[leaves_rack_too & (cycle.lifted <= in_rack)[rack]] = Fault.UPLINK
    if len(partial.racks) == 1:
        only, tasks = next(iter(partial.racks.items()))
        if cycle.lifted[only] < tasks:
            faults[rack != only] = Fault.LEFT_RACK
    if len(partial.nodes) == 1:
        only, tasks = next(iter(partial.nodes.items()))
        if cycle.carried[only] < tasks:
            faults[np.arange(len(faults)) != only] = Fault.LEFT_NODE
    faults[leaves_node & (cycle.carried <= here)] = Fault.INTERFACE
    faults[cycle.room <= here] = Fault.RESOURCES
    faults[~state.up] = Fault.DOWN
    return Filtered(cycle, partial, faults)


def _counts(tasks: Mapping[int, int], like: NDArray[np.generic]) -> Ints:
    counts = np.zeros(len(like), dtype=np.int64)
    counts[list(tasks)] = list(tasks.values())
    return counts


def _holds_all(cycle: Cycle, partial: Partial) -> NDArray[np.bool_]:
    """Whether all tasks find room in several racks if the next one comes to each rack."""
    racks = len(cycle.holds)
    limit = racks if cycle.gang.most_racks is None else min(cycle.gang.most_racks, racks)
    used = list(partial.racks)
    holds = np.minimum(cycle.holds, cycle.lifted)
    mine = int(holds[used].sum())
    others = holds.copy()
    others[used] = 0
    largest = np.concatenate([[0], np.sort(others)[::-1].cumsum()])
    left = limit - len(used)
    total = np.zeros(racks, dtype=np.int64)
    if left:
        # A new rack, and then the largest of the others; it may be one of the largest itself.
        total[:] = mine + np.minimum(holds + largest[left - 1], largest[left])
    total[used] = mine + largest[left]
    return total >= cycle.gang.tasks


# ------------------------------------------------------------------ no place


def why_not(state: ClusterState, gang: Gang) -> str:
    """Return in one line why a job finds no place.

    How many nodes refuse its first task and for which reason, as schedulers of pods tell it, with
    the numbers of the commonest case; where tasks fit one by one, how many fit together and what
    limits them. Or, if some node takes the first task, that no place was found for all.
    """
    cycle = Cycle(state, gang)
    filtered = filter_nodes(cycle, Partial())
    total = len(state.cluster.nodes)
    if len(filtered.nodes):
        return (
            f"{len(filtered.nodes)} of {total} nodes take a task of {gang.name}, "
            f"but no place for all {gang.tasks} was found"
        )
    refused: dict[Fault, list[str]] = {}
    for node in filtered:
        refused.setdefault(filtered.fault(node), []).append(node)
    faults = sorted(refused.items(), key=lambda each: -len(each[1]))
    told = ", ".join(_told(filtered, fault, nodes) for fault, nodes in faults)
    line = f"none of {total} nodes takes a task of {gang.name}: {told}"
    if Fault.OTHERS in refused:
        # How many find room together: on a node, in a rack, or in several; and the first of a few
        # limits without which it would be more.
        lifted = np.minimum(cycle.holds, cycle.lifted)
        most = max(_in_racks(cycle, lifted), int(cycle.holds.max()), int(cycle.room.max()))
        rooms = np.bincount(state.rack, weights=cycle.room, minlength=len(cycle.holds))
        if _in_racks(cycle, cycle.holds) > most:
            limit = "the uplinks"
        elif int(lifted.sum()) > most:
            limit = f"most_racks: {gang.most_racks}"
        elif _in_racks(cycle, rooms.astype(np.int64)) > most:
            limit = "the interfaces"
        else:
            limit = "GPUs, CPU or memory"
        line += f"; {most} of {gang.tasks} tasks find room, limited by {limit}"
    return line


def _told(filtered: Filtered, fault: Fault, nodes: list[str]) -> str:
    words = f"{len(nodes)} {_WORDS[fault][len(nodes) > 1]}"
    if fault in (Fault.DOWN, Fault.OTHERS):
        return words
    numbers, count = Counter(filtered[node] for node in nodes).most_common(1)[0]
    on = "" if count == len(nodes) else f"{count} of them: "
    return f"{words} ({on}{numbers})"


def _in_racks(cycle: Cycle, holds: Ints) -> int:
    """Return how many tasks the best racks hold, as many as the gang may span, shape (racks,)."""
    return int(np.sort(holds)[::-1][: cycle.gang.most_racks].sum())
