"""Placements of all jobs by an integer program over pools of placements.

`models/formulations/allocation.md` states it. A job takes one placement of its pool or waits. Costs
are those of `occupancy`, rounded down to integers, so that a bound of the program bounds the cost
of every choice from the pools that leaves as little waiting. CP-SAT or HiGHS solves it, beginning
with greedy insertion.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.perturbation import search_placements
from metronome_opt.allocation.placement_search import PlacementSearch, Places, places_of
from metronome_opt.allocation.pools import build_pool
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.allocation.selection import lost
from metronome_opt.allocation.slots.milp import Row, minimise_in_process
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.errors import SolverError
from metronome_opt.problem.result import PoolBound
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.imports import import_cp_model, run_cpsat
from metronome_opt.solvers.kernels.compiled_instance import Ints

MAX_OBJECTIVE = {"cpsat": 2**40, "milp": 2**30}
"""Largest objective by solver: HiGHS takes larger integers for equal within its tolerances."""

_TOLERANCE = 1e-6  # of a bound, before it is rounded up to an integer
_PACKED = "places are those by which the least weight waits, which no pool of the model has"
_NO_MODEL = "time was too short for the joint model: places are those of greedy insertion"


def choose_places(
    search: PlacementSearch,
    others: Sequence[Places],
    solver: str,
    budget: Budget,
    seed: int,
    threads: int,
) -> PlacedInstance:
    """Return the instance of a scenario at the placements of a joint model, which counts no slots.

    Other choices are taken if less weight waits by them.
    """
    occupancy, _, pool = place_by_model(
        search.unplaced,
        search.occupancy(),
        solver,
        budget,
        seed=seed,
        threads=threads,
        pinned=search.pinned,
    )
    places = places_of(occupancy)
    if search.keep_fewest_waiting([places, *others])[0] != places:
        return search.problem_at(search.keep_fewest_waiting(others)[0], _PACKED)
    if pool is None:
        return search.problem_at(places, _NO_MODEL)
    total = sum(job.cost_weight for job in search.jobs.values())
    bound = None if pool.bound is None else pool.bound / total
    pool = replace(pool, cost=pool.cost / total, bound=bound)
    return replace(search.problem_at(places, _describe(pool)), pool=pool)


def _describe(pool: PoolBound) -> str:
    proved = "no bound is known"
    if pool.bound is not None and pool.gap is not None:
        proved = f"at least {float(pool.bound):.6f}, gap {float(pool.gap):.1%}"
    return (
        f"joint model: the places cost {float(pool.cost):.6f}, the weighted mean loss by pairs of "
        f"jobs; over the {pool.placements:,} placements of its pool {proved}"
    )


def place_by_model(
    jobs: Sequence[JobRequest],
    occupancy: Occupancy,
    solver: str,
    budget: Budget,
    *,
    seed: int = 0,
    threads: int = 1,
    pinned: Sequence[JobRequest] = (),
) -> tuple[Occupancy, list[JobRequest], PoolBound | None]:
    """Place jobs in a cluster, as `search_placements` does.

    Parameters
    ----------
    jobs
        The jobs without a placement.
    occupancy
        The jobs that have one, and keep it.
    solver
        ``cpsat`` or ``milp``.
    seed, threads
        As of CP-SAT.
    pinned
        Jobs that keep their nodes, but whose flows may take other paths.

    Returns
    -------
    tuple
        What `search_placements` returns, by greedy insertion if nothing better is found; and the
        cost of the placements with its bound over the pools, None if time was too short for a
        model.

    Raises
    ------
    SolverError
        If the solver fails.
    """
    start, waiting = search_placements(jobs, occupancy, Budget(0))
    occupancy, jobs = occupancy.copy(), [*jobs, *pinned]
    for job in pinned:
        occupancy.remove(job.name)
    found = [start.placed.get(job.name) for job in jobs]
    pools = [
        build_pool(occupancy.resources, job, [] if placed is None else [placed.placement])
        for job, placed in zip(jobs, found, strict=True)
        if not budget.stopped
    ]
    if budget.stopped:
        return start, waiting, None
    model = JointModel(
        jobs, occupancy, pools, MAX_OBJECTIVE[solver], budget, allows_waiting=bool(waiting)
    )
    if not model.is_complete:
        return start, waiting, None
    chosen = [len(pool) if placed is None else 0 for placed, pool in zip(found, pools, strict=True)]
    if solver == "cpsat":
        solution, bound = _solve_by_cpsat(model, chosen, budget, seed, threads)
    else:
        solution, bound = _solve_by_milp(model, budget)
    if solution is not None:
        chosen = min(chosen, solution, key=model.value)
    best, left = occupancy.copy(), []
    for job, pool, at in zip(jobs, pools, chosen, strict=True):
        if at < len(pool):
            best.add(PlacedJob(job, pool[at]))
        else:
            left.append(job)
    return best, left, model.pool_bound(chosen, bound)


class JointModel:
    """Variables that are 0 or 1, their costs, and rows over them.

    Parameters
    ----------
    jobs, pools
        The jobs, and the placements that each job may take.
    occupancy
        The jobs that keep their places.
    max_objective
        The largest value of the objective.
    budget
        When it ends, the model is not complete.
    allows_waiting
        Whether a job may take no placement.

    Attributes
    ----------
    groups
        The variables of each job, one of which is 1: its placements in order, and the last one, if
        jobs may wait, for none.
    costs
        Costs of the variables, in units.
    unit
        The cost in `occupancy` of 1 in the model.
    is_complete
        Whether there was time to compute all costs.
    """

    def __init__(
        self,
        jobs: Sequence[JobRequest],
        occupancy: Occupancy,
        pools: Sequence[Sequence[Placement]],
        max_objective: int,
        budget: Budget,
        *,
        allows_waiting: bool,
    ) -> None:
        self._occupancy, self._pools = occupancy, pools
        own = [
            [occupancy.start(job, placement).cost for placement in pool]
            for job, pool in zip(jobs, pools, strict=True)
        ]
        pairs = {
            (i, j): self._pair_costs(jobs[i], pools[i], jobs[j], pools[j])
            for i, j in combinations(range(len(jobs)), 2)
            if not budget.stopped
        }
        # Waiting costs more than all placements; first weight times GPUs counts, then the number.
        shares = [lost([job])[0] * (len(jobs) + 1) + 1 for job in jobs] if allows_waiting else []
        scale = _scale([*map(np.array, own), *pairs.values()], max_objective // sum([1, *shares]))
        self.unit = 1 / Fraction(scale)
        whole = [[math.floor(cost * scale) for cost in costs] for costs in own]
        self._pairs = {
            pair: np.floor(costs * scale).astype(np.int64) for pair, costs in pairs.items()
        }
        above = 1 + sum(max(costs, default=0) for costs in whole)
        above += sum(int(costs.max(initial=0)) for costs in self._pairs.values())
        self.groups: list[range] = []
        self.costs: list[int] = []
        self.rows: list[Row] = []
        for index, costs in enumerate(whole):
            first = len(self.costs)
            self.costs += costs
            self.costs += [shares[index] * above] if allows_waiting else []
            self.groups.append(range(first, len(self.costs)))
        self._add_resource_rows(jobs)
        for (i, j), steps in self._pairs.items():
            if not budget.stopped:
                self._add_pair_rows(self.groups[i], self.groups[j], steps)
        self.is_complete = not budget.stopped

    def value(self, chosen: Sequence[int]) -> int:
        """Return the objective, given the index of each job's variable in its group."""
        total = sum(self.costs[group[at]] for group, at in zip(self.groups, chosen, strict=True))
        for (i, j), costs in self._pairs.items():
            if chosen[i] < len(costs) and chosen[j] < costs.shape[1]:
                total += int(costs[chosen[i], chosen[j]])
        return total

    def pool_bound(self, chosen: Sequence[int], bound: float) -> PoolBound:
        """Return the cost of the placements of a choice, given a lower bound of the objective."""
        choices = zip(self.groups, self._pools, chosen, strict=True)
        waiting = sum(self.costs[group[at]] for group, pool, at in choices if at == len(pool))
        value = self.value(chosen)
        proved = min(value, math.ceil(bound - _TOLERANCE)) - waiting
        return PoolBound(
            cost=(value - waiting) * self.unit,
            bound=proved * self.unit if proved > 0 or value == waiting else None,
            placements=sum(map(len, self._pools)),
        )

    def indices(self, ones: set[int]) -> list[int]:
        """Return the index of each job's variable in its group, given the variables that are 1."""
        return [next(at for at, n in enumerate(group) if n in ones) for group in self.groups]

    def _pair_costs(
        self,
        one: JobRequest,
        here: Sequence[Placement],
        other: JobRequest,
        there: Sequence[Placement],
    ) -> Floats:
        """Return what two jobs cost each other at all their placements, shape (one's, other's)."""
        mine, theirs = np.zeros((2, len(here), len(there)))
        ours, its = _links(here), _links(there)
        for link in ours.keys() & its.keys():
            for (flows, place), rows in ours[link].items():
                for (its_flows, its_place), columns in its[link].items():
                    slower = self._occupancy.pair_losses.on_link(
                        (one.traffic(place), flows, one.cost_weight),
                        (other.traffic(its_place), its_flows, other.cost_weight),
                        self._occupancy.resources.cluster.capacities[link],
                    )
                    at = np.ix_(rows, columns)
                    mine[at] = np.maximum(mine[at], slower[0])
                    theirs[at] = np.maximum(theirs[at], slower[1])
        mine *= 1 + np.array([[one.loss(placement.transport)] for placement in here])
        theirs *= 1 + np.array([other.loss(placement.transport) for placement in there])
        together = min(one.expected_ms, other.expected_ms)
        return np.asarray(together * (one.cost_weight * mine + other.cost_weight * theirs))

    def _add_resource_rows(self, jobs: Sequence[JobRequest]) -> None:
        """State that tasks on a node do not need more than it has free."""
        resources = self._occupancy.resources
        terms: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for job, pool, group in zip(jobs, self._pools, self.groups, strict=True):
            for number, placement in zip(group, pool, strict=False):
                for node, count in Counter(placement.nodes).items():
                    for kind, need in enumerate(job.task_resources.vector):
                        terms[node, kind].append((count * need, number))
        for index, host in enumerate(resources.cluster.nodes):
            for kind, free in enumerate(resources.free[index].tolist()):
                if terms[host.name, kind]:
                    self.rows.append(Row(tuple(terms[host.name, kind]), free))

    def _add_pair_rows(self, one: range, other: range, costs: Ints) -> None:
        """State what a pair of jobs costs, in steps: each cost, less the next lower one."""
        before = 0
        for cost in np.unique(costs[costs > 0]).tolist():
            step = len(self.costs)
            self.costs.append(cost - before)
            partners: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for number, reached in zip(one, costs >= cost, strict=False):
                partners[tuple(np.flatnonzero(reached).tolist())].append(number)
            for theirs, numbers in partners.items():
                if theirs:  # both at these placements cost the step
                    both = [*numbers, *(other[at] for at in theirs)]
                    self.rows.append(Row((*((1, n) for n in both), (-1, step)), 1))
            before = cost


