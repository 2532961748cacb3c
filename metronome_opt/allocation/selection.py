"""Selection of the jobs that run where not all of them fit.

The sum over waiting jobs of weight times GPUs is minimised, then their number. This is a packing
problem with several resources, whose tasks are shared out to nodes; CP-SAT solves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metronome_opt.allocation.request import JobRequest
from metronome_opt.scenario.free_resources import FreeResources

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

    Parameters
    ----------
    jobs
        The jobs that are to be placed.
    resources
        Free resources.
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
        nodes = [
            node for node in sorted(fits, key=lambda n: (fits[n], n)) for _ in range(fits[node])
        ]
        if len(nodes) >= job.tasks:
            found[job.name] = tuple(nodes[: job.tasks])
            left.take(found[job.name], job.task_resources)
    return found


def _packed(
    jobs: Sequence[JobRequest], resources: FreeResources, hint: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the best choice that CP-SAT finds; empty if it finds none."""
    from ortools.sat.python import cp_model

    model, names = cp_model.CpModel(), [node.name for node in resources.cluster.nodes]
    runs = {job.name: model.new_bool_var(job.name) for job in jobs}
    counts = {
        (job.name, at): model.new_int_var(0, min(job.tasks, int(fit)), "")
        for job in jobs
        for at, fit in enumerate(resources.task_counts(job.task_resources))
        if fit
    }
    for job in jobs:
        its = [
            (node, counts[job.name, at])
            for at, node in enumerate(names)
            if (job.name, at) in counts
        ]
        model.add(sum(count for _, count in its) == job.tasks * runs[job.name])
        model.add_hint(runs[job.name], job.name in hint)
        for node, count in its:
            model.add_hint(count, hint.get(job.name, ()).count(node))
    for at, free in enumerate(resources.free.tolist()):
        for kind, has in enumerate(free):
            needs = [
                (job.task_resources.vector[kind], counts[job.name, at])
                for job in jobs
                if (job.name, at) in counts and job.task_resources.vector[kind]
            ]
            if needs:
                model.add(sum(need * count for need, count in needs) <= has)
    # One job more or less counts less than any weight.
    unit = len(jobs) + 1
    model.maximize(sum((unit * lost([job])[0] + 1) * runs[job.name] for job in jobs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = _EFFORT
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {}
    return {
        job.name: tuple(
            node
            for at, node in enumerate(names)
            if (job.name, at) in counts
            for _ in range(solver.value(counts[job.name, at]))
        )
        for job in jobs
        if solver.value(runs[job.name])
    }
