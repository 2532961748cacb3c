"""Placements of several jobs: by greedy insertion, improved by large neighbourhood search.

Some jobs that share links are removed and inserted again, in another order, each at its cheapest
placement. The result is kept if it costs no more. Costs are those of `occupancy`.

References
----------
P. Shaw, "Using constraint programming and local search methods to solve vehicle routing problems",
CP 1998 (relatedness, removal and reinsertion). J. Christiaens, G. Vanden Berghe, "Slack induction
by string removals for vehicle routing problems", Transportation Science 2020 (blinks).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.allocation.selection import lost
from metronome_opt.allocation.start_options import cheapest, starts_at
from metronome_opt.solvers.budget import Budget

_MAX_REMOVED = 4
_ROUNDS = 60  # of the search, for each job
_MAX_DRAWN = 8  # jobs, for one that costs something
_BLINK = 0.1  # chance of a placement to be omitted, so that jobs do not only take the cheapest
_SIMULATED_BLINK = 0.5  # the chance where simulations decide
_MIN_COST = 1e-9  # less is nothing
_RANDOM_ORDERS = 8  # of greedy insertion, beside those by size
_GREEDY = 0.3  # of the time, at most, for greedy insertion


def search_placements(
    jobs: Sequence[JobRequest],
    occupancy: Occupancy,
    budget: Budget,
    seed: int = 0,
    pinned: Sequence[JobRequest] = (),
) -> tuple[Occupancy, list[JobRequest]]:
    """Place jobs, the most important ones first, in a cluster whose other jobs stay.

    The search ends with the budget; every job is tried once in any case. `pinned` jobs keep their
    nodes, but their flows may take other paths. Returns the occupancy with the jobs that have found
    room, and the jobs that have not.
    """
    draw = random.Random(seed)  # noqa: S311 (nothing is kept secret)
    movable = {job.name: job for job in (*jobs, *pinned)}
    best, best_cost, best_left = occupancy, 0.0, list(jobs)
    without = occupancy.copy()
    kept = sum(_remove(without, job.name) for job in pinned)
    orders = [
        sorted(jobs, key=lambda job: (-job.gpus, job.name)),
        sorted(jobs, key=lambda job: (job.gpus, job.name)),
        list(jobs),
    ]
    orders += [draw.sample(list(jobs), len(jobs)) for _ in range(_RANDOM_ORDERS)]
    inserting = budget.fraction(_GREEDY)
    for order in orders:
        tried = occupancy.copy()
        cost, left = _insert(tried, order)
        cost += kept
        # A more important job that waits is worse than any cost.
        if best is occupancy or (lost(left), cost) < (lost(best_left), best_cost):
            best, best_cost, best_left = tried, cost, left
        if inserting.stopped:
            break
    for _ in range(_ROUNDS * len(movable)):
        names = [name for name in best.placed if name in movable]
        if budget.stopped or not names or (best_cost <= _MIN_COST and not best_left):
            break
        before = [best.placed[name] for name in _related(best, names, draw)]
        gain = sum(_remove(best, placed_job.job.name) for placed_job in before)
        again = [*best_left, *(placed_job.job for placed_job in before)]
        draw.shuffle(again)
        cost, left = _insert(best, again, draw)
        if (lost(left), cost) <= (lost(best_left), gain):
            best_cost, best_left = best_cost + cost - gain, left
            continue
        for job in again:
            if job.name in best.placed:
                best.remove(job.name)
        for placed_job in before:
            best.add(placed_job)
    return best, best_left


def perturb_placements(
    occupancy: Occupancy, jobs: Sequence[JobRequest], draw: random.Random
) -> Occupancy | None:
    """Return other placements for some jobs that share links, of half of all; None if none fit."""
    tried = occupancy.copy()
    movable = {job.name: job for job in jobs if job.name in tried.placed}
    if not movable:
        return None
    removed = _related(tried, list(movable), draw)
    for name in removed:
        tried.remove(name)
    draw.shuffle(removed)
    _, left = _insert(tried, [movable[name] for name in removed], draw, _SIMULATED_BLINK)
    return None if left else tried


def _insert(
    occupancy: Occupancy,
    jobs: Sequence[JobRequest],
    draw: random.Random | None = None,
    blink: float = _BLINK,
) -> tuple[float, list[JobRequest]]:
    """Place one job after the other, omitting some nodes by a draw; return cost, and the rest."""
    cost, left = 0.0, []
    for job in jobs:
        candidates = occupancy.resources.candidates(job, occupancy.candidates)
        if draw is not None:
            candidates = [p for p in candidates if draw.random() >= blink] or candidates
        start = cheapest(starts_at(occupancy, job, candidates, draw=draw))
        if start is None:
            left.append(job)
        else:
            cost += start.cost
            occupancy.add(PlacedJob(job, start.placement))
    return cost, left


def _remove(occupancy: Occupancy, name: str) -> float:
    """Remove a job; return what it costs to insert it there again."""
    placed_job = occupancy.remove(name)
    return occupancy.start(placed_job.job, placed_job.placement).cost


def _related(occupancy: Occupancy, names: Sequence[str], draw: random.Random) -> list[str]:
    """Return a job that costs something, if found, and some that share nodes or links with it."""
    for _ in range(_MAX_DRAWN):
        first = draw.choice(names)
        placed_job = occupancy.placed[first]
        cost = _remove(occupancy, first)
        occupancy.add(placed_job)
        if cost > _MIN_COST:
            break
    here = occupancy.placed[first].placement
    others = [name for name in names if name != first]
    near = []
    for name in others:
        there = occupancy.placed[name].placement
        if here.links.keys() & there.links.keys() or {*here.nodes} & {*there.nodes}:
            near.append(name)
    others = near or others
    count = draw.randint(0, min(_MAX_REMOVED - 1, len(others)))
    return [first, *draw.sample(others, count)]
