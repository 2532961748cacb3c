"""The greedy rotation of all jobs at their places, as a plan: the baseline."""

from __future__ import annotations

from metronome_opt.allocation.slots.greedy import PartialSchedule
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.presolve.blocks import components
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun


def rotate_greedily(instance: Instance, budget: Budget) -> Plan:
    """Gate jobs at their own periods, each at its cheapest offset after jobs of higher weight.

    A job that overloads a link there is not gated, nor is one that shares no link, or a link with a
    hyperperiod above the limit.
    """
    offsets, periods = dict(instance.unshifted), dict[str, int]()
    for part in components(simplify_links(instance)):
        if part.links and not part.needs_stretch:
            search = SolverRun(part, time_limit=None, seed=0, threads=1, parent=budget)
            greedy.run(search)
            found, placed = search.offsets_by_job() or {}, PartialSchedule(part)
            for job in sorted(part.jobs, key=lambda job: -job.weight):
                cost = placed.costs(job.name, job.period) if job.name in found else None
                if cost is not None and cost[found[job.name]] == 0:
                    placed.put(job.name, job.period, found[job.name])
            offsets |= {name: offset for name, (_, offset) in placed.kept.items()}
            periods |= {name: period for name, (period, _) in placed.kept.items()}
    return Plan(offsets, periods)
