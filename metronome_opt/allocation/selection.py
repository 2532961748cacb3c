"""Selection of the jobs that run where not all of them fit.

The sum over waiting jobs of weight times GPUs is minimised, then their number. This is a packing
problem with several resources, whose tasks are shared out to nodes; CP-SAT solves it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from metronome_opt.allocation.request import JobRequest
from metronome_opt.allocation.slots.integer_program import Row, minimise_by_cpsat
from metronome_opt.scenario.free_resources import FreeResources
from metronome_opt.solvers.budget import Budget

_MAX_CELLS = 50_000  # tasks of a job on a node, beyond which jobs are chosen one after the other
_EFFORT = 1.0  # of CP-SAT, in its deterministic time: about seconds


def lost(left: Sequence[JobRequest]) -> tuple[int, int]:
    """Return what is minimised: the sum of weight times GPUs of waiting jobs, and their number."""
    return sum(job.cost_weight * max(1, job.gpus) for job in left), len(left)


def select_running(
    jobs: Sequence[JobRequest], resources: FreeResources
) -> Mapping[str, tuple[str, ...]]:
    """Return the jobs that run, each with nodes that have resources for all of them together.

    Links and network costs do not count. Where CP-SAT takes too long, jobs are selected greedily.
    """
    greedy = _one_by_one(jobs, resources)
    cells = len(jobs) * len(resources.cluster.nodes)
    if len(greedy) == len(jobs) or cells > _MAX_CELLS:
        return greedy
    packed = _packed(jobs, resources, greedy)
    return min(greedy, packed, key=lambda found: lost([j for j in jobs if j.name not in found]))


def _one_by_one(jobs: Sequence[JobRequest], resources: FreeResources) -> dict[str, tuple[str, ...]]:
    """Place jobs of large tasks first, so that these find whole nodes, and the rest by weight."""
    left, found = resources.copy(), {}
    for job in sorted(
        jobs, key=lambda job: (-job.cost_weight, -job.task_resources.gpus, -job.gpus, job.name)
    ):
        fits = left.tasks_by_node(job.task_resources)
        rooms = job.limits.rooms(resources.cluster, fits, job.tasks)
        room = min(rooms, key=lambda room: sum(room.values()), default=None)
        if room is not None:
            nodes = [
                node for node in sorted(room, key=lambda n: (room[n], n)) for _ in range(room[node])
            ]
            found[job.name] = tuple(nodes[: job.tasks])
            left.take(found[job.name], job.task_resources)
    return found


def _packed(
    jobs: Sequence[JobRequest], resources: FreeResources, hint: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the best choice that CP-SAT finds; empty if it finds none."""
    names = [node.name for node in resources.cluster.nodes]
    unit = len(jobs) + 1  # one job more or less counts less than any weight
    costs = [-unit * lost([job])[0] - 1 for job in jobs]
    uppers, start = [1] * len(jobs), [int(job.name in hint) for job in jobs]
    nodes_of = list[list[tuple[str, int]]]()  # by job: each node that has room, and its variable
    needs = defaultdict[tuple[int, int], list[tuple[int, int]]](list)  # by node and resource
    rows = []
    for index, job in enumerate(jobs):
        nodes_of.append([])
        for at, fit in enumerate(resources.task_counts(job.task_resources).tolist()):
            if fit:
                nodes_of[index].append((names[at], len(uppers)))
                for kind, need in enumerate(job.task_resources.vector):
                    if need:
                        needs[at, kind].append((need, len(uppers)))
                uppers.append(min(job.tasks, fit))
                start.append(hint.get(job.name, ()).count(names[at]))
        counts = [(1, number) for _, number in nodes_of[index]]
        rows.append(Row((*counts, (-job.tasks, index)), 0, is_equation=True))
    free = resources.free.tolist()
    rows += (Row(tuple(terms), free[at][kind]) for (at, kind), terms in sorted(needs.items()))
    parameters = {"num_workers": 1, "random_seed": 0, "max_deterministic_time": _EFFORT}
    costs += [0] * (len(uppers) - len(jobs))
    values, _ = minimise_by_cpsat(Budget(), costs, rows, start, uppers, **parameters)
    return (
        {
            job.name: tuple(node for node, number in nodes for _ in range(values[number]))
            for job, nodes, runs in zip(jobs, nodes_of, values, strict=False)
            if runs
        }
        if values
        else {}
    )
