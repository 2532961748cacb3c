"""Places of several jobs together: by greedy insertion, improved by large neighbourhood search.

Some jobs that meet are taken out and put back, in another order, each at its cheapest placement.
What comes out is kept if it costs no more. Prices are those of `occupancy`.

References
----------
P. Shaw, "Using constraint programming and local search methods to solve vehicle routing problems",
CP 1998 (relatedness, removal and reinsertion).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.occupancy import Occupancy, Placed
from metronome_opt.scenario.network import Placement
from metronome_opt.solvers.budget import Budget

_MAX_REMOVED = 4
_ORDERS = 8  # random ones of greedy insertion, beside those by size


def assign(
    jobs: Sequence[Demand],
    occupancy: Occupancy,
    budget: Budget,
    seed: int = 0,
    rounds: int = 60,
) -> tuple[Occupancy, list[Demand]]:
    """Place jobs in a cluster.

    Parameters
    ----------
    jobs
        Those without a placement, the most important ones first.
    occupancy
        Those that have one, and keep it.
    budget
        The search ends with it; every job is tried once in any case.
    rounds
        Of the search, for each job.

    Returns
    -------
    tuple
        The occupancy with the jobs that have found room, and the jobs that have not.
    """
    draw = random.Random(seed)  # noqa: S311 (nothing is kept secret)
    movable = {job.name: job for job in jobs}
    best, best_cost, best_left = occupancy, 0.0, list(jobs)
    for order in _orders(jobs, draw):
        tried = occupancy.copy()
        cost, left = _insert(tried, order)
        # To leave a more important job out is worse than any cost.
        if best is occupancy or (_lost(left), cost) < (_lost(best_left), best_cost):
            best, best_cost, best_left = tried, cost, left
        if budget.stopped:
            break
    for _ in range(rounds * len(jobs)):
        if budget.stopped or (best_cost <= 0 and not best_left):
            break
        tried = best.copy()
        names = [name for name in tried.placed if name in movable]
        if not names:
            break
        removed = _related(tried, names, draw)
        gain = sum(_take_out(tried, name) for name in removed)
        again = [*best_left, *(movable[name] for name in removed)]
        draw.shuffle(again)
        cost, left = _insert(tried, again)
        change = cost - gain
        if (_lost(left), change) <= (_lost(best_left), 0.0):
            best, best_cost, best_left = tried, best_cost + change, left
    return best, best_left


def _lost(left: Sequence[Demand]) -> tuple[int, int]:
    return sum(job.worth for job in left), len(left)


def _orders(jobs: Sequence[Demand], draw: random.Random) -> list[Sequence[Demand]]:
    """Return orders in which to insert jobs: as they are, by size, at random."""
    orders: list[Sequence[Demand]] = [
        sorted(jobs, key=lambda job: (-job.tasks * job.each.gpus, job.name)),
        sorted(jobs, key=lambda job: (job.tasks * job.each.gpus, job.name)),
        list(jobs),
    ]
    return orders + [draw.sample(list(jobs), len(jobs)) for _ in range(_ORDERS)]


def _insert(occupancy: Occupancy, jobs: Sequence[Demand]) -> tuple[float, list[Demand]]:
    """Place one job after the other; return what that costs, and the jobs without room."""
    cost, left = 0.0, []
    for job in jobs:
        start = occupancy.best(job)
        if start is None:
            left.append(job)
        else:
            cost += start.cost
            occupancy.add(Placed(job, start.placement))
    return cost, left


def _take_out(occupancy: Occupancy, name: str) -> float:
    """Remove a job; return what it costs to place it there again."""
    each = occupancy.remove(name)
    return occupancy.start(each.job, each.placement).cost


def _related(occupancy: Occupancy, names: Sequence[str], draw: random.Random) -> list[str]:
    """Return some jobs: one at random, and others that share nodes or links with it, if any."""
    first = draw.choice(names)
    here = occupancy.placed[first].placement
    near = [
        name for name in names if name != first and _meets(here, occupancy.placed[name].placement)
    ]
    others = near or [name for name in names if name != first]
    count = draw.randint(0, min(_MAX_REMOVED - 1, len(others)))
    return [first, *draw.sample(others, count)]


def _meets(one: Placement, other: Placement) -> bool:
    """Return whether two placements share links or nodes."""
    return not (
        one.links.keys().isdisjoint(other.links.keys()) and set(one.nodes).isdisjoint(other.nodes)
    )
