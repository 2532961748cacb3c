"""Why a job finds no place, in one line."""

from __future__ import annotations

from collections import Counter

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.filtering import Fault, Filtered, filter_nodes
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.state import ClusterState

_WITHOUT_NUMBERS = {Fault.DOWN, Fault.OTHERS}


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
    faults = sorted(filtered.faults().items(), key=lambda each: -len(each[1]))
    told = ", ".join(_told(filtered, fault, nodes) for fault, nodes in faults)
    line = f"none of {total} nodes takes a task of {gang.name}: {told}"
    if any(fault is Fault.OTHERS for fault, _ in faults):
        most = _most(cycle)
        line += f"; {most} of {gang.tasks} tasks find room, limited by {_limit(cycle, most)}"
    return line


def _told(filtered: Filtered, fault: Fault, nodes: list[str]) -> str:
    words = f"{len(nodes)} {fault.words(len(nodes))}"
    if fault in _WITHOUT_NUMBERS:
        return words
    numbers, count = Counter(filtered[node] for node in nodes).most_common(1)[0]
    on = "" if count == len(nodes) else f"{count} of them: "
    return f"{words} ({on}{numbers})"


def _most(cycle: Cycle) -> int:
    """Return how many tasks of the gang find room together: on a node, in a rack, or in several."""
    spread = _in_racks(cycle, np.minimum(cycle.holds, cycle.lifted))
    return max(spread, int(cycle.holds.max()), int(cycle.room.max()))


def _limit(cycle: Cycle, most: int) -> str:
    """Return the first of a few limits without which more tasks would find room."""
    rooms = np.bincount(cycle.state.rack, weights=cycle.room, minlength=len(cycle.holds))
    if _in_racks(cycle, cycle.holds) > most:
        return "the uplinks"
    if int(np.minimum(cycle.holds, cycle.lifted).sum()) > most:
        return f"most_racks: {cycle.gang.most_racks}"
    if _in_racks(cycle, rooms.astype(np.int64)) > most:
        return "the interfaces"
    return "GPUs, CPU or memory"


def _in_racks(cycle: Cycle, holds: Ints) -> int:
    """Return how many tasks the best racks hold, as many as the gang may span, shape (racks,)."""
    return int(np.sort(holds)[::-1][: cycle.gang.most_racks].sum())
