"""Score: the best rotation of a gang on every candidate node, and what it costs there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kernels.placing import best_of_each
from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Costs, Cycle, Partial
from metronome_opt.scheduling.option import best_offset

BEST_SCORE = 100


@dataclass(frozen=True)
class Scores:
    """What a gang's tasks so far would cost with one more of them on each of some nodes.

    All tasks of a gang have one rotation, over all links that they cross.

    Attributes
    ----------
    nodes
        Indices, shape (n,).
    offset
        The best rotation, shape (n,).
    least
        What nodes are compared by, as `Cycle.cost` has it, shape (n,).
    cost
        H times the contention that all tasks so far add, weight * Mbit/s * slots, shape (n,).
    cushion
        Free slots on either side of every burst, 0 where something is late, shape (n,).
    score
        Shape (n,): 100 if nothing is late, 0 if all that the tasks send were late. What is late
        counts by its weight, so a gang of weight 0 costs nothing anywhere and has 100 everywhere.
        If compatibility comes first, a link more in conflict counts as much as if everything were
        late, and both are a share of the most links that the tasks would cross on any of the nodes.
    """

    nodes: Ints
    offset: Ints
    least: Ints
    cost: Ints
    cushion: Ints
    score: Ints


def score_nodes(cycle: Cycle, partial: Partial, nodes: Ints) -> Scores:
    """Score nodes for the next task of a gang.

    Source: kubernetes-sigs/scheduler-plugins issue 955, Score.

    Parameters
    ----------
    partial
        Where the tasks before it are to run.
    nodes
        Indices of the candidates, shape (n,).
    """
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
            offset[at], least[at], cushion[at] = best_offset(cycle, costs)
    lifted = sum(tasks for index, tasks in partial.racks.items() if cycle.uplinks[index] >= 0)
    lifts = np.where(leaves_rack, lifted + (cycle.uplinks[racks] >= 0), 0)
    flows = np.where(leaves_node, partial.tasks + 1 + lifts[rack], 0)
    conflicts, cost = divmod(least, cycle.conflict) if cycle.conflict else (0 * least, least)
    return Scores(nodes, offset, least, cost, cushion, _scores(cycle, conflicts, cost, flows))


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


def score_of(cycle: Cycle, conflicts: int, cost: int, partial: Partial) -> int:
    """Return the score of tasks that cost so much where they are, of all links that they cross."""
    flows = partial.tasks if len(partial.nodes) > 1 else 0
    if len(partial.racks) > 1:
        flows += sum(tasks for rack, tasks in partial.racks.items() if cycle.uplinks[rack] >= 0)
    return int(_scores(cycle, *(np.array([value]) for value in (conflicts, cost, flows)))[0])


def _scores(cycle: Cycle, conflicts: Ints, cost: Ints, flows: Ints) -> Ints:
    """Return 100 less the share of the gang's weighted traffic that is late, rounded up.

    If conflicts count, all of them but one come on top, and it is a share of the most there can be.
    """
    gang = cycle.gang
    repeats = cycle.state.cluster.hyperperiod // cycle.period
    all_late = gang.weight * gang.volume * repeats * flows
    late = np.minimum(-(-BEST_SCORE * cost // np.maximum(all_late, 1)), BEST_SCORE)
    if cycle.conflict:
        late = -(-(BEST_SCORE * (conflicts - 1) + late) // flows.max(initial=1))
    return np.where(cost > 0, BEST_SCORE - late, BEST_SCORE)
