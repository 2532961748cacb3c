"""Placements of all jobs by an integer program over pools of placements.

`models/formulations/allocation.md` states it. A job takes one placement of its pool or waits. Costs
are those of `occupancy`, rounded down to integers, so that a bound of the program bounds the cost
of every choice from the pools that leaves as little waiting. CP-SAT or HiGHS solves it, beginning
with greedy insertion.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.paths import list_paths
from metronome_opt.allocation.perturbation import search_placements
from metronome_opt.allocation.placement_search import PlacementSearch, Places, places_of
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.allocation.selection import lost
from metronome_opt.allocation.slots.integer_program import (
    MAX_OBJECTIVE,
    Minimise,
    Row,
    minimise_by_cpsat,
    minimise_in_process,
)
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.result import PoolBound
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.kernels.compiled_instance import Ints

_SHAPES = 12  # candidates of a job that are rotated
_MAX_POOL = 96  # placements of a job
_SOLVERS: Mapping[str, Minimise] = {"cpsat": minimise_by_cpsat, "milp": minimise_in_process}
_PACKED = "more jobs run on these nodes than the joint model found nodes for"
_NO_MODEL = "no time for the joint model: one job after the other got the nodes of least cost"


def choose_places(
    search: PlacementSearch,
    others: Sequence[Places],
    solver: str,
    budget: Budget,
    seed: int,
    threads: int,
) -> PlacedInstance:
    """Return the instance of a scenario at the placements of a joint model without windows.

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
    proved = "no bound is known"
    if pool.bound is not None and pool.gap is not None:
        proved = f"at least {float(pool.bound):.6f}, gap {float(pool.gap):.1%}"
    told = (
        f"joint model: the placements cost {float(pool.cost):.6f}, a mean loss added up over pairs "
        f"of jobs; among the {pool.placements:,} that it knows {proved}"
    )
    return replace(search.problem_at(places, told), pool=pool)


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

    `pinned` jobs keep their nodes, but their flows may take other paths. Returns what
    `search_placements` does, by greedy insertion if nothing better is found; and the cost of the
    placements with its bound over the pools, None if time was too short for a model.
    """
    start, waiting = search_placements(jobs, occupancy, Budget(0))
    occupancy, jobs = occupancy.copy(), [*jobs, *pinned]
    for job in pinned:
        occupancy.remove(job.name)
    found = [start.placed.get(job.name) for job in jobs]
    pools = [
        _build_pool(occupancy.resources, job, [] if placed is None else [placed.placement])
        for job, placed in zip(jobs, found, strict=True)
        if not budget.stopped
    ]
    if budget.stopped:
        return start, waiting, None
    minimise, allows_waiting = _SOLVERS[solver], bool(waiting)
    most = MAX_OBJECTIVE[minimise]
    model = _JointModel(jobs, occupancy, pools, most, budget, allows_waiting=allows_waiting)
    if not model.is_complete:
        return start, waiting, None
    chosen = [len(pool) if placed is None else 0 for placed, pool in zip(found, pools, strict=True)]
    groups = zip(model.groups, chosen, strict=True)
    hint = [int(n == at) for group, at in groups for n in range(len(group))]
    values, bound = minimise(
        budget, model.costs, model.rows, hint=hint, num_workers=threads, random_seed=seed
    )
    if values is not None:
        chosen = min(chosen, model.indices(values), key=model.value)
    best, left = occupancy.copy(), []
    for job, pool, at in zip(jobs, pools, chosen, strict=True):
        if at < len(pool):
            best.add(PlacedJob(job, pool[at]))
        else:
            left.append(job)
    return best, left, model.pool_bound(chosen, bound)


def _build_pool(
    resources: CandidatePlacements, job: JobRequest, first: Sequence[Placement] = ()
) -> list[Placement]:
    """Return placements of a job on free nodes: its candidates, moved to other racks and nodes.

    They are moved by rotation, as all permutations of equal nodes would be too many. Those of
    `first` come first.
    """
    pool = {(placement.nodes, placement.paths): placement for placement in first}
    for shape in resources.candidates(job, _SHAPES):
        turned = _rotations(resources, shape, job) if job.nodes is None else [shape.nodes]
        for nodes in dict.fromkeys(turned):
            if len(pool) >= _MAX_POOL:
                break
            if (placement := resources.try_nodes(nodes, job)) is not None:
                for routed in _with_paths(resources, job, placement):
                    pool.setdefault((routed.nodes, routed.paths), routed)
    return list(pool.values())


def _with_paths(
    resources: CandidatePlacements, job: JobRequest, placement: Placement
) -> Iterator[Placement]:
    """Yield a placement with the paths that its flows may take."""
    if not placement.paths or resources.cluster.routing != "chosen":
        yield placement
        return
    for paths in list_paths(placement.paths, resources.cluster.spines):
        routed = resources.by_paths(placement.nodes, job, paths)
        if job.fits(routed):
            yield routed


def _rotations(
    resources: CandidatePlacements, placement: Placement, job: JobRequest
) -> Iterator[tuple[str, ...]]:
    """Yield the nodes of a placement with racks, and nodes within racks, rotated."""
    free = resources.tasks_by_node(job.task_resources)
    racks: dict[str | None, list[str]] = {}
    for node in resources.cluster.nodes:
        racks.setdefault(node.rack, []).append(node.name)
    nodes = list(racks.values())
    counts = Counter(placement.nodes)
    parts = [[counts[node] for node in there if node in counts] for there in nodes]
    yield resources.arrange(placement.nodes)
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
                yield resources.arrange(chosen)


class _JointModel:
    """Variables that are 0 or 1, their costs, and rows over them.

    Each job has a group of variables, one of which is 1: its placements in order, and, if jobs may
    wait, a last one for none. When the budget ends, the model is not complete.
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
        tables = [*map(np.array, own), *pairs.values()]
        highest = sum(float(table.max(initial=0.0)) for table in tables)
        most = max(max_objective // sum([1, *shares]), 1)
        scale = 2.0 ** math.floor(math.log2(most / max(highest, 1e-9)) - 1)
        self.unit = 1 / Fraction(scale)  # the cost in `occupancy` of 1 in the model
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
            self.rows.append(Row(tuple((1, n) for n in self.groups[-1]), 1, is_equation=True))
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

    def pool_bound(self, chosen: Sequence[int], bound: int) -> PoolBound:
        """Return the cost of the placements of a choice, given a bound of the objective."""
        choices = zip(self.groups, self._pools, chosen, strict=True)
        waiting = sum(self.costs[group[at]] for group, pool, at in choices if at == len(pool))
        value = self.value(chosen)
        proved = min(value, bound) - waiting
        return PoolBound(
            cost=(value - waiting) * self.unit,
            bound=proved * self.unit if proved > 0 or value == waiting else None,
            placements=sum(map(len, self._pools)),
        )

    def indices(self, values: Sequence[int]) -> list[int]:
        """Return the index of the variable that is 1 in the group of each job."""
        return [next(at for at, n in enumerate(group) if values[n]) for group in self.groups]

    def _pair_costs(
        self,
        one: JobRequest,
        here: Sequence[Placement],
        other: JobRequest,
        there: Sequence[Placement],
    ) -> Floats:
        """Return what two jobs cost each other at all placements, shape (`here`, `there`)."""
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


def _links(pool: Sequence[Placement]) -> Mapping[str, Mapping[tuple[int, Transport], list[int]]]:
    """Return for each link the placements that cross it, by flows there and traffic."""
    uses: dict[str, dict[tuple[int, Transport], list[int]]] = defaultdict(dict)
    for index, placement in enumerate(pool):
        for link, flows in placement.links.items():
            uses[link].setdefault((flows, placement.transport), []).append(index)
    return uses
