"""Score and Normalise: what every candidate node costs a gang in its best rotation there.

Ties are broken by network costs, exactly as Diktyo's NetworkOverhead has them. Source:
kubernetes-sigs/scheduler-plugins, issue 955 and the plugin NetworkOverhead. A node costs what the
ways from it to the pods cost that have a node already; regions and zones say what a way costs, and
a zone is a rack here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kernels.placing import best_of_each
from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cluster import ClusterSpec
from metronome_opt.scheduling.cycle import Costs, Cycle, Partial

_SAME_ZONE = 1
_UNKNOWN = 100
_BEST = 100


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
