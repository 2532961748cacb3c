"""Places for the jobs of a scenario that do not say where they run."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from metronome_opt.allocation.assign import assign, lost, rearranged
from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.meetings import Meetings
from metronome_opt.allocation.occupancy import Occupancy, Outlook, Placed
from metronome_opt.allocation.places import Room
from metronome_opt.engine.runner import Pattern
from metronome_opt.errors import InputError, counted
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.objectives import Levels
from metronome_opt.scenario.build import Problem, build_scenario
from metronome_opt.scenario.model import Scenario, Source
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import (
    EVENTS_PER_S,
    SAFE,
    WORTH,
    Player,
    Values,
    is_better,
    levels_of,
    lowest,
    plays,
)
from metronome_opt.solvers.budget import Budget

_ALL_MS = 1.0  # for which jobs run: no job ends before another one
_NEAR = Outlook(exposure=0.0, rack=1e-4)  # no job comes later; racks decide between equals
_PRICED = 3.0  # times as long as the nearest places takes it to find those of lowest price once
_SEARCH = 0.5  # of the time, for places by prices; and of the rest, for those that are simulated
_SIMULATED = 300
_FIRST_SEED = 400  # of plays that compare placements
_UNSEEN = 500  # the same, that no search has seen
_OUTWEIGHS = 10  # a mean the next one: 1 % in one is as much as 10 % in the other

Places = Mapping[str, tuple[str, ...]]


def allocate(
    scenario: Scenario,
    budget: Budget,
    *,
    seed: int = 0,
    levels: Levels | None = None,
) -> Problem:
    """Return the instance of a scenario, whose jobs without nodes are given some.

    Nodes that jobs name are kept. What `assign` finds is compared by simulation with the nearest
    placements, with no job gated, and the better of the two is taken: less weight waits, or else
    iterations are shorter. Some jobs are then moved, judged in the same way, and all is compared
    with the nearest placements once more, in plays that no search has seen.

    Parameters
    ----------
    scenario
        Jobs that find no room wait; they are no part of the instance.
    levels
        Weights of jobs in means of slowdowns that are minimised, one after the other; None for
        their priorities, in one mean.

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
    compared = _has_time(budget, 0.0)
    if compared:
        compared = _has_time(budget, 2 * len(choices) * search.seconds(choices[-1]))
    best = _best(search, choices, compared=compared)
    comparison = "jobs without nodes are at the nearest places" if best == near else ""
    if compared and not budget.stopped:
        best = search.improved(best, budget.fraction(_SEARCH), seed)
        best = _best(search, [near, best], compared=not budget.stopped, first_seed=_UNSEEN)
        if best.keys() == near.keys():
            here, there = (search.slowdown(each, _UNSEEN) for each in (best, near))
            comparison = (
                f"slowdown with no job gated, in simulations that no search has seen: {here:.4f} "
                f"at these places, {there:.4f} at the nearest"
            )
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
    def _simulated(self) -> dict[object, tuple[Player, Floats]]:
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

    def occupancy(self) -> Occupancy:
        """Return the cluster with the jobs that name their nodes."""
        empty = Room(self.scenario.cluster)
        occupancy = Occupancy(empty.copy(), [], Meetings(SAFE), _NEAR)
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
                raise InputError(
                    f"jobs: {job.name}: nowhere do links allow each of its tasks the "
                    f"{job.min_rate:,} Mbit/s without which an iteration takes longer than the "
                    f"hyperperiod of {self.scenario.hyperperiod_ms} ms; choose a longer one"
                )
        return places_of(occupancy)

    def assigned(self, budget: Budget, seed: int) -> Places:
        """Return placements by large neighbourhood search."""
        occupancy, _ = assign(self.free(), self.occupancy(), budget, seed)
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

    def slowdown(self, places: Places, first_seed: int = _FIRST_SEED) -> float:
        """Return the mean slowdown of jobs, weighted by priority, against their best rate."""
        player, slowdowns = self._played(places, first_seed)
        (weights,) = levels_of(player.instance)
        return float(np.average(slowdowns, weights=[float(each) for each in weights.values()]))

    def values(self, places: Places, first_seed: int = _FIRST_SEED) -> Values:
        """Return the mean slowdowns that are minimised, one after the other."""
        player, slowdowns = self._played(places, first_seed)
        return player.values(slowdowns)

    def _played(self, places: Places, first_seed: int) -> tuple[Player, Floats]:
        key = frozenset(places.items()), first_seed
        if key not in self._simulated:
            self._simulated[key] = self._simulate(places, first_seed)
        return self._simulated[key]

    def seconds(self, places: Places) -> float:
        """Return about how long it takes to simulate jobs at their places."""
        instance = build_scenario(self.scenario.at(places)).instance
        return Player(instance, plays(_FIRST_SEED, 2)).events / EVENTS_PER_S

    def _simulate(self, places: Places, first_seed: int) -> tuple[Player, Floats]:
        instance = build_scenario(self.scenario.at(places)).instance
        player = Player(instance, plays(first_seed, 2), levels=self.levels)
        slowdowns = player.slowdowns(Plan(instance.unshifted))
        nic = self.scenario.cluster.nic
        own = [
            float(job.period * instance.slot_ms) / self.jobs[job.name].traffic(nic).alone_ms
            for job in instance.jobs
        ]
        return player, slowdowns * own


def _demand(scenario: Scenario, index: int, source: Source, weight: int) -> Demand:
    job, gpu = scenario.jobs[index], scenario.cluster.gpu
    known: dict[int, Pattern] = {}

    def traffic(rate: int) -> Pattern:
        if rate not in known:
            try:
                known[rate] = Pattern.of_iteration(job.iteration(rate, source, gpu))
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
        min_rate=min_rate,
    )


def places_of(occupancy: Occupancy) -> Places:
    """Return the node of each task of the jobs that are placed."""
    return {name: each.placement.nodes for name, each in occupancy.placed.items()}


def _has_time(budget: Budget, seconds: float) -> bool:
    """Return whether a budget has more than some seconds left."""
    remaining = budget.remaining
    return not budget.stopped and (remaining is None or remaining > seconds)


def _best(
    search: Search, choices: list[Places], *, compared: bool, first_seed: int = _FIRST_SEED
) -> Places:
    """Return the best of some choices; the last one if these are not to be compared."""
    free = search.free()
    left = [lost([job for job in free if job.name not in places]) for places in choices]
    choices = [places for places, out in zip(choices, left, strict=True) if out == min(left)]
    if len(choices) == 1 or not compared:
        return choices[-1]
    one, other = choices
    better = is_better(search.values(other, first_seed), search.values(one, first_seed))
    return other if better else one
