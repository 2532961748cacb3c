"""Tasks spread over nodes by free resources, as a scheduler does that knows no network."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

from metronome_opt.errors import InputError, pluralise
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.placement_limits import PlacementLimits
from metronome_opt.scenario.scenario_file import Scenario

_UNITS = ("GPU", "millicore", "MiB")


def free_gpus(scenario: Scenario) -> Counter[str]:
    """Return the GPUs that jobs leave free where they say that they run.

    An `InputError` names a node that does not have the GPUs, CPU and memory of its tasks.
    """
    has = {node.name: node.has.vector for node in scenario.cluster.nodes}
    free = {name: list(vector) for name, vector in has.items()}
    for index, job in enumerate(scenario.jobs):
        for node in job.nodes or ():
            for place, needed in enumerate(job.each.vector):
                free[node][place] -= needed
                if free[node][place] < 0 < needed:
                    raise InputError(
                        f"jobs[{index}].nodes: {node} has "
                        f"{pluralise(has[node][place], _UNITS[place])}, and its tasks need more; "
                        "move one elsewhere"
                    )
    return Counter({name: gpus for name, (gpus, *_) in free.items()})


def spread(scenario: Scenario) -> Scenario:
    """Return a scenario whose jobs without nodes are spread by free GPUs, see `place_tasks`.

    That is what a scheduler does that knows nothing of the network.

    Raises
    ------
    InputError
        If GPUs do not suffice.
    """
    free, jobs, cluster = free_gpus(scenario), list(scenario.jobs), scenario.cluster
    unplaced = [index for index, job in enumerate(jobs) if job.nodes is None]
    places = place_tasks(
        cluster,
        free,
        [(jobs[index].workers, jobs[index].each.gpus, jobs[index].limits) for index in unplaced],
    )
    for index, nodes in zip(unplaced, places, strict=True):
        task_gpus = jobs[index].each.gpus
        free.subtract({node: task_gpus * count for node, count in Counter(nodes).items()})
        jobs[index] = jobs[index].model_copy(update={"nodes": nodes})
    for index, job in enumerate(jobs):
        if job.nodes is None:
            left = f"no room; free: {pluralise(free.total(), 'GPU')}"
            if job.each.gpus > 1:
                room = sum(count // job.each.gpus for count in free.values())
                left += f", room for {pluralise(room, 'worker')} of {job.each.gpus}"
            if limits := job.limits.describe(cluster):
                left += f"; {limits}"
            raise InputError(f"jobs[{index}].workers: {job.workers}: {left}")
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def place_tasks(
    cluster: Cluster, free: Mapping[str, int], wanted: Sequence[tuple[int, int, PlacementLimits]]
) -> list[tuple[str, ...] | None]:
    """Return the nodes of jobs, given tasks, GPUs of a task and limits; None for one without room.

    Jobs are spread, one after the other, each task where most GPUs are free. Where that leaves one
    of them without room all are packed instead, larger tasks first, where fewest GPUs are free.
    Costs are not limited.
    """
    places: list[tuple[str, ...] | None] = []
    order = list(range(len(wanted)))
    for choose, among in ((most_free, max), (_fewest_free, min)):
        left, places = Counter(free), [None] * len(wanted)
        for index in order:
            workers, task_gpus, limits = wanted[index]
            room = {node: count // task_gpus for node, count in left.items()}
            rooms = limits.rooms(cluster, room, workers)
            part = among(rooms, key=lambda part: sum(part.values()), default=None)
            if part is not None:
                there = {node: left[node] for node in part}
                places[index] = nodes = choose(there, workers, task_gpus)
                left.subtract({node: task_gpus * count for node, count in Counter(nodes).items()})
        if None not in places:
            break
        order.sort(key=lambda index: -wanted[index][1])
    return places


def _fewest_free(free: Mapping[str, int], workers: int, task_gpus: int) -> tuple[str, ...]:
    fullest = sorted((count, node) for node, count in free.items())
    places = [node for count, node in fullest for _ in range(count // task_gpus)]
    return tuple(sorted(places[:workers]))


def most_free(free: Mapping[str, int], workers: int, task_gpus: int = 1) -> tuple[str, ...]:
    """Return nodes for tasks, one after the other where most GPUs are free.

    This is what Kubernetes does if it looks at resources alone (its score LeastAllocated).

    Parameters
    ----------
    free
        Free GPUs by node.
    workers, task_gpus
        Number of tasks, for which there is room, and GPUs of one.

    Returns
    -------
    tuple of str
        The node of each task, sorted by name.
    """
    heap = [(-count, node) for node, count in free.items() if count >= task_gpus]
    heapq.heapify(heap)
    chosen = []
    for _ in range(workers):
        count, node = heap[0]
        chosen.append(node)
        if -count - task_gpus >= task_gpus:
            heapq.heapreplace(heap, (count + task_gpus, node))
        else:
            heapq.heappop(heap)
    return tuple(sorted(chosen))
