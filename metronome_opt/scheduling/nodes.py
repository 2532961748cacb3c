"""Filter, Score and Normalise: the nodes that can take the next task of a gang, and their costs.

A node is scored by what the gang costs there in its best rotation. Ties are broken by network
costs, exactly as Diktyo's NetworkOverhead has them. Source: kubernetes-sigs/scheduler-plugins,
issue 955 and the plugin NetworkOverhead. A node costs what the ways from it to the pods cost that
have a node already; regions and zones say what a way costs, and a zone is a rack here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metronome_opt.cluster.gang import Gang
from metronome_opt.cluster.state import ClusterState, lacking
from metronome_opt.kernels.placing import best_of_each
from metronome_opt.kernels.tables import Ints
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scheduling.cycle import Costs, Cycle, Partial

_SAME_ZONE = 1
_UNKNOWN = 100
_BEST = 100

# What speaks against a node; the first that applies is told.
_DOWN, _RESOURCES, _INTERFACE, _LEFT_NODE, _LEFT_RACK, _UPLINK, _OTHERS = range(1, 8)
_WORDS = {  # of one node and of several; those out of reach are not told by `why_not`
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

# ------------------------------------------------------------------ filter


def filter_nodes(cycle: Cycle, partial: Partial) -> Ints:
    """Return the indices of the nodes that can take one more task beside those of `partial`.

    A node needs GPUs, CPU and memory for it, and a link that carries the tasks there at their
    fastest; the interface only if the gang will not fit onto the node as a whole, the uplink
    only if it will not fit into the rack. And the tasks that follow need room as well: if a node
    passes there is a place for all, so that taking any that passes leads to one.
    """
    return np.flatnonzero(_faults(cycle, partial) == 0)


def refusals(cycle: Cycle, partial: Partial) -> dict[str, str]:
    """Return why the other nodes cannot, by name."""
    faults, nodes = _faults(cycle, partial), cycle.state.cluster.nodes
    return {
        nodes[index].name: _reason(cycle, partial, index, int(faults[index]))
        for index in np.flatnonzero(faults).tolist()
    }


def _faults(cycle: Cycle, partial: Partial) -> NDArray[np.int8]:
    """Return what speaks against each node, 0 for nothing."""
    state = cycle.state
    rack = state.rack
    here, in_rack = _counts(partial.nodes, cycle.room), _counts(partial.racks, cycle.whole)
    leaves_node = cycle.has_to_leave_node(partial)
    leaves_rack = cycle.has_to_leave_rack(partial)
    faults = np.zeros(len(cycle.room), dtype=np.int8)
    # From the last to be told to the first.
    leaves_rack_too = leaves_node & leaves_rack[rack]
    faults[leaves_rack_too & ~_holds_all(cycle, partial)[rack]] = _OTHERS
    faults[leaves_rack_too & (cycle.lifted <= in_rack)[rack]] = _UPLINK
    if len(partial.racks) == 1:
        only, tasks = next(iter(partial.racks.items()))
        if cycle.lifted[only] < tasks:
            faults[rack != only] = _LEFT_RACK
    if len(partial.nodes) == 1:
        only, tasks = next(iter(partial.nodes.items()))
        if cycle.carried[only] < tasks:
            faults[np.arange(len(faults)) != only] = _LEFT_NODE
    faults[leaves_node & (cycle.carried <= here)] = _INTERFACE
    faults[cycle.room <= here] = _RESOURCES
    faults[~state.up] = _DOWN
    return faults


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


def _reason(cycle: Cycle, partial: Partial, node: int, fault: int) -> str:
    """Return what speaks against a node, with its numbers."""
    state, gang, rack = cycle.state, cycle.gang, int(cycle.state.rack[node])
    count, in_rack = partial.nodes.get(node, 0) + 1, partial.racks.get(rack, 0) + 1
    if fault == _DOWN:
        return "takes no tasks"
    if fault == _RESOURCES:
        spare = (state.free[node] - state.others[node]).clip(0)
        return lacking(spare, gang.each, count) or ""
    if fault == _OTHERS:
        limit = gang.most_racks
        racks = "" if limit is None else f" in {limit} rack{'s' if limit > 1 else ''}"
        return f"the other tasks would find too little room{racks}"
    if fault == _INTERFACE:
        link, tasks = state.interface[node], count
    elif fault == _UPLINK:
        link, tasks = cycle.uplinks[rack], in_rack
    elif fault == _LEFT_NODE:
        ((only, tasks),) = partial.nodes.items()
        link = state.interface[only]
    else:
        ((only, tasks),) = partial.racks.items()
        link = cycle.uplinks[only]
    name = state.cluster.links[link].name
    return f"{name} has room for {state.room(name)} Mbit/s, {tasks * gang.peak} needed"


def why_not(state: ClusterState, gang: Gang) -> str:
    """Return in one line why a job finds no place.

    How many nodes refuse its first task and for which reason, as schedulers of pods tell it, with
    the numbers of the commonest case; where tasks fit one by one, how many fit together and what
    limits them. Or, if some node takes the first task, that no place was found for all.
    """
    cycle = Cycle(state, gang)
    faults, reasons = _faults(cycle, Partial()), list(refusals(cycle, Partial()).values())
    total = len(faults)
    if len(reasons) < total:
        return (
            f"{total - len(reasons)} of {total} nodes take a task of {gang.name}, "
            f"but no place for all {gang.tasks} was found"
        )
    refused: dict[int, list[str]] = {}
    for fault, reason in zip(faults.tolist(), reasons, strict=True):
        refused.setdefault(fault, []).append(reason)
    commonest = sorted(refused.items(), key=lambda each: -len(each[1]))
    told = ", ".join(_told(fault, numbers) for fault, numbers in commonest)
    line = f"none of {total} nodes takes a task of {gang.name}: {told}"
    limit = "bandwidth" if refused.keys() & {_INTERFACE, _UPLINK} else ""
    if _OTHERS in refused:
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
            limit = ""
        line += f"; {most} of {gang.tasks} tasks find room"
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


def _told(fault: int, reasons: list[str]) -> str:
    words = f"{len(reasons)} {_WORDS[fault][len(reasons) > 1]}"
    if fault in (_DOWN, _OTHERS):
        return words
    numbers, count = Counter(reasons).most_common(1)[0]
    on = "" if count == len(reasons) else f"{count} of them: "
    return f"{words} ({on}{numbers})"


def _in_racks(cycle: Cycle, holds: Ints) -> int:
    """Return how many tasks the best racks hold, as many as the gang may span, shape (racks,)."""
    return int(np.sort(holds)[::-1][: cycle.gang.most_racks].sum())


# ------------------------------------------------------------------ score


@dataclass(frozen=True)
class Scores:
    """What a gang's tasks so far would cost with one more of them on each of some nodes.

    All tasks of a gang have one rotation, over all links that they cross. All arrays are of shape
    (n,).

    Attributes
    ----------
    nodes, offset
        Indices, and the best rotation there.
    least, cost
        What nodes are compared by, as `Cycle.cost` has it, and H times the contention that all
        tasks so far add, weight * Mbit/s * slots.
    cushion
        Free slots on either side of every burst, 0 where something is late.
    score
        100 if nothing is late, 0 if all that the tasks send were late. What is late counts by its
        weight, so a gang of weight 0 costs nothing anywhere and has 100 everywhere. If
        compatibility comes first, a link more in conflict counts as much as if everything were
        late, and both are a share of the most links that the tasks would cross on any node.
    """

    nodes: Ints
    offset: Ints
    least: Ints
    cost: Ints
    cushion: Ints
    score: Ints


def score_nodes(cycle: Cycle, partial: Partial, nodes: Ints) -> Scores:
    """Score nodes, given as indices, for the next task of a gang whose others run at `partial`."""
    state = cycle.state
    racks, rack = np.unique(state.rack[nodes], return_inverse=True)
    leaves_node = cycle.has_to_leave_node(partial)[nodes]
    leaves_rack = cycle.has_to_leave_rack(partial)[racks]
    elsewhere = _elsewhere(cycle, partial, racks, leaves_rack)
    crossed = np.where(leaves_node & cycle.tight[nodes], nodes, -1)
    groups = np.where(leaves_node, rack, len(racks))
    offset, least, cushion = best_of_each(
        cycle.single, crossed, groups, elsewhere, cycle.burden.ready
    )
    for node, count in partial.nodes.items():
        for at in np.flatnonzero((nodes == node) & leaves_node).tolist():
            # One more beside others costs what all of them do there, less what is in already.
            link = int(state.interface[node])
            costs = elsewhere[groups[at]] + cycle.row(link, count + 1) - cycle.row(link, count)
            offset[at], least[at], cushion[at] = cycle.best_offset(costs)
    lifted = sum(tasks for index, tasks in partial.racks.items() if cycle.uplinks[index] >= 0)
    lifts = np.where(leaves_rack, lifted + (cycle.uplinks[racks] >= 0), 0)
    flows = np.where(leaves_node, partial.tasks + 1 + lifts[rack], 0)
    conflicts, cost = divmod(least, cycle.conflict) if cycle.conflict else (0 * least, least)
    return Scores(nodes, offset, least, cost, cushion, cycle.scores(conflicts, cost, flows))


def _elsewhere(
    cycle: Cycle, partial: Partial, racks: Ints, leaves_rack: NDArray[np.bool_]
) -> Costs:
    """Return what the tasks so far cost, and all of them on uplinks if the next comes to a rack.

    By offset, shape (racks + 1, T); the last row is that of a gang that stays on one node.
    """
    rows: Costs = np.zeros((len(racks) + 1, cycle.period), dtype=cycle.dtype)
    for node, tasks in partial.nodes.items():
        rows[:-1] += cycle.row(int(cycle.state.interface[node]), tasks)
    lifted = cycle.lift(partial.racks)
    for row in np.flatnonzero(leaves_rack).tolist():
        rack = int(racks[row])
        count, uplink = partial.racks.get(rack, 0), int(cycle.uplinks[rack])
        rows[row] += lifted
        if uplink >= 0:
            rows[row] += cycle.row(uplink, count + 1)
        if uplink >= 0 and count:
            rows[row] -= cycle.row(uplink, count)
    return rows


def network_costs(cycle: Cycle, partial: Partial, nodes: Ints) -> Ints:
    """Return what nodes cost the next task of a gang, which depends on each that has a node.

    All tasks being of one workload, costs depend on who else is on the node and in the rack, and on
    nothing more. Shape (n,), as the indices of the candidates.
    """
    cluster = cycle.state.cluster
    locale_of = np.array(cluster.locale_of, dtype=np.int64)
    tasks_in: Counter[int] = Counter()
    for node, tasks in partial.nodes.items():
        tasks_in[cluster.locale_of[node]] += tasks
    every: Ints = np.zeros(len(nodes), dtype=np.int64)
    for there, tasks in tasks_in.items():
        ways = [_way(cluster, here, there) for here in range(len(cluster.locales))]
        every += tasks * np.array(ways, dtype=np.int64)[locale_of[nodes]]
    for node, tasks in partial.nodes.items():
        # A way that does not leave the node costs nothing.
        here = cluster.locale_of[node]
        every[nodes == node] -= tasks * _way(cluster, here, here)
    return every


def _way(cluster: ClusterSpec, here: int, there: int) -> int:
    """Return what the way between two hosts costs, given the indices of their locales."""
    (region, rack), (other_region, other_rack) = cluster.locales[here], cluster.locales[there]
    if other_region is None and other_rack is None:
        return _UNKNOWN
    if here == there:
        return _SAME_ZONE
    if region == other_region:
        return cluster.zone_ways.get((rack or "", other_rack or ""), _UNKNOWN)
    return cluster.region_ways.get((region or "", other_region or ""), _UNKNOWN)


def normalised(costs: Ints) -> Ints:
    """Return network scores, shape (n,): 100 for nodes that cost least, 0 for those that cost most.

    If all nodes cost nothing, all have 0; if all cost the same, all have 100.
    """
    if not costs.any():
        return costs
    least, most = costs.min(), costs.max()
    if least == most:
        return np.full_like(costs, _BEST)
    share: Ints = (float(_BEST) * (costs - least) / (most - least)).astype(np.int64)
    return _BEST - share


def normalise(names: Sequence[str], scores: Ints, network: Ints) -> list[int]:
    """Return the order of nodes, the best first: by score, then `normalised` score, then name."""
    keys = zip((-scores).tolist(), (-network).tolist(), names, range(len(names)), strict=True)
    return [index for *_, index in sorted(keys)]
