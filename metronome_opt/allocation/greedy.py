"""The greedy rotation of all jobs at their places, as a plan: the baseline."""

from __future__ import annotations

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.presolve.blocks import components
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun


def rotate_greedily(instance: Instance, budget: Budget) -> Plan:
    """Gate jobs at their own periods, each at its cheapest offset after jobs of higher weight.

    Jobs that share no link, or one with a hyperperiod above the limit, are not shifted.
    """
    offsets, periods = dict(instance.unshifted), dict[str, int]()
    for part in components(simplify_links(instance).instance):
        if part.links and not part.needs_stretch:
            search = SolverRun(part, time_limit=None, seed=0, threads=1, parent=budget)
            greedy.run(search)
            offsets |= search.offsets_by_job() or {}
            periods |= {job.name: job.period for job in part.jobs}
    return Plan(offsets, periods)
