"""Migrations of running jobs: checkpoint and restart elsewhere, if that saves more than it costs.

A job migrates to no placement that is farther than its own, unless it has no network there: in
simulations that lengthened completion, because the next jobs shared links with more others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from metronome_opt.allocation.candidates import network_cost
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.request import PlacedJob
from metronome_opt.allocation.start_options import candidate_starts, cheapest, exchange_nodes
from metronome_opt.scenario.flows import Placement


class Migration(NamedTuple):
    """A migration of a running job."""

    job: str
    # its placements
    before: Placement
    after: Placement
    # time that it saves, with that of the jobs on its links by weight over its own; infinite for a
    # job that has no network before
    saves_ms: float
    cost_weight: int  # the weight of its time

    @property
    def gain(self) -> str:
        """The reason for it in words."""
        is_known = math.isfinite(self.saves_ms)
        return f"saves {self.saves_ms / 1000:.0f} s" if is_known else "has no network before"


def choose_migrations(
    occupancy: Occupancy, costs_ms: Mapping[str, float], kept: Mapping[str, float]
) -> list[Migration]:
    """Choose which running jobs migrate, and where, once it is decided which jobs start.

    The migration that gains most comes first, until none pays; no job migrates twice. A job stays
    if it is not known how long it still runs, unless a link on its way carries nothing.

    Parameters
    ----------
    costs_ms
        Time that a migration costs each job; a job that is not named stays.
    kept
        By what share jobs are slower than at best, for gated jobs that no other job delays.
    """
    occupancy, migrations = occupancy.copy(), list[Migration]()
    movable = [
        name
        for name, placed_job in occupancy.placed.items()
        if name in costs_ms
        and (placed_job.job.length_ms is not None or not placed_job.placement.transport.rate)
    ]
    while True:
        found = [
            _best_migration(occupancy, name, costs_ms[name], kept.get(name)) for name in movable
        ]
        paying = [migration for migration in found if migration is not None]
        if not paying:
            return migrations
        best = max(paying, key=lambda move: move.cost_weight * (move.saves_ms - costs_ms[move.job]))
        occupancy.add(PlacedJob(occupancy.remove(best.job).job, best.after))
        movable.remove(best.job)
        migrations.append(best)


def _best_migration(
    occupancy: Occupancy, name: str, cost_ms: float, kept: float | None
) -> Migration | None:
    """Return the migration of a job that gains most; None if none pays."""
    placed_job = occupancy.remove(name)
    job, here = placed_job.job, placed_job.placement
    cost = job.cost_weight * cost_ms
    if not here.transport.rate:
        now = math.inf
    elif kept is None:
        now = occupancy.start(job, here).cost
    else:
        now = job.cost_weight * job.expected_ms * kept
    start = cheapest(candidate_starts(occupancy, job)) if now > cost else None
    if start is not None:
        start = exchange_nodes(occupancy, job, start)
    occupancy.add(placed_job)
    if start is None or sorted(start.placement.nodes) == sorted(here.nodes):
        return None  # a job gives up its windows without a migration
    saved = now - start.cost
    is_farther = network_cost(start.placement) > network_cost(here) and here.transport.rate
    if saved <= cost or is_farther:
        return None
    return Migration(name, here, start.placement, saved / job.cost_weight, job.cost_weight)
