"""Moves of running jobs: checkpoint and restart elsewhere, where that saves more than it costs.

A job moves to no place that is farther than its own: in simulations that lengthened completion,
because jobs that came next met more others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from metronome_opt.allocation.candidates import network_cost
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.request import PlacedJob
from metronome_opt.allocation.start_options import candidate_starts, cheapest, exchange_nodes
from metronome_opt.scenario.flows import Placement


class Migration(NamedTuple):
    """A move of a running job.

    Attributes
    ----------
    before, after
        Its placements.
    saves_ms
        Time that it saves itself and the jobs that it meets, theirs by weight over its own.
    cost_weight
        The weight of its time.
    """

    job: str
    before: Placement
    after: Placement
    saves_ms: float
    cost_weight: int


def choose_migrations(
    occupancy: Occupancy, costs_ms: Mapping[str, float], kept: Mapping[str, float]
) -> list[Migration]:
    """Decide which running jobs move, and where, once it is decided which jobs start.

    The move that gains most comes first, until none pays; no job moves twice. A job stays if it is
    not known how long it still runs.

    Parameters
    ----------
    costs_ms
        Time that a move costs each job; one that is not named stays.
    kept
        By what share jobs are slower than at best whose slots no other job delays.
    """
    occupancy, moves = occupancy.copy(), list[Migration]()
    movable = [
        name
        for name, each in occupancy.placed.items()
        if name in costs_ms and each.job.length_ms is not None
    ]
    while True:
        found = [_best_move(occupancy, name, costs_ms[name], kept.get(name)) for name in movable]
        paying = [move for move in found if move is not None]
        if not paying:
            return moves
        best = max(paying, key=lambda move: move.cost_weight * (move.saves_ms - costs_ms[move.job]))
        occupancy.add(PlacedJob(occupancy.remove(best.job).job, best.after))
        movable.remove(best.job)
        moves.append(best)


def _best_move(
    occupancy: Occupancy, name: str, cost_ms: float, kept: float | None
) -> Migration | None:
    """Return the move of a job that gains most; None if none pays."""
    each = occupancy.remove(name)
    job, here = each.job, each.placement
    cost = job.cost_weight * cost_ms
    now = (
        occupancy.start(job, here).cost
        if kept is None
        else job.cost_weight * job.expected_ms * kept
    )
    start = cheapest(candidate_starts(occupancy, job)) if now > cost else None
    if start is not None:
        start = exchange_nodes(occupancy, job, start)
    occupancy.add(each)
    if start is None or sorted(start.placement.nodes) == sorted(here.nodes):
        return None  # where it is a job needs no move to give up its slots
    saved = now - start.cost
    if saved <= cost or network_cost(start.placement) > network_cost(here):
        return None
    return Migration(name, here, start.placement, saved / job.cost_weight, job.cost_weight)
