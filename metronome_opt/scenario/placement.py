"""On which nodes the tasks of a scenario run."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping

from metronome_opt.errors import InputError
from metronome_opt.scenario.model import Scenario, Work


def place_tasks(scenario: Scenario) -> list[tuple[str, ...]]:
    """Return the node of each task of each job.

    Jobs that say where they run come first. The others follow in their order, every task on the
    node with most GPUs free, the first by name among equals. CPU and memory are not looked at.

    Raises
    ------
    InputError
        If there are not GPUs enough.
    """
    has = scenario.cluster.gpus_of
    free = Counter(has)
    placements: dict[int, tuple[str, ...]] = {}
    for index, job in enumerate(scenario.jobs):
        for node in job.nodes or ():
            free[node] -= job.each.gpus
            if free[node] < 0:
                raise InputError(
                    f"jobs[{index}].nodes: {node} has {has[node]} GPUs and more tasks; "
                    "move one elsewhere"
                )
        if job.nodes is not None:
            placements[index] = job.nodes
    for index, job in enumerate(scenario.jobs):
        if job.nodes is None:
            placements[index] = _spread(free, index, job)
            for node in placements[index]:
                free[node] -= job.each.gpus
    return [placements[index] for index in range(len(scenario.jobs))]


def _spread(free: Mapping[str, int], index: int, job: Work) -> tuple[str, ...]:
    """Return nodes for the tasks of a job that does not say where it runs."""
    each = job.each.gpus
    room = sum(count // each for count in free.values())
    if job.workers > room:
        left = f"only {sum(free.values())} GPUs are free"
        if each > 1:
            left += f", in which {room} workers of {each} find room"
        raise InputError(f"jobs[{index}].workers: {job.workers}: {left}")
    return most_free(free, job.workers, each)


def most_free(free: Mapping[str, int], workers: int, each: int = 1) -> tuple[str, ...]:
    """Return nodes for `workers` tasks, one after the other where most GPUs are free, by name.

    This is what Kubernetes does if it looks at resources alone (its score LeastAllocated).

    Parameters
    ----------
    free
        GPUs by node, enough of them.
    workers, each
        How many tasks, and how many GPUs of one node each takes.
    """
    heap = [(-count, node) for node, count in free.items() if count >= each]
    heapq.heapify(heap)
    chosen = []
    for _ in range(workers):
        count, node = heap[0]
        chosen.append(node)
        if -count - each >= each:
            heapq.heapreplace(heap, (count + each, node))
        else:
            heapq.heappop(heap)
    return tuple(sorted(chosen))
