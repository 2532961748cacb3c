"""Places for the jobs of a scenario that do not say where they run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from metronome_opt.allocation.assign import assign, lost, rearranged
from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.meetings import Meetings
from metronome_opt.allocation.occupancy import Occupancy, Outlook, Placed
from metronome_opt.allocation.places import Room
from metronome_opt.engine.runner import Pattern
from metronome_opt.errors import InputError, counted
from metronome_opt.scenario.build import Problem, build_scenario
from metronome_opt.scenario.model import DescribedJob, Scenario, Source
from metronome_opt.scenario.network import Gpu
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import EVENTS_PER_S, SAFE, Player, plays
from metronome_opt.solvers.budget import Budget

_ALL_MS = 1.0  # for which jobs run: no job ends before another one
_NEAR = Outlook(exposure=0.0, rack=1e-4)  # no job comes later; racks decide between equals
_PRICED = 3.0  # times as long as the nearest places takes it to find those of lowest price once
_SEARCH = 0.5  # of the time, for places by prices; and of the rest, for those that are simulated
_SIMULATED = 300
_WORTH = 0.002  # gains below that are chance
_FIRST_SEED = 400  # of plays that compare placements

Places = Mapping[str, tuple[str, ...]]


def allocate(
    scenario: Scenario,
    budget: Budget,
    *,
    seed: int = 0,
) -> Problem:
    """Return the instance of a scenario, whose jobs without nodes are given some.

    Nodes that jobs name are kept. What `assign` finds is compared by simulation with the nearest
    placements, with no job gated, and the better of the two is taken: less weight waits, or else
    iterations are shorter. Some jobs are then moved, judged in the same way. A cluster with
    several interfaces to a node has no choice made for it; its jobs are spread by free GPUs.

    Parameters
    ----------
    scenario
        Jobs that find no room wait; they are no part of the instance.

    Raises
    ------
    InputError
        If nodes that are named do not have room, a job is larger than the cluster or its links
        allow, or as of `build_scenario`.
    """
    free = [job for job in scenario.jobs if job.nodes is None]
    if not free or any(len(node.rails) > 1 for node in scenario.cluster.nodes):
        return build_scenario(scenario)
    search = Search(scenario)
    began = budget.elapsed
    choices = [search.nearest()]
    if _has_time(budget, _PRICED * (budget.elapsed - began)):
        choices.append(search.assigned(budget.fraction(_SEARCH), seed))
    best = choices[-1]
    if _has_time(budget, 0.0) and _has_time(budget, len(choices) * search.seconds(best)):
        best = _best(search, choices)
        best = search.improved(best, budget.fraction(_SEARCH), seed)
    problem = build_scenario(scenario.at(best))
    waiting = tuple(job.name for job in scenario.jobs if job.name not in best)
    return replace(problem, places=best, waiting=waiting)


def reasons(scenario: Scenario, places: Places) -> Mapping[str, str]:
    """Return why each job that has no place waits, given the places of the others."""
    room = Room(scenario.cluster)
    for job in scenario.jobs:
        room.take(places.get(job.name, ()), job.each)
    found = {}
    for job in scenario.jobs:
        if job.name not in places:
            fit = int(room.tasks(job.each).sum())
            needs = f"{job.workers:,} tasks of {counted(job.each.gpus, 'GPU')}"
            room_for = f"{needs}, and there is room for {fit:,}"
            narrow = " on nodes whose links have less than 1 Mbit/s for each"
            found[job.name] = room_for + narrow * (fit >= job.workers)
    return found


def nearest(scenario: Scenario) -> Problem:
    """Return the instance of a scenario at the nearest placements, one job after the other."""
    return build_scenario(scenario.at(Search(scenario).nearest()))


@dataclass(frozen=True)
class Search:
    """Places for the jobs of a scenario, as allocation sees them."""

    scenario: Scenario

    @cached_property
    def _simulated(self) -> dict[object, float]:
        return {}

    @cached_property
    def _jobs(self) -> Mapping[str, Demand]:
        cluster = self.scenario.cluster
        sources = zip(self.scenario.jobs, self.scenario.sources(), strict=True)
        return {
            job.name: _demand(f"jobs[{index}]", job, source, cluster.gpu)
            for index, (job, source) in enumerate(sources)
        }

    def free(self) -> list[Demand]:
        """Return the jobs without nodes, the most important ones first, larger ones before."""
        free = [self._jobs[job.name] for job in self.scenario.jobs if job.nodes is None]
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
                demand = self._jobs[job.name]
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
        best, value = occupancy, self.slowdown(places)
        for _ in range(_SIMULATED):
            if budget.stopped or value <= 1 + _WORTH:
                break
            tried = rearranged(best, jobs, draw)
            if tried is None:
                continue
            found = self.slowdown(places_of(tried))
            if found < value - _WORTH:
                best, value = tried, found
        return places_of(best)

    def slowdown(self, places: Places, first_seed: int = _FIRST_SEED) -> float:
        """Return the weighted mean slowdown of jobs at their places, against their best rate."""
        key = frozenset(places.items()), first_seed
        if key not in self._simulated:
            self._simulated[key] = self._simulate(places, first_seed)
        return self._simulated[key]

    def seconds(self, places: Places) -> float:
        """Return about how long it takes to simulate jobs at their places."""
        instance = build_scenario(self.scenario.at(places)).instance
        return Player(instance, plays(_FIRST_SEED, 2)).events / EVENTS_PER_S

    def _simulate(self, places: Places, first_seed: int) -> float:
        instance = build_scenario(self.scenario.at(places)).instance
        player = Player(instance, plays(first_seed, 2))
        slowdowns = player.slowdowns(Plan(instance.unshifted))
        nic = self.scenario.cluster.nic
        own = [
            float(job.period * instance.slot_ms) / self._jobs[job.name].traffic(nic).alone_ms
            for job in instance.jobs
        ]
        return player.value(slowdowns * own)


def _demand(where: str, job: DescribedJob, source: Source, gpu: Gpu | None) -> Demand:
    known: dict[int, Pattern] = {}

    def traffic(rate: int) -> Pattern:
        if rate not in known:
            try:
                known[rate] = Pattern.of_iteration(job.iteration(rate, source, gpu))
            except InputError as error:
                raise InputError(f"{where}.{error}") from None
        return known[rate]

    return Demand(
        name=job.name,
        tasks=job.workers,
        each=job.each,
        traffic=traffic,
        allreduce=job.algorithm,
        weight=job.priority,
        length_ms=_ALL_MS,
    )


def places_of(occupancy: Occupancy) -> Places:
    """Return the node of each task of the jobs that are placed."""
    return {name: each.placement.nodes for name, each in occupancy.placed.items()}


def _has_time(budget: Budget, seconds: float) -> bool:
    """Return whether a budget has more than some seconds left."""
    remaining = budget.remaining
    return not budget.stopped and (remaining is None or remaining > seconds)


def _best(search: Search, choices: list[Places]) -> Places:
    """Return the best of some choices."""
    free = search.free()
    left = [lost([job for job in free if job.name not in places]) for places in choices]
    choices = [places for places, out in zip(choices, left, strict=True) if out == min(left)]
    return choices[0] if len(choices) == 1 else min(choices, key=search.slowdown)
