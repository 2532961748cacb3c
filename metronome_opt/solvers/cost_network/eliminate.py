"""Pruning of table cells and offsets by bounds, and elimination of jobs.

A cell of a table whose cost, together with the minimum of the other tables beside it,
exceeds what a better schedule may have is in no such schedule; nor is an offset without cells. To
eliminate a job, its costs are added up; every combination of its neighbours' offsets keeps the
job's best offset and what it costs. What is left is a network without the job and of the same
optimum. Where few jobs meet at a time, as in a sparse fabric, that solves the whole.

Reference: Bertelè and Brioschi, "Nonserial Dynamic Programming", Academic Press, 1972.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from metronome_opt.solvers.cost_network.model import Cells, Cost, CostNetwork, spread
from metronome_opt.solvers.cost_network.tables import SMALL, tabulate
from metronome_opt.solvers.kernels.compiled_instance import Ints
from metronome_opt.solvers.run import SolverRun

_STEPS = (2**12, 2**16, 2**20)
_ROUNDS = 6


@dataclass(frozen=True)
class Eliminated:
    """A job that is decided by its neighbours in `scope`: its offset at each choice of theirs."""

    job: int
    scope: tuple[int, ...]
    domains: tuple[Ints, ...]
    choice: Cells


def eliminate(
    search: SolverRun,
    network: CostNetwork,
    max_cells: int,
    max_left: int,
    kept: Collection[int] = (),
) -> tuple[CostNetwork, list[Eliminated]]:
    """Make tables and eliminate jobs, first as far as small tables go, then larger ones.

    In the network that is returned, a job that was eliminated has one offset and no cost; `decide`
    decides it. The table of a link has `max_cells`, that which is left of a job `max_left` cells.
    Jobs of `kept` are not eliminated: of a single one, what is left says what the network costs at
    each of its offsets.
    """
    gone: list[Eliminated] = []
    search.raise_bound(network.bound, "links")
    for size in (*_STEPS, max_cells):
        network = shrink(search, network, min(size, max_cells))
        while not search.stopped and network.headroom >= 0:
            job = _next(network, min(size, max_left), kept)
            if job is None:
                break
            smaller = _without(search, network, job)
            if smaller is None:
                break
            network, decision = smaller
            gone.append(decision)
            network = shrink(search, prune(search, network), min(size, max_cells))
            search.raise_bound(network.bound, "elimination")
    return network, gone


def _next(network: CostNetwork, max_left: int, kept: Collection[int]) -> int | None:
    """Return the job that leaves the smallest table, if that is small enough."""
    free = (job for job, size in enumerate(network.sizes) if size > 1 and job not in kept)
    left = {job: _cells_left(network, job) for job in free}
    job = min(left, key=left.__getitem__, default=None)
    return None if job is None or left[job] > max_left else job


def decide(gone: Sequence[Eliminated], offsets: Sequence[int]) -> list[int]:
    """Return the offsets with those of the eliminated jobs chosen for the best."""
    decided = list(offsets)
    for eliminated in reversed(gone):
        cell = tuple(
            int(np.searchsorted(domain, decided[job]))
            for job, domain in zip(eliminated.scope, eliminated.domains, strict=True)
        )
        decided[eliminated.job] = int(eliminated.choice[cell])
    return decided


def _cells_left(network: CostNetwork, job: int) -> float:
    """Return the cells of the table that eliminating a job leaves; infinite without all tables."""
    around = {job}
    for cost in network.costs:
        if job in cost.scope:
            if cost.excess is None:
                return math.inf
            around.update(cost.scope)
    return math.prod(len(network.domains[other]) for other in around - {job})


def _without(
    search: SolverRun, network: CostNetwork, job: int
) -> tuple[CostNetwork, Eliminated] | None:
    """Return the network without a job, and how the job is decided; None if there is no time."""
    mine = [cost for cost in network.costs if job in cost.scope]
    scope = tuple(sorted({other for cost in mine for other in cost.scope} - {job}))
    domains = tuple(network.domains[other] for other in scope)
    shape = [len(domain) for domain in domains]
    total = np.full(shape, network.headroom + 1, dtype=network.dtype)
    choice = np.full(shape, network.domains[job][0], dtype=np.int32)
    # One offset of the job at a time: no table is wider than what is left.
    for entry, offset in enumerate(network.domains[job]):
        if search.stopped:
            return None
        here = np.zeros(shape, dtype=network.dtype)
        for cost in mine:
            if cost.excess is not None:
                rest = [other for other in cost.scope if other != job]
                table = np.take(cost.excess, entry, axis=cost.scope.index(job))
                here += spread(table, rest, scope)
        better = here < total
        total[better] = here[better]
        choice[better] = offset
    joint = Cost(None, sum(cost.low for cost in mine), scope, None).with_table(total)
    others = (cost for cost in network.costs if job not in cost.scope)
    kept = tuple(
        domain[:1] if index == job else domain for index, domain in enumerate(network.domains)
    )
    smaller = replace(network, costs=(*others, joint), domains=kept)
    return smaller, Eliminated(job, scope, domains, choice)


def shrink(search: SolverRun, network: CostNetwork, max_cells: int) -> CostNetwork:
    """Make tables, small ones first: each cuts down the domains that the next are made over.

    A table has `max_cells` at most, all together twice as many. The bound is raised on the way.
    """
    while not search.stopped and network.headroom >= 0:
        fitting = _fitting(network, max_cells)
        if not fitting:
            break
        for position in fitting:
            if not search.stopped:
                network = tabulate(search, network, position)
        network = prune(search, network)
        search.raise_bound(network.bound, "link tables")
    return network


def _fitting(network: CostNetwork, max_cells: int) -> list[int]:
    """Return which costs to tabulate next: all small ones, or else the smallest of the others."""
    cells = [network.cells(cost) for cost in network.costs]
    missing = [position for position, cost in enumerate(network.costs) if cost.excess is None]
    small = [position for position in missing if cells[position] <= min(SMALL, max_cells)]
    if small or not missing:
        return small
    smallest = min(missing, key=cells.__getitem__)
    made = sum(cells) - sum(cells[position] for position in missing)
    return [smallest] if cells[smallest] <= min(max_cells, 2 * max_cells - made) else []


def prune(search: SolverRun, network: CostNetwork) -> CostNetwork:
    """Take out cells and offsets that are in no better schedule, until none is left.

    If there is no better schedule at all, the headroom of what is returned is negative.
    """
    for _ in range(_ROUNDS):
        before = network
        costs = list(network.costs)
        for position, cost in enumerate(costs):
            if search.stopped or network.headroom < 0:
                return network
            if cost.excess is not None:
                excess = _without_hopeless(position, costs, network.headroom)
                costs[position] = replace(cost, excess=excess)
        network = _compressed(replace(network, costs=tuple(costs)))
        if network.floor == before.floor and network.sizes == before.sizes:
            break
    return network


def _without_hopeless(position: int, costs: Sequence[Cost], headroom: int) -> Cells:
    """Return the table of a cost with every hopeless cell put above the headroom."""
    cost = costs[position]
    assert cost.excess is not None  # noqa: S101 (the caller's choice)
    total = cost.excess
    for other in (*costs[:position], *costs[position + 1 :]):
        common = [job for job in other.scope if job in cost.scope]
        if other.is_known and common:
            total = total + spread(other.minimum(common), common, cost.scope)
    return np.where(total > headroom, cost.excess.dtype.type(headroom + 1), cost.excess)


def _compressed(network: CostNetwork) -> CostNetwork:
    """Leave out offsets without a cell within the headroom, and make the minimum excess 0 again."""
    kept = [np.ones(size, dtype=np.bool_) for size in network.sizes]
    for cost in network.costs:
        if cost.is_known:
            for job in cost.scope:
                kept[job] &= cost.minimum([job]) <= network.headroom
    return network.within(kept)