def _scale(costs: Sequence[Floats], largest: int) -> float:
    """Return the power of 2 times which the largest sum of costs is an integer in range."""
    highest = sum(float(table.max(initial=0.0)) for table in costs)
    return 2.0 ** math.floor(math.log2(max(largest, 1) / max(highest, 1e-9)) - 1)


def _links(pool: Sequence[Placement]) -> Mapping[str, Mapping[tuple[int, Transport], list[int]]]:
    """Return for each link the placements that cross it, by flows there and traffic."""
    uses: dict[str, dict[tuple[int, Transport], list[int]]] = defaultdict(dict)
    for index, placement in enumerate(pool):
        for link, flows in placement.links.items():
            uses[link].setdefault((flows, placement.transport), []).append(index)
    return uses


def _solve_by_cpsat(
    model: JointModel, start: Sequence[int], budget: Budget, seed: int, threads: int
) -> tuple[list[int] | None, float]:
    """Return what CP-SAT chooses, None if it finds nothing, and its lower bound."""
    cp = import_cp_model()
    stated = cp.CpModel()
    taken = [stated.new_bool_var("") for _ in model.costs]
    for group, at in zip(model.groups, start, strict=True):
        stated.add_exactly_one(taken[number] for number in group)
        for number in group:
            stated.add_hint(taken[number], number == group[at])
    for row in model.rows:
        if budget.stopped:
            return None, 0.0
        factors, numbers = zip(*row.terms, strict=True)
        total = cp.LinearExpr.weighted_sum([taken[number] for number in numbers], factors)
        stated.add(total <= row.most)
    stated.minimize(cp.LinearExpr.weighted_sum(taken, model.costs))
    parameters = {"num_workers": threads, "random_seed": seed}
    solver, status = run_cpsat(stated, budget, parameters)
    if status not in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
        raise SolverError(f"CP-SAT ends with status {status} on the joint model of places")
    if status == "UNKNOWN":
        return None, 0.0
    chosen = {number for number, variable in enumerate(taken) if solver.value(variable)}
    return model.indices(chosen), float(solver.best_objective_bound)


def _solve_by_milp(model: JointModel, budget: Budget) -> tuple[list[int] | None, float]:
    """Return what HiGHS chooses, None if it finds nothing, and its lower bound."""
    signs = (1, -1)  # exactly one placement of each job
    one_each = [
        Row(tuple((sign, n) for n in group), sign) for group in model.groups for sign in signs
    ]
    _, chosen, bound = minimise_in_process(budget, model.costs, [*one_each, *model.rows])
    return (None if chosen is None else model.indices(set(chosen))), bound
