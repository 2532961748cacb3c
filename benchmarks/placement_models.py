"""Places of several jobs as a model for CP-SAT or HiGHS: one placement for each job, from a pool.

`models/formulations/allocation.md` states it. The pool has the candidates of a job in the cluster
as it is, each also moved to other racks and nodes with as much room: by rotation, since all
permutations of nodes that are alike would be too many.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from metronome_opt.allocation.assign import assign
from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.occupancy import Occupancy, Placed
from metronome_opt.allocation.places import Room
from metronome_opt.allocation.selection import lost
from metronome_opt.compatible.models import Row, minimise
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.network import Placement
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.imports import import_cp_model, run_cpsat

_SHAPES = 12  # candidates of a job that are moved about
_POOL = 96  # placements of a job
_LARGEST = 2**30  # of an objective: larger integers are too fine for the tolerances of HiGHS


def assign_by_model(
    jobs: Sequence[Demand],
    occupancy: Occupancy,
    budget: Budget,
    solver: Literal["cpsat", "milp"] = "cpsat",
) -> tuple[Occupancy, list[Demand], float]:
    """Place jobs in a cluster, as `assign` does.

    Returns
    -------
    tuple
        As of `assign`, those of greedy insertion if nothing better is found; and a bound: no choice
        from the pool that leaves out as little costs less.
    """
    best, left = assign(jobs, occupancy, Budget(0))
    pools = []
    for job in jobs:
        start = [best.placed[job.name].placement] if job.name in best.placed else []
        pools.append(_pool(occupancy.room, job, start))
    model = _Model(jobs, occupancy, pools, budget)
    chosen, bound = (_by_cpsat if solver == "cpsat" else _by_milp)(model, budget)
    found, waiting = occupancy.copy(), []
    for job, group, pool in zip(jobs, model.groups, pools, strict=True):
        placement = next((each for n, each in zip(group, pool, strict=False) if n in chosen), None)
        if placement is None:
            waiting.append(job)
        else:
            found.add(Placed(job, placement))
    if (lost(waiting), price(found)) <= (lost(left), price(best)):
        best, left = found, waiting
    groups = {job.name: group for job, group in zip(jobs, model.groups, strict=True)}
    bound -= sum(model.costs[groups[job.name][-1]] for job in left)
    return best, left, max(0.0, bound / model.scale)


def price(occupancy: Occupancy) -> float:
    """Return the cost of all placed jobs, one after the other."""
    others, total = occupancy.copy(), 0.0
    for name, each in occupancy.placed.items():
        others.remove(name)
        total += others.start(each.job, each.placement).cost
    return total


class _Model:
    """Choices, which are numbered, their costs, and rows over them; variables are 0 or 1.

    Attributes
    ----------
    groups
        The choices of each job, one of which it takes; the last one is to be left out.
    costs
        In units of ``1 / scale``, rounded down, so that a bound is one.
    """

    def __init__(
        self,
        jobs: Sequence[Demand],
        occupancy: Occupancy,
        pools: Sequence[Sequence[Placement]],
        budget: Budget,
    ) -> None:
        self._occupancy = occupancy
        own = [
            [occupancy.start(job, placement).cost for placement in pool]
            for job, pool in zip(jobs, pools, strict=True)
        ]
        prices = {
            (i, j): self._prices(jobs[i], pools[i], jobs[j], pools[j])
            for i, j in combinations(range(len(jobs)), 2)
            if not budget.stopped
        }
        highest = sum(max(each, default=0.0) for each in own)
        highest += sum(float(each.max(initial=0.0)) for each in prices.values())
        # To leave out a job costs more than all places; first counts worth, then the number.
        shares = [job.worth * (len(jobs) + 1) + 1 for job in jobs]
        self.scale = _LARGEST / (sum(shares) * max(highest, 1e-9) * 1.001)
        self.groups: list[range] = []
        self.costs: list[int] = []
        self.rows: list[Row] = []
        for costs, share in zip(own, shares, strict=True):
            first = len(self.costs)
            self.costs += [int(cost * self.scale) for cost in costs]
            self.costs.append(share * (_LARGEST // sum(shares)))
            self.groups.append(range(first, len(self.costs)))
        self._state_room(jobs, pools)
        for (i, j), each in prices.items():
            if not budget.stopped:  # or else nobody solves it
                self._state_prices(self.groups[i], self.groups[j], each)

    def _prices(
        self, one: Demand, here: Sequence[Placement], other: Demand, there: Sequence[Placement]
    ) -> Floats:
        """Return what two jobs cost each other at all their placements, shape (one's, other's)."""
        mine, theirs = np.zeros((2, len(here), len(there)))
        ours, its = _uses(here), _uses(there)
        for link in ours.keys() & its.keys():
            for (flows, place), rows in ours[link].items():
                for (its_flows, its_place), columns in its[link].items():
                    slower = self._occupancy.meetings.slowdowns(
                        (one.traffic(place), flows, one.worth),
                        (other.traffic(its_place), its_flows, other.worth),
                        self._occupancy.room.cluster.capacities[link],
                    )
                    at = np.ix_(rows, columns)
                    mine[at] = np.maximum(mine[at], slower[0])
                    theirs[at] = np.maximum(theirs[at], slower[1])
        together = min(one.expected_ms, other.expected_ms)
        return np.asarray(together * (one.worth * mine + other.worth * theirs))

    def _state_room(self, jobs: Sequence[Demand], pools: Sequence[Sequence[Placement]]) -> None:
        """State that tasks on a node do not need more than it has free."""
        room = self._occupancy.room
        terms: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for job, pool, group in zip(jobs, pools, self.groups, strict=True):
            for number, placement in zip(group, pool, strict=False):
                for node, count in Counter(placement.nodes).items():
                    for kind, need in enumerate(job.each.vector):
                        terms[node, kind].append((count * need, number))
        for index, host in enumerate(room.cluster.nodes):
            for kind, free in enumerate(room.free[index].tolist()):
                if terms[host.name, kind]:
                    self.rows.append(Row(tuple(terms[host.name, kind]), free))

    def _state_prices(self, one: range, other: range, prices: Floats) -> None:
        """State what a pair of jobs costs, in steps: each price, less the next lower one."""
        whole = (prices * self.scale).astype(np.int64)
        before = 0
        for price in np.unique(whole[whole > 0]).tolist():
            step = len(self.costs)
            self.costs.append(price - before)
            alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for number, theirs in zip(one, whole >= price, strict=False):
                alike[tuple(np.flatnonzero(theirs).tolist())].append(number)
            for theirs, numbers in alike.items():
                if theirs:  # both in such places cost the step
                    both = [*numbers, *(other.start + n for n in theirs)]
                    self.rows.append(Row((*((1, n) for n in both), (-1, step)), 1))
            before = price


def _uses(pool: Sequence[Placement]) -> dict[str, dict[tuple[int, Transport], list[int]]]:
    """Return for each link the placements that cross it, by flows there and what they mean."""
    uses: dict[str, dict[tuple[int, Transport], list[int]]] = defaultdict(dict)
    for index, placement in enumerate(pool):
        for link, flows in placement.links.items():
            uses[link].setdefault((flows, placement.transport), []).append(index)
    return uses


def _pool(room: Room, job: Demand, start: Sequence[Placement]) -> list[Placement]:
    choices = dict.fromkeys(placement.nodes for placement in start)
    for shape in room.candidates(job, _SHAPES):
        if len(choices) < _POOL:
            choices |= dict.fromkeys(_rotated(room, shape, job))
    return [room.placement(nodes, job) for nodes in list(choices)[:_POOL]]


def _rotated(room: Room, placement: Placement, job: Demand) -> Iterator[tuple[str, ...]]:
    """Yield the nodes of a placement with racks, and nodes within racks, rotated."""
    free = room.tasks_of(job.each)
    racks: dict[str | None, list[str]] = {}
    for node in room.cluster.nodes:
        racks.setdefault(node.rack, []).append(node.name)
    nodes = list(racks.values())
    counts = Counter(placement.nodes)
    parts = [[counts[node] for node in there if node in counts] for there in nodes]
    yield tuple(sorted(placement.nodes))
    for turn in range(len(parts)):
        for step in range(max(map(len, nodes))):
            chosen: list[str] = []
            for rack, part in enumerate(parts):
                there = nodes[(rack + turn) % len(parts)]
                able = [node for node in there if free[node] >= max(part, default=1)]
                if len(able) >= len(part):
                    for place, count in enumerate(part, step):
                        chosen += [able[place % len(able)]] * count
            if len(chosen) == job.tasks:
                yield tuple(sorted(chosen))


def _by_cpsat(model: _Model, budget: Budget) -> tuple[set[int], float]:
    """Return the choices that CP-SAT takes, and a lower bound."""
    cp = import_cp_model()
    stated = cp.CpModel()
    taken = [stated.new_bool_var("") for _ in model.costs]
    for group in model.groups:
        stated.add_exactly_one(taken[number] for number in group)
    for row in model.rows:
        if budget.stopped:
            return set(), 0.0
        factors, numbers = zip(*row.terms, strict=True)
        total = cp.LinearExpr.weighted_sum([taken[number] for number in numbers], factors)
        stated.add(total <= row.most)
    stated.minimize(cp.LinearExpr.weighted_sum(taken, model.costs))
    solver, status = run_cpsat(stated, budget, {"num_workers": os.cpu_count() or 1})
    is_solved = status in ("OPTIMAL", "FEASIBLE")
    chosen = {n for n, each in enumerate(taken) if is_solved and solver.value(each)}
    return chosen, float(solver.best_objective_bound)


def _by_milp(model: _Model, budget: Budget) -> tuple[set[int], float]:
    """Return the choices that HiGHS takes, and a lower bound."""
    signs = (1, -1)  # exactly one placement of each job
    one_each = [
        Row(tuple((sign, n) for n in group), sign) for group in model.groups for sign in signs
    ]
    _, chosen, bound = minimise(budget, model.costs, [*one_each, *model.rows])
    return set(chosen or ()), bound
