"""Choices of placements for the jobs of a scenario: by cost, by simulation, and with windows."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, product
from typing import NamedTuple

import numpy as np

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.enumeration import enumerate_placements
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.paths import place_on_nodes, route
from metronome_opt.allocation.perturbation import perturb_placements, search_placements
from metronome_opt.allocation.request import JobRequest, PlacedJob, job_requests
from metronome_opt.allocation.selection import lost, select_running
from metronome_opt.allocation.slots.evaluator import MIN_GAIN, is_better, lowest
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import PlanResult, SlotSearchOptions, search_plan
from metronome_opt.allocation.slots.simulator import (
    EVENTS_PER_S,
    PlanSimulator,
    Values,
    weight_rows,
)
from metronome_opt.allocation.start_options import nearest_placement
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.errors import InputError, error_context, pluralise
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.scenario.build import build_scenario, place_job
from metronome_opt.scenario.cluster import Paths
from metronome_opt.scenario.job_traffic import JobTraffic, read_traffic
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget

_MAX_SIMULATED = 300  # placements of an improvement by simulation
_MAX_REPATHED = 64  # paths that are compared with windows
_FIRST_SEED, _SEEDS = 400, 4  # of simulations that compare placements


class Spot(NamedTuple):
    """Where a job runs: the node of each task, and the spines of its flows."""

    nodes: tuple[str, ...]
    paths: Paths = ()


Places = Mapping[str, Spot]


@dataclass(frozen=True)
class PlacementSearch:
    """Placements for the jobs of a scenario."""

    scenario: Scenario
    # weights in the means that are minimised; None for the priorities, in one mean
    mean_weights: MeanWeights | None = None
    _values: dict[object, Values] = field(default_factory=dict, init=False)
    _jobs_at: dict[object, Job] = field(default_factory=dict, init=False)

    @cached_property
    def traffic(self) -> Mapping[str, JobTraffic]:
        """The traffic of the jobs by name, read once."""
        return {traffic.job.name: traffic for traffic in read_traffic(self.scenario)}

    @cached_property
    def jobs(self) -> Mapping[str, JobRequest]:
        """The jobs by name; their iterations have to fit the hyperperiod, if any."""
        return job_requests(self.scenario, self.traffic, self.mean_weights)

    @cached_property
    def unplaced(self) -> Sequence[JobRequest]:
        """The jobs without nodes, the most important ones first, larger ones before."""
        unplaced = [self.jobs[job.name] for job in self.scenario.jobs if job.nodes is None]
        return sorted(unplaced, key=lambda job: (-job.cost_weight, -job.gpus))

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
    def _running(self) -> Mapping[str, tuple[str, ...]]:
        """The jobs without nodes that run, with nodes that hold all of them together."""
        return select_running(self.unplaced, self.occupancy().resources)

    def _split_by_room(self) -> tuple[list[JobRequest], list[JobRequest]]:
        """Return the jobs without nodes that run if links allow it, and the other ones."""
        parts: tuple[list[JobRequest], list[JobRequest]] = [], []
        for job in self.unplaced:
            parts[job.name not in self._running].append(job)
        return parts

    def occupancy(self, *, gated: bool = False) -> Occupancy:
        """Return the cluster with the jobs that name their nodes, with costs as if gated or not."""
        empty = CandidatePlacements(self.scenario.cluster)
        occupancy = Occupancy.of_running(empty.copy(), [], gated=gated)
        for index, spec in enumerate(self.scenario.jobs):
            if spec.nodes is not None:
                room = occupancy.resources.tasks_by_node(spec.each)
                for node, count in Counter(spec.nodes).items():
                    if room[node] < count:
                        raise InputError(
                            f"jobs[{index}].nodes: {node} has room for {room[node]} of its "
                            f"{pluralise(count, 'task')} there; move a job elsewhere"
                        )
                job = self.jobs[spec.name]
                with error_context(f"jobs[{index}]"):
                    placement = place_on_nodes(occupancy, job, spec.nodes, spec.paths)
                occupancy.add(PlacedJob(job, placement))
            elif (most := int(empty.task_counts(spec.each).sum())) < spec.workers:
                raise InputError(
                    f"jobs[{index}].workers: {spec.workers}: more than the cluster has room for, "
                    f"{most}; use fewer workers"
                )
        return occupancy

    def find_nearest(self) -> Places:
        """Return the nearest placement of one job after the other."""
        occupancy, empty = self.occupancy(), CandidatePlacements(self.scenario.cluster)
        for job in chain(*self._split_by_room()):
            placement = nearest_placement(occupancy, job)
            if placement is not None:
                occupancy.add(PlacedJob(job, placement))
            elif empty.nearest(job) is None:
                self._refuse(job, empty)
        return places_of(occupancy)

    def _refuse(self, job: JobRequest, empty: CandidatePlacements) -> None:
        """Raise an `InputError` that says why a job has no placement in the empty cluster."""
        empty.spread(job)  # an error that names the link which is too narrow
        if limits := job.limits.describe(self.scenario.cluster):
            raise InputError(
                f"jobs: {job.name}: no placement for its {job.tasks:,} tasks together: {limits}; "
                "allow more, or use fewer workers"
            )
        index = [spec.name for spec in self.scenario.jobs].index(job.name)
        raise InputError(
            f"jobs[{index}].{self.traffic[job.name].long_field}: an iteration takes at "
            f"least {job.best_ms:,.0f} ms, more than the hyperperiod of "
            f"{self.scenario.hyperperiod_ms} ms; choose a longer hyperperiod or a shorter "
            "iteration"
        )

    def find_all(self, max_count: int, budget: Budget) -> list[Places]:
        """Return all placements of all jobs, of equal ones one; none if there are too many."""
        found = enumerate_placements(self.unplaced, self.occupancy(), max_count, budget)
        return [
            {name: Spot(there.nodes, there.paths) for name, there in places.items()}
            for places in found
        ]

    def find_packed(self) -> Places:
        """Return the nodes that hold the jobs that run together, as far as links allow them."""
        occupancy = self.occupancy()
        for job in self.unplaced:
            if job.name in self._running:
                resources = occupancy.resources
                placement = resources.try_nodes(resources.arrange(self._running[job.name]), job)
                if placement is not None:
                    occupancy.add(PlacedJob(job, route(occupancy, job, placement)))
        return places_of(occupancy)

    def find_cheapest(self, budget: Budget, seed: int, *, gated: bool = False) -> Places:
        """Return placements by large neighbourhood search, of low cost with or without windows."""
        running, waiting = self._split_by_room()
        occupancy = self.occupancy(gated=gated)
        occupancy, _ = search_placements(running, occupancy, budget, seed, pinned=self.pinned)
        for job in waiting:
            placement = nearest_placement(occupancy, job)
            if placement is not None:
                occupancy.add(PlacedJob(job, placement))
        return places_of(occupancy)

    def keep_fewest_waiting(self, choices: Sequence[Places]) -> list[Places]:
        """Return the distinct choices that omit the least weight, or else the fewest jobs."""
        waiting = [
            lost([job for job in self.unplaced if job.name not in places]) for places in choices
        ]
        least = min(waiting)
        fewest = [places for places, out in zip(choices, waiting, strict=True) if out == least]
        return [places for index, places in enumerate(fewest) if places not in fewest[:index]]

    def choose_ungated(self, choices: Sequence[Places]) -> Places:
        """Return the best of some choices with no job gated, the first of equal ones."""
        best = choices[0]
        for places in choices[1:]:
            if max(self.values(best)) <= 1 + MIN_GAIN:
                break
            if is_better(self.values(places), self.values(best)):
                best = places
        return best

    def improve(self, places: Places, budget: Budget, seed: int) -> Places:
        """Return placements where iterations are shorter in simulation, if any are found.

        Costs count two jobs on a link; more of them may be slower together.
        """
        draw = random.Random(seed)  # noqa: S311 (nothing is kept secret)
        jobs, occupancy = [*self.unplaced, *self.pinned], self.occupancy()
        for job in jobs:
            if job.name in occupancy.placed:
                occupancy.remove(job.name)
        for job in jobs:
            if job.name in places:
                nodes, paths = places[job.name]
                occupancy.add(PlacedJob(job, occupancy.resources.placement(nodes, job, paths)))
        best, values = occupancy, self.values(places)
        for _ in range(_MAX_SIMULATED):
            if budget.stopped or max(values) <= 1 + MIN_GAIN:
                break
            tried = perturb_placements(best, jobs, draw)
            if tried is None:
                continue
            found = self.values(places_of(tried))
            if is_better(found, values, MIN_GAIN):
                best, values = tried, lowest(found, values)
        return places_of(best)

    def improve_paths(self, places: Places, options: SlotSearchOptions, budget: Budget) -> Places:
        """Return placements with all flows of a job over another spine, or of two jobs.

        They are better with windows of few candidates; those given if no change is.
        """
        few, left = replace(options, max_events=1), _MAX_REPATHED
        best = places
        values = self._values_with_slots(best, few, budget)
        stated = {job.name for job in self.scenario.jobs if job.paths is not None}
        spine_of = {
            name: next(spine for its in spot.paths for spine in its)
            for name, spot in places.items()
            if any(spot.paths) and name not in stated
        }
        names, spines = list(spine_of), range(self.scenario.cluster.spines)
        single = ({name: spine} for name, spine in product(names, spines))
        swaps = ({one: spine_of[two], two: spine_of[one]} for one, two in combinations(names, 2))
        for change in chain(single, swaps):
            tried = dict(best)
            for job, spine in change.items():
                paths = tuple((spine,) * len(its) for its in best[job].paths)
                tried[job] = Spot(best[job].nodes, paths)
            if tried != best and left and not budget.stopped:
                left -= 1
                found = self._values_with_slots(tried, few, budget)
                if is_better(found, values, MIN_GAIN):
                    best, values = tried, found
                    spine_of |= change
        return best

    def _values_with_slots(
        self, places: Places, options: SlotSearchOptions, budget: Budget
    ) -> Values:
        """Return the mean slowdowns that are minimised, with a plan that is searched."""
        return self.plan_values(places, search_plan(self.instance_at(places), options, budget))

    def plan_values(self, places: Places, found: PlanResult) -> Values:
        """Return the mean slowdowns that are minimised, with a plan that was found."""
        slowdowns = np.nan_to_num([*found.slowdowns.values()], nan=math.inf)
        return self._means(self.instance_at(places), slowdowns)

    def values(self, places: Places) -> Values:
        """Return the mean slowdowns that are minimised, one after the other, with no job gated."""
        key = frozenset(places.items())
        if key not in self._values:
            instance = self.instance_at(places)
            simulator = PlanSimulator(instance, range(_FIRST_SEED, _FIRST_SEED + _SEEDS))
            slowdowns = simulator.slowdowns(Plan(instance.unshifted))
            self._values[key] = self._means(instance, slowdowns)
        return self._values[key]

    def seconds(self, places: Places) -> float:
        """Return about how long it takes to simulate jobs in a placement."""
        return PlanSimulator(self.instance_at(places), range(_SEEDS)).events / EVENTS_PER_S

    def _means(self, instance: Instance, slowdowns: Floats) -> Values:
        return tuple((weight_rows(instance, self.mean_weights) @ slowdowns).tolist())

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        capacities = self.scenario.cluster.capacities.items()
        return tuple(Link(name=name, capacity=mbps) for name, mbps in capacities if mbps)

    def instance_at(self, places: Places) -> Instance:
        """Return the instance of `problem_at`; each job is built once per placement."""
        scenario, taken, jobs = self.scenario, Counter[str](), []
        for index, spec in enumerate(scenario.jobs):
            if spec.name in places:
                nodes, paths = places[spec.name]
                rails = scenario.cluster.next_rails(nodes, spec.each.gpus, taken)
                key = index, nodes, paths, tuple(rails)
                if key not in self._jobs_at:
                    there = spec.model_copy(update={"nodes": nodes, "paths": paths or spec.paths})
                    traffic = self.traffic[spec.name]
                    self._jobs_at[key] = place_job(scenario, index, there, traffic, rails)[1]
                jobs.append(self._jobs_at[key])
        return Instance(
            name=scenario.name,
            slot_ms=scenario.slot_ms,
            links=self._links,
            jobs=tuple(jobs),
            traffic_classes=scenario.cluster.traffic_classes,
            network=scenario.cluster.network,
        )

    def problem_at(self, places: Places, comparison: str = "") -> PlacedInstance:
        """Return the instance of the placed jobs; the others wait."""
        nodes = {name: spot.nodes for name, spot in places.items()}
        paths = {name: spot.paths for name, spot in places.items() if spot.paths}
        problem = build_scenario(self.scenario.at(nodes, paths), self.traffic)
        if not self.unplaced:
            return problem
        waiting = tuple(job.name for job in self.scenario.jobs if job.name not in places)
        return replace(problem, places=nodes, waiting=waiting, comparison=comparison)


def places_of(occupancy: Occupancy) -> Places:
    """Return where the jobs are that are placed."""
    return {
        name: Spot(placed_job.placement.nodes, placed_job.placement.paths)
        for name, placed_job in occupancy.placed.items()
    }
