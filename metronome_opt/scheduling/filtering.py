"""Filter: which nodes can take one more task of a gang, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.admission import lacking
from metronome_opt.scheduling.cycle import Cycle, Partial


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

    def words(self, count: int) -> str:
        """Return what it says of so many nodes."""
        one, several = _FAULTS[self]
        return one if count == 1 else several


_OUT_OF_REACH = (
    "is out of reach for the tasks that are placed",
    "are out of reach for the tasks that are placed",
)
_FAULTS = {
    Fault.NONE: ("has room", "have room"),
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
    Fault.LEFT_NODE: _OUT_OF_REACH,
    Fault.LEFT_RACK: _OUT_OF_REACH,
}


class Filtered(Mapping[str, str]):
    """Why nodes are refused, by name; the words are found when they are asked for.

    Attributes
    ----------
    nodes
        Indices of those that pass, ascending, shape (n,).
    """

    def __init__(self, cycle: Cycle, partial: Partial, faults: NDArray[np.int8]) -> None:
        self.nodes: Ints = np.flatnonzero(faults == Fault.NONE)
        self._cycle, self._partial, self._faults = cycle, partial, faults

    def faults(self) -> Mapping[Fault, list[str]]:
        """Return the names of the nodes against which each fault speaks."""
        nodes = self._cycle.state.cluster.nodes
        found: dict[Fault, list[str]] = {}
        for index in np.flatnonzero(self._faults).tolist():
            found.setdefault(Fault(int(self._faults[index])), []).append(nodes[index].name)
        return found

    def __getitem__(self, node: str) -> str:
        index = self._cycle.state.node_index(node)
        fault = Fault(int(self._faults[index]))
        if fault is Fault.NONE:
            raise KeyError(node)
        return self._words(index, fault)

    def __iter__(self) -> Iterator[str]:
        nodes = self._cycle.state.cluster.nodes
        return (nodes[index].name for index in np.flatnonzero(self._faults).tolist())

    def __len__(self) -> int:
        return len(self._faults) - len(self.nodes)

    def _words(self, index: int, fault: Fault) -> str:
        cycle, partial = self._cycle, self._partial
        state, gang = cycle.state, cycle.gang
        count = partial.nodes.get(index, 0) + 1
        rack = int(state.rack[index])
        match fault:
            case Fault.DOWN:
                return "takes no tasks"
            case Fault.RESOURCES:
                return lacking(state.free[index], gang.each, count) or ""
            case Fault.INTERFACE:
                return self._carries(int(state.interface[index]), count)
            case Fault.UPLINK:
                return self._carries(int(cycle.uplinks[rack]), partial.racks.get(rack, 0) + 1)
            case Fault.OTHERS:
                limit = gang.most_racks
                racks = "" if limit is None else f" in {limit} rack{'s' if limit > 1 else ''}"
                return f"the other tasks would find too little room{racks}"
            case Fault.LEFT_NODE:
                only, tasks = next(iter(partial.nodes.items()))
                return self._carries(int(state.interface[only]), tasks)
            case _:
                only, tasks = next(iter(partial.racks.items()))
                return self._carries(int(cycle.uplinks[only]), tasks)

    def _carries(self, link: int, tasks: int) -> str:
        state, peak = self._cycle.state, self._cycle.gang.peak
        name = state.cluster.links[link].name
        return f"{name} has room for {state.room(name)} Mbit/s, {tasks * peak} needed"


def filter_nodes(cycle: Cycle, partial: Partial) -> Filtered:
    """Return which nodes can take one more task.

    A node needs GPUs, CPU and memory for it, and a link that carries the tasks there at their
    fastest; the interface only if the gang will not fit onto the node as a whole, the uplink
    only if it will not fit into the rack. And the tasks that follow need room as well: if a node
    passes there is a place for all, so that taking any that passes leads to one.

    Parameters
    ----------
    partial
        Where the tasks before it are to run.
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
