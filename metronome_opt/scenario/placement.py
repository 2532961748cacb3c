"""On which nodes the tasks of a scenario run."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping

from metronome_opt.errors import InputError
from metronome_opt.scenario.model import Scenario


def place_tasks(scenario: Scenario) -> list[tuple[str, ...]]:
    """Return the node of each task of each job.

    Jobs that say where they run come first. The others follow in their order, every task on the
    node with most GPUs free, the first by name among equals.

    Raises
    ------
    InputError
        If there are not GPUs enough.
    """
    free = Counter(dict.fromkeys(scenario.cluster.node_names, scenario.cluster.gpus))
    placements: dict[int, tuple[str, ...]] = {}
    for index, job in enumerate(scenario.jobs):
        for node in job.nodes or ():
            free[node] -= 1
            if free[node] < 0:
                raise InputError(
                    f"jobs[{index}].nodes: {node} has {scenario.cluster.gpus} GPUs and more tasks; "
                    "move one elsewhere"
                )
        if job.nodes is not None:
            placements[index] = job.nodes
    for index, job in enumerate(scenario.jobs):
        if job.nodes is None:
            left = free.total()
            if job.workers > left:
                raise InputError(f"jobs[{index}].workers: {job.workers}: only {left} GPUs are free")
            placements[index] = most_free(free, job.workers)
            free.subtract(placements[index])
    return [placements[index] for index in range(len(scenario.jobs))]


def most_free(free: Mapping[str, int], workers: int) -> tuple[str, ...]:
    """Return nodes for `workers` tasks, one after the other where most GPUs are free, by name.

    This is what Kubernetes does if it looks at resources alone (its score LeastAllocated).

    Parameters
    ----------
    free
        GPUs by node, enough of them.
    """
    heap = [(-count, node) for node, count in free.items() if count]
    heapq.heapify(heap)
    chosen = []
    for _ in range(workers):
        count, node = heap[0]
        chosen.append(node)
        if count == -1:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (count + 1, node))
    return tuple(sorted(chosen))
