"""Choices of places for the jobs of a scenario, by prices and by simulation."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, combinations, product
from typing import NamedTuple

import numpy as np

from metronome_opt.allocation.candidates import FreeResources
from metronome_opt.allocation.occupancy import Occupancy, PlacedJob
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.perturbation import perturb_placements, search_placements
from metronome_opt.allocation.request import JobRequest
from metronome_opt.allocation.selection import lost, select_running
from metronome_opt.allocation.slots.evaluator import MIN_GAIN, is_better, lowest
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions, search_plan
from metronome_opt.allocation.slots.simulator import (
    EVENTS_PER_S,
    PlanSimulator,
    Values,
    mean_weights,
)
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.errors import InputError, error_context, pluralise
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.cluster import ANY_COST, Paths
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_traffic import JobTraffic, read_traffic
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget

_ALL_MS = 1.0  # for which jobs run: no job ends before another one
_SIMULATED = 300
_REPATHED = 64  # paths that are compared with slots
_FIRST_SEED, _SEEDS = 400, 4  # of simulations that compare placements
_OUTWEIGHS = 10  # a mean the next one: 1 % in one is as much as 10 % in the other


class Spot(NamedTuple):
    """Where a job runs: the node of each task, and the spines of its flows."""

    nodes: tuple[str, ...]
    paths: Paths = ()


Places = Mapping[str, Spot]


@dataclass(frozen=True)
class PlacementSearch:
    """Places for the jobs of a scenario, as allocation sees them."""

    scenario: Scenario
    levels: MeanWeights | None = None

    @cached_property
    def _known(self) -> dict[object, Values]:
        return {}

    @cached_property
    def traffic(self) -> Mapping[str, JobTraffic]:
        """The traffic of the jobs by name, read once."""
        return {traffic.job.name: traffic for traffic in read_traffic(self.scenario)}

    @cached_property
    def jobs(self) -> Mapping[str, JobRequest]:
        """The jobs by name; iterations at their places have to fit the hyperperiod, if any."""
        weights = self._weights()
        return {
            name: _demand(self.scenario, traffic, weights[name])
            for name, traffic in self.traffic.items()
        }

    def _weights(self) -> Mapping[str, int]:
        """Return weights of jobs in one sum, in which a mean outweighs the next ones."""
        first, *others = self.levels or ({job.name: job.priority for job in self.scenario.jobs},)
        weights = dict(first)
        for level in others:
            unit = _OUTWEIGHS * sum(level.values()) + 1
            weights = {name: unit * weight + level[name] for name, weight in weights.items()}
        return weights

    @cached_property
    def free(self) -> Sequence[JobRequest]:
        """The jobs without nodes, the most important ones first, larger ones before."""
        free = [self.jobs[job.name] for job in self.scenario.jobs if job.nodes is None]
        return sorted(free, key=lambda job: (-job.cost_weight, -job.gpus))

    @cached_property
    def pinned(self) -> Sequence[JobRequest]:
        """The jobs that name nodes between which paths are to be chosen."""
        named = [job for job in self.scenario.jobs if job.nodes is not None and job.paths is None]
        return [self.jobs[job.name] for job in named] if self.has_paths else []

    @property
    def has_paths(self) -> bool:
        """Whether paths of flows can be chosen."""
        return self.scenario.cluster.spines > 1 and self.scenario.cluster.routing == "chosen"

    @cached_property
    def fitting(self) -> Mapping[str, tuple[str, ...]]:
        """The jobs without nodes that run, with nodes that hold all of them together."""
        return select_running(self.free, self.occupancy().room)

    @property
    def selected(self) -> tuple[list[JobRequest], list[JobRequest]]:
        """The jobs without nodes that run if links allow it, and those that wait for room."""
        parts: tuple[list[JobRequest], list[JobRequest]] = [], []
        for job in self.free:
            parts[job.name not in self.fitting].append(job)
        return parts

    def occupancy(self, *, gated: bool = False) -> Occupancy:
        """Return the cluster with the jobs that name their nodes, priced with or without slots."""
        empty = FreeResources(self.scenario.cluster)
        meetings = PairLosses(self.scenario.cluster.network, gated=gated)
        occupancy = Occupancy(empty.copy(), [], meetings)
        for index, job in enumerate(self.scenario.jobs):
            if job.nodes is not None:
                room = occupancy.room.tasks(job.each).tolist()
                fits = dict(zip(self.scenario.cluster.nodes_by_name, room, strict=True))
                for node, count in Counter(job.nodes).items():
                    if fits[node] < count:
                        raise InputError(
                            f"jobs[{index}].nodes: {node} has room for {fits[node]} of its "
                            f"{pluralise(count, 'task')} there; move a job elsewhere"
                        )
                demand = self.jobs[job.name]
                with error_context(f"jobs[{index}]"):
                    placement = occupancy.at_nodes(demand, job.nodes, job.paths)
                occupancy.add(PlacedJob(demand, placement))
            elif empty.tasks(job.each).sum() < job.workers:
                raise InputError(
                    f"jobs[{index}].workers: {job.workers}: more than the cluster has room for, "
                    f"{int(empty.tasks(job.each).sum())}; use fewer workers"
                )
        return occupancy

    def nearest(self) -> Places:
        """Return the nearest placement of one job after the other."""
        occupancy, empty = self.occupancy(), FreeResources(self.scenario.cluster)
        for job in chain(*self.selected):
            placement = occupancy.nearest(job)
            if placement is not None:
                occupancy.add(PlacedJob(job, placement))
            elif empty.nearest(job) is None:
                empty.spread(job)  # an error that names the link which is too narrow
                if job.max_network_cost < ANY_COST:
                    raise InputError(
                        f"jobs: {job.name}: max_network_cost: {job.max_network_cost}: no place for "
                        "all of its tasks has costs as low; allow higher ones, or use fewer workers"
                    )
                index = [each.name for each in self.scenario.jobs].index(job.name)
                raise InputError(
                    f"jobs[{index}].{self.traffic[job.name].long_field}: an iteration takes at "
                    f"least {job.best_ms:,.0f} ms, more than the hyperperiod of "
                    f"{self.scenario.hyperperiod_ms} ms; choose a longer hyperperiod or a shorter "
                    "iteration"
                )
        return places_of(occupancy)

    def assigned(self, budget: Budget, seed: int, *, gated: bool = False) -> Places:
        """Return placements by large neighbourhood search, of low price with or without slots."""
        running, waiting = self.selected
        occupancy = self.occupancy(gated=gated)
        occupancy, _ = search_placements(running, occupancy, budget, seed, pinned=self.pinned)
        for job in waiting:
            placement = occupancy.nearest(job)
            if placement is not None:
                occupancy.add(PlacedJob(job, placement))
        return places_of(occupancy)

    def problem(self, places: Places, comparison: str = "") -> PlacedInstance:
        """Return the instance of the jobs at their places; the others wait."""
        problem = build_scenario(self._scenario_at(places), self.traffic)
        if not self.free:
            return problem
        waiting = tuple(job.name for job in self.scenario.jobs if job.name not in places)
        nodes = {name: spot.nodes for name, spot in places.items()}
        return replace(problem, places=nodes, waiting=waiting, comparison=comparison)

    def _scenario_at(self, places: Places) -> Scenario:
        nodes = {name: spot.nodes for name, spot in places.items()}
        paths = {name: spot.paths for name, spot in places.items() if spot.paths}
        return self.scenario.at(nodes, paths)

    def packed(self) -> Places:
        """Return the nodes that hold the jobs that run together, as far as links allow them."""
        occupancy = self.occupancy()
        for job in self.free:
            if job.name in self.fitting:
                placement = occupancy.room.allowed(self.fitting[job.name], job)
                if placement is not None:
                    occupancy.add(PlacedJob(job, occupancy.routed(job, placement)))
        return places_of(occupancy)

    def improved(self, places: Places, budget: Budget, seed: int) -> Places:
        """Return places where iterations are shorter in simulation, if any are found.

        Prices see two jobs on a link; more of them may be slower together.
        """
        draw = random.Random(seed)  # noqa: S311 (nothing is kept secret)
        jobs, occupancy = [*self.free, *self.pinned], self.occupancy()
        for job in jobs:
            if job.name in occupancy.placed:
                occupancy.remove(job.name)
        for job in jobs:
            if job.name in places:
                placement = occupancy.room.placement(
                    places[job.name].nodes, job, places[job.name].paths
                )
                occupancy.add(PlacedJob(job, placement))
        best, values = occupancy, self.values(places)
        for _ in range(_SIMULATED):
            if budget.stopped or max(values) <= 1 + MIN_GAIN:
                break
            tried = perturb_placements(best, jobs, draw)
            if tried is None:
                continue
            found = self.values(places_of(tried))
            if is_better(found, values, MIN_GAIN):
                best, values = tried, lowest(found, values)
        return places_of(best)

    def repathed(
        self, places: Places, options: SlotSearchOptions, budget: Budget
    ) -> Iterator[Places]:
        """Yield places where all flows of one job take another spine, or two jobs change theirs.

        Each of them is better with slots of few candidates than the one before.
        """
        few, left = replace(options, max_events=1), _REPATHED
        best, values = places, self.with_slots(places, few, budget)[0].values
        stated = {job.name for job in self.scenario.jobs if job.paths is not None}
        at = {
            name: next(spine for its in spot.paths for spine in its)
            for name, spot in places.items()
            if any(spot.paths) and name not in stated
        }
        names, spines = list(at), range(self.scenario.cluster.spines)
        alone = ({name: spine} for name, spine in product(names, spines))
        in_turn = ({one: at[two], two: at[one]} for one, two in combinations(names, 2))
        for change in chain(alone, in_turn):
            tried = dict(best)
            for job, spine in change.items():
                paths = tuple((spine,) * len(its) for its in best[job].paths)
                tried[job] = Spot(best[job].nodes, paths)
            if tried != best and left and not budget.stopped:
                left -= 1
                found = self.with_slots(tried, few, budget)[0].values
                if is_better(found, values, MIN_GAIN):
                    best, values = tried, found
                    at |= change
                    yield best

    def with_most(self, choices: Sequence[Places]) -> list[Places]:
        """Return the distinct choices that leave out the least weight, or else the fewest jobs."""
        left = [lost([job for job in self.free if job.name not in places]) for places in choices]
        most = [places for places, out in zip(choices, left, strict=True) if out == min(left)]
        return [places for index, places in enumerate(most) if places not in most[:index]]

    def better(self, choices: Sequence[Places]) -> Places:
        """Return the best of some choices with no job gated, the first of equal ones."""
        best = choices[0]
        for places in choices[1:]:
            if is_better(self.values(places), self.values(best)):
                best = places
        return best

    def gated(
        self, choices: Sequence[Places], options: SlotSearchOptions, budget: Budget
    ) -> tuple[Places, str]:
        """Return the best of some choices with slots, the first of equal ones, and what it brings.

        Both are stated by simulations that no search has seen.
        """
        choices, found, free = self.with_most(choices), list[MeanSlowdowns](), math.nan
        for index, places in enumerate(choices):
            share = budget.fraction(1 / (len(choices) - index))
            means, unshifted = self.with_slots(places, options, share)
            found.append(means)
            free = unshifted.slowdown if index == 0 else free
        best = 0
        for index in range(1, len(choices)):
            if is_better(found[index].values, found[best].values):
                best = index
        if choices[best].keys() != choices[0].keys():
            return choices[best], ""
        if best == 0:
            return choices[0], "the nearest places are the best that were found"
        return choices[best], (
            f"at the nearest places the slowdown would be {found[0].slowdown:.4f}, {free:.4f} with "
            f"no job gated (network {self.scenario.cluster.network})"
        )

    def with_slots(
        self, places: Places, options: SlotSearchOptions, budget: Budget
    ) -> tuple[MeanSlowdowns, MeanSlowdowns]:
        """Return what jobs reach at their places with slots, and with no job gated."""
        instance = self._instance(places)
        outcome = search_plan(instance, options, budget)
        slowdowns, unshifted = (
            self._means(instance, np.array([*each.values()]))
            for each in (outcome.slowdowns, outcome.unshifted)
        )
        return slowdowns, unshifted

    def slowdown(self, places: Places, first_seed: int = _FIRST_SEED) -> float:
        """Return the mean slowdown of jobs, weighted by priority, with no job gated."""
        return self._simulate(places, first_seed).slowdown

    def values(self, places: Places) -> Values:
        """Return the mean slowdowns that are minimised, one after the other, with no job gated."""
        key = frozenset(places.items())
        if key not in self._known:
            self._known[key] = self._simulate(places, _FIRST_SEED).values
        return self._known[key]

    def seconds(self, places: Places) -> float:
        """Return about how long it takes to simulate jobs at their places."""
        return PlanSimulator(self._instance(places), range(_SEEDS)).events / EVENTS_PER_S

    def _instance(self, places: Places) -> Instance:
        return build_scenario(self._scenario_at(places), self.traffic).instance

    def _simulate(self, places: Places, first_seed: int) -> MeanSlowdowns:
        """Let jobs run at their places, with none gated."""
        instance = self._instance(places)
        player = PlanSimulator(instance, range(first_seed, first_seed + _SEEDS))
        return self._means(instance, player.slowdowns(Plan(instance.unshifted)))

    def _means(self, instance: Instance, slowdowns: Floats) -> MeanSlowdowns:
        means = (
            float(rows @ slowdowns)
            for level in (self.levels, None)
            for rows in mean_weights(instance, level)
        )
        *values, by_priority = means
        return MeanSlowdowns(tuple(values), by_priority)


class MeanSlowdowns(NamedTuple):
    """Means of slowdowns: those that are minimised, and that by priority."""

    values: Values
    slowdown: float


def _demand(scenario: Scenario, traffic: JobTraffic, weight: int) -> JobRequest:
    job, hyperperiod = traffic.job, scenario.hyperperiod_slots

    @cache
    def pattern(transport: Transport) -> Iteration:
        return traffic.isolated(transport)

    @cache
    def is_short(transport: Transport) -> bool:
        with suppress(InputError):
            # In slots, bursts that are stated are as fast as stated, whatever links carry.
            if traffic.isolated(transport).duration > (hyperperiod or 0) * scenario.slot_ms:
                return False
            return bool(traffic.period(transport, scenario.slot_ms, hyperperiod))
        return False

    return JobRequest(
        name=job.name,
        tasks=job.workers,
        each=job.each,
        traffic=pattern,
        best_ms=pattern(traffic.best).isolated_ms if traffic.best else math.inf,
        algorithm=traffic.algorithm,
        weight=weight,
        length_ms=_ALL_MS,
        nodes=job.nodes,
        max_network_cost=job.max_network_cost,
        is_short=None if hyperperiod is None else is_short,
    )


def places_of(occupancy: Occupancy) -> Places:
    """Return where the jobs are that are placed."""
    return {
        name: Spot(each.placement.nodes, each.placement.paths)
        for name, each in occupancy.placed.items()
    }
