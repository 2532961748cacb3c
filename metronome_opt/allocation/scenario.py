"""Places for the jobs of a scenario that do not say where they run."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from metronome_opt.allocation.assign import assign, lost, rearranged
from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.meetings import Meetings
from metronome_opt.allocation.occupancy import Occupancy, Outlook, Placed
from metronome_opt.allocation.places import Room
from metronome_opt.engine.runner import Pattern
from metronome_opt.errors import InputError, counted
from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.objectives import Levels
from metronome_opt.scenario.build import Problem, build_scenario
from metronome_opt.scenario.model import Scenario, Source
from metronome_opt.scenario.network import ANY_COST
from metronome_opt.scenario.traffic import Traffic
from metronome_opt.slowdown.minimise import Terms, minimise
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import (
    EVENTS_PER_S,
    WORTH,
    Player,
    Values,
    is_better,
    levels_of,
    lowest,
)
from metronome_opt.solvers.budget import Budget

_ALL_MS = 1.0  # for which jobs run: no job ends before another one
_NEAR = Outlook(exposure=0.0, rack=1e-4)  # no job comes later; racks decide between equals
_PRICED = 3.0  # times as long as the nearest places takes it to find those of lowest price once
_SEARCH = 0.5  # of the time, for places by prices
_IMPROVING = 0.4  # of the rest, for those that are simulated
_GATING = 0.2  # of the rest, for places of jobs in slots, and for slots to compare places by
_SIMULATED = 300
_FIRST_SEED, _SEEDS = 400, 4  # of simulations that compare placements
_OUTWEIGHS = 10  # a mean the next one: 1 % in one is as much as 10 % in the other

Places = Mapping[str, tuple[str, ...]]


def allocate(
    scenario: Scenario,
    budget: Budget,
    *,
    seed: int = 0,
    levels: Levels | None = None,
    stretch_limit: Fraction | None = None,
) -> Problem:
    """Return the instance of a scenario, whose jobs without nodes are given some.

    Nodes that jobs name are kept. What `assign` finds is compared by simulation with the nearest
    placements, with no job gated, and the better of the two is taken: less weight waits, or else
    iterations are shorter. Some jobs are then moved, judged in the same way. At last slots are
    chosen at these places, at the nearest ones, and at those whose prices are low with slots, and
    the best is taken in simulations that no search has seen.

    Parameters
    ----------
    scenario
        Jobs that find no room wait; they are no part of the instance.
    levels
        Weights of jobs in means of slowdowns that are minimised, one after the other; None for
        their priorities, in one mean.
    stretch_limit
        The share of its period by which a gated job may be stretched; None for any.

    Raises
    ------
    InputError
        If nodes that are named do not have room, a job is larger than the cluster or its links
        allow, or as of `build_scenario`.
    """
    if scenario.is_placed:
        return build_scenario(scenario)
    search = Search(scenario, levels)
    began = budget.elapsed
    near = search.nearest()
    choices = [near]
    if _has_time(budget, _PRICED * (budget.elapsed - began)):
        choices.append(search.assigned(budget.fraction(_SEARCH), seed))
    choices = search.with_most(choices)
    best, comparison = choices[-1], ""
    if _has_time(budget, 0.0) and _has_time(budget, 2 * len(choices) * search.seconds(best)):
        best = search.better(choices)
        best = search.improved(best, budget.fraction(_IMPROVING), seed)
        # Where slots fit, no job has to be preferred: priorities do, whatever the means.
        kept = Search(scenario).assigned(budget.fraction(_GATING), seed, gated=True)
        classes = scenario.cluster.traffic_classes
        terms = Terms(stretch_limit=stretch_limit, levels=levels, classes=classes)
        best, comparison = search.gated([near, best, kept], terms, budget.fraction(_GATING))
    elif best == near:
        comparison = "jobs without nodes are at the nearest places"
    problem = build_scenario(scenario.at(best))
    waiting = tuple(job.name for job in scenario.jobs if job.name not in best)
    return replace(problem, places=best, waiting=waiting, comparison=comparison)


def reasons(scenario: Scenario, places: Places) -> Mapping[str, str]:
    """Return why each job that has no place waits, given the places of the others."""
    room, search = Room(scenario.cluster), Search(scenario)
    for job in scenario.jobs:
        room.take(places.get(job.name, ()), job.each)
    found = {}
    for job in scenario.jobs:
        if job.name not in places:
            fit = int(room.tasks(job.each).sum())
            needs = f"{job.workers:,} tasks of {counted(job.each.gpus, 'GPU')}"
            room_for = f"{needs}, and there is room for {fit:,}"
            rate = search.jobs[job.name].min_rate
            narrow = f" on nodes whose links have less than {rate:,} Mbit/s for each"
            if job.max_network_cost < ANY_COST:
                narrow = f" on nodes between which costs are above {job.max_network_cost}"
            found[job.name] = room_for + narrow * (fit >= job.workers)
    return found


def nearest(scenario: Scenario) -> Problem:
    """Return the instance of a scenario at the nearest placements, one job after the other."""
    return allocate(scenario, Budget(0.0))


@dataclass(frozen=True)
class Search:
    """Places for the jobs of a scenario, as allocation sees them."""

    scenario: Scenario
    levels: Levels | None = None

    @cached_property
    def _known(self) -> dict[object, Values]:
        return {}

    @cached_property
    def jobs(self) -> Mapping[str, Demand]:
        """The jobs by name; links have to allow what the hyperperiod needs, if there is one."""
        weights = self._weights()
        return {
            job.name: _demand(self.scenario, index, source, weights[job.name])
            for index, (job, source) in enumerate(
                zip(self.scenario.jobs, self.scenario.sources(), strict=True)
            )
        }

    @cached_property
    def _best_periods(self) -> Mapping[str, int]:
        """Periods at the best rate, in slots; places may allow less, and so make them longer."""
        scenario, nic = self.scenario, self.scenario.cluster.nic
        periods = {}
        for job, source in zip(scenario.jobs, scenario.sources(), strict=True):
            rate = source.fastest if isinstance(source, Traffic) else nic
            exact = job.iteration(rate, source, scenario.cluster.gpu)
            rounded = job.round(exact, scenario.slot_ms, scenario.hyperperiod_slots)
            periods[job.name] = rounded.period
        return periods

    def _weights(self) -> Mapping[str, int]:
        """Return weights of jobs in one sum, in which a mean outweighs the next ones."""
        first, *others = self.levels or ({job.name: job.priority for job in self.scenario.jobs},)
        weights = dict(first)
        for level in others:
            unit = _OUTWEIGHS * sum(level.values()) + 1
            weights = {name: unit * weight + level[name] for name, weight in weights.items()}
        return weights

    def free(self) -> list[Demand]:
        """Return the jobs without nodes, the most important ones first, larger ones before."""
        free = [self.jobs[job.name] for job in self.scenario.jobs if job.nodes is None]
        return sorted(free, key=lambda job: (-job.worth, -job.tasks * job.each.gpus))

    def occupancy(self, *, gated: bool = False) -> Occupancy:
        """Return the cluster with the jobs that name their nodes, priced with or without slots."""
        empty = Room(self.scenario.cluster)
        occupancy = Occupancy(
            empty.copy(), [], Meetings(self.scenario.cluster.network, gated=gated), _NEAR
        )
        for index, job in enumerate(self.scenario.jobs):
            if job.nodes is not None:
                room = occupancy.room.tasks(job.each).tolist()
                fits = dict(zip(self.scenario.cluster.hosts, room, strict=True))
                for node, count in Counter(job.nodes).items():
                    if fits[node] < count:
                        raise InputError(
                            f"jobs[{index}].nodes: {node} has room for {fits[node]} of its "
                            f"{counted(count, 'task')} there; move a job elsewhere"
                        )
                demand = self.jobs[job.name]
                occupancy.add(Placed(demand, occupancy.room.placement(job.nodes, demand)))
            elif empty.tasks(job.each).sum() < job.workers:
                raise InputError(
                    f"jobs[{index}].workers: {job.workers}: more than the cluster has room for, "
                    f"{int(empty.tasks(job.each).sum())}; use fewer workers"
                )
        return occupancy

    def nearest(self) -> Places:
        """Return the nearest placement of one job after the other."""
        occupancy, empty = self.occupancy(), Room(self.scenario.cluster)
        for job in self.free():
            placement = occupancy.room.nearest(job)
            if placement is not None:
                occupancy.add(Placed(job, placement))
            elif empty.nearest(job) is None:
                empty.spread(job)  # an error that names the link which is too narrow
                if job.max_network_cost < ANY_COST:
                    raise InputError(
                        f"jobs: {job.name}: max_network_cost: {job.max_network_cost}: no place for "
                        "all of its tasks has costs as low; allow higher ones, or use fewer workers"
                    )
                raise InputError(
                    f"jobs: {job.name}: nowhere do links allow each of its tasks the "
                    f"{job.min_rate:,} Mbit/s without which an iteration takes longer than the "
                    f"hyperperiod of {self.scenario.hyperperiod_ms} ms; choose a longer one"
                )
        return places_of(occupancy)

    def assigned(self, budget: Budget, seed: int, *, gated: bool = False) -> Places:
        """Return placements by large neighbourhood search, of low price with or without slots."""
        occupancy, _ = assign(self.free(), self.occupancy(gated=gated), budget, seed)
        return places_of(occupancy)

    def improved(self, places: Places, budget: Budget, seed: int) -> Places:
        """Return places where iterations are shorter in simulation, if any are found.

        Prices see two jobs on a link; more of them may be slower together.
        """
        draw = random.Random(seed)  # noqa: S311 (nothing is kept secret)
        jobs, occupancy = self.free(), self.occupancy()
        for job in jobs:
            if job.name in places:
                placement = occupancy.room.placement(places[job.name], job)
                occupancy.add(Placed(job, placement))
        best, values = occupancy, self.values(places)
        for _ in range(_SIMULATED):
            if budget.stopped or max(values) <= 1 + WORTH:
                break
            tried = rearranged(best, jobs, draw)
            if tried is None:
                continue
            found = self.values(places_of(tried))
            if is_better(found, values, WORTH):
                best, values = tried, lowest(found, values)
        return places_of(best)

    def with_most(self, choices: Sequence[Places]) -> list[Places]:
        """Return the distinct choices that leave out the least weight, or else the fewest jobs."""
        free = self.free()
        left = [lost([job for job in free if job.name not in places]) for places in choices]
        most = [places for places, out in zip(choices, left, strict=True) if out == min(left)]
        return [places for index, places in enumerate(most) if places not in most[:index]]

    def better(self, choices: Sequence[Places]) -> Places:
        """Return the best of some choices with no job gated, the first of equal ones."""
        best = choices[0]
        for places in choices[1:]:
            if is_better(self.values(places), self.values(best)):
                best = places
        return best

    def gated(self, choices: Sequence[Places], terms: Terms, budget: Budget) -> tuple[Places, str]:
        """Return the best of some choices with slots, the first of equal ones, and what it brings.

        Both are stated by simulations that no search has seen.
        """
        choices, found, free = self.with_most(choices), list[MeanSlowdowns](), math.nan
        for index, places in enumerate(choices):
            share = budget.fraction(1 / (len(choices) - index))
            means, unshifted = self.with_slots(places, terms, share)
            found.append(means)
            free = unshifted.slowdown if index == 0 else free
        best = 0
        for index in range(1, len(choices)):
            if is_better(found[index].values, found[best].values):
                best = index
        if choices[best].keys() != choices[0].keys():
            return choices[best], ""
        return choices[best], (
            "slowdown in simulations that no search has seen, network "
            f"{self.scenario.cluster.network}: {found[best].slowdown:.4f} with "
            f"slots at these places, {found[0].slowdown:.4f} at the nearest, {free:.4f} "
            "there with no job gated"
        )

    def with_slots(
        self, places: Places, terms: Terms, budget: Budget
    ) -> tuple[MeanSlowdowns, MeanSlowdowns]:
        """Return what jobs reach at their places with slots, and with no job gated."""
        instance = self._instance(places)
        outcome = minimise(instance, terms, budget)
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
        return Player(self._instance(places), range(_SEEDS)).events / EVENTS_PER_S

    def _instance(self, places: Places) -> Instance:
        return build_scenario(self.scenario.at(places)).instance

    def _simulate(self, places: Places, first_seed: int) -> MeanSlowdowns:
        """Let jobs run at their places, with none gated."""
        instance = self._instance(places)
        player = Player(instance, range(first_seed, first_seed + _SEEDS))
        return self._means(instance, player.slowdowns(Plan(instance.unshifted)))

    def _means(self, instance: Instance, slowdowns: Floats) -> MeanSlowdowns:
        own = [job.period / self._best_periods[job.name] for job in instance.jobs]
        means = (
            np.average(slowdowns * own, weights=[float(each) for each in level.values()])
            for level in (*levels_of(instance, self.levels), *levels_of(instance))
        )
        *values, by_priority = map(float, means)
        return MeanSlowdowns(tuple(values), by_priority)


class MeanSlowdowns(NamedTuple):
    """Means of slowdowns against the best rate: those that are minimised, and that by priority."""

    values: Values
    slowdown: float


def _demand(scenario: Scenario, index: int, source: Source, weight: int) -> Demand:
    job, gpu = scenario.jobs[index], scenario.cluster.gpu
    known: dict[int, Pattern] = {}

    def traffic(rate: int) -> Pattern:
        if rate not in known:
            try:
                exact = job.iteration(rate, source, gpu)
                known[rate] = Pattern.of_iteration(exact, job.jitter_of(source))
            except InputError as error:
                raise InputError(f"jobs[{index}].{error}") from None
        return known[rate]

    def fits(rate: int) -> bool:
        exact = job.iteration(rate, source, gpu)
        with suppress(InputError):
            return bool(exact.to_slots(scenario.slot_ms, scenario.hyperperiod_slots))
        return False

    traffic(scenario.cluster.nic)  # an error, if there is one
    rates = range(1, 1 if scenario.hyperperiod_ms is None else scenario.cluster.nic)
    min_rate = 1 + bisect_left(rates, x=True, key=fits)
    return Demand(
        name=job.name,
        tasks=job.workers,
        each=job.each,
        traffic=traffic,
        allreduce=job.algorithm,
        weight=weight,
        length_ms=_ALL_MS,
        max_network_cost=job.max_network_cost,
        min_rate=min_rate,
    )


def places_of(occupancy: Occupancy) -> Places:
    """Return the node of each task of the jobs that are placed."""
    return {name: each.placement.nodes for name, each in occupancy.placed.items()}


def _has_time(budget: Budget, seconds: float) -> bool:
    """Return whether a budget has more than some seconds left."""
    remaining = budget.remaining
    return not budget.stopped and (remaining is None or remaining > seconds)
