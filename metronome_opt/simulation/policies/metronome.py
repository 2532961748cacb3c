"""Metronome: the decisions of `allocation`, as the controller asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, Literal

import numpy as np

from metronome_opt.allocation.admission import QueuedJob, decide_admissions
from metronome_opt.allocation.migrations import choose_migrations
from metronome_opt.allocation.occupancy import CANDIDATES, Occupancy
from metronome_opt.allocation.rollout import Arrivals
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import (
    DECISION_EVENTS,
    RACE_PERIODS,
    SlotSearchOptions,
    find_plan,
)
from metronome_opt.allocation.slots.simulator import burst_windows
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.instance import Instance, Sharing
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation.policies.baselines import Policy
from metronome_opt.simulation.policies.common_periods import best_shift, group_instance
from metronome_opt.simulation.state import (
    SLOT_MS,
    JobInstruction,
    RunningJob,
    SimState,
    TrainingJob,
)
from metronome_opt.solvers.budget import Budget

_FIRST_SEED = 300_000  # that no search uses


class Metronome(Policy):
    """Lets `allocation` decide where a job runs, when it starts, and its windows.

    Parameters
    ----------
    places
        Whether placements are chosen; otherwise jobs are on the nearest nodes.
    waits
        Whether a job may wait although there are free resources.
    slots
        Whether jobs are gated.
    network
        How links are assumed to be shared; as they are if omitted.
    lengths
        Whether it is known how long jobs will run; ``rough``: to a factor of two.
    """

    def __init__(
        self,
        seed: int,
        *,
        places: bool = True,
        waits: bool = True,
        slots: bool = True,
        network: Sharing | None = None,
        lengths: Literal["known", "rough", "unknown"] = "known",
    ) -> None:
        super().__init__(seed)
        self._places, self._slots, self._network = places, slots, network
        self._lengths, self._waits, self._arrivals = lengths, waits, Arrivals()
        self._options = SlotSearchOptions(max_events=DECISION_EVENTS)
        self._searched: dict[object, Plan] = {}
        self._windows: dict[int, tuple[int, float]] = {}  # of gated jobs: period in slots, start
        self._classes: dict[int, int] = {}

    def choose_starts(
        self, waiting: Sequence[TrainingJob], state: SimState
    ) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the jobs that start now."""
        asked = []
        for job in waiting:
            request = self.request(job, job.length_ms)
            arrival_ms = 1000 * job.spec.arrival_s
            self._arrivals.note(request, arrival_ms)
            asked.append(QueuedJob(request, state.now - arrival_ms))
        decisions = decide_admissions(
            asked, self.occupancy(state), self._arrivals, self._seed, may_wait=self._waits
        )
        for job in waiting:
            placement = decisions[job.name].placement
            if placement is not None:
                yield job, placement

    def choose_migrations(self, state: SimState, cost_ms: float) -> Mapping[str, Placement]:
        """Return the migrations of `allocation`; jobs whose nodes the scenario gives stay."""
        free, gated = set[str](), list[RunningJob]()
        for index, running in state.running.items():
            if index in self._windows:
                gated.append(running)
            else:
                free |= running.placement.links.keys()
        kept = {
            placed.job.name: self._windows[placed.job.index][0] * SLOT_MS / placed.job.best_ms - 1
            for placed in gated
            if free.isdisjoint(placed.placement.links)
        }
        jobs = (running.job for running in state.running.values())
        costs = {job.name: cost_ms for job in jobs if job.spec.nodes is None}
        moves = choose_migrations(self.occupancy(state), costs, kept)
        return {move.job: move.after for move in moves}

    def occupancy(self, state: SimState, **terms: Any) -> Occupancy:
        """Return the jobs that run, with losses of pairs on links that they share."""
        terms["classes"] = state.room.cluster.traffic_classes
        terms["candidates"] = CANDIDATES if self._places else 1
        return super().occupancy(state, network=self._network or state.sharing, **terms)

    def request(self, job: TrainingJob, left_ms: float | None) -> TrainingJob:
        """Return a job as it is known, with its remaining time."""
        if self._lengths == "unknown":
            left_ms = None
        elif self._lengths == "rough" and left_ms is not None:
            left_ms *= 2 ** Random(f"{self._seed} {job.name}").uniform(-1, 1)  # noqa: S311 (no secret)
        return replace(job, length_ms=left_ms)

    def plan(
        self, state: SimState, arrived: Sequence[int], departed: Sequence[RunningJob]
    ) -> list[JobInstruction]:
        """Gate or classify the jobs around those that arrived and departed, where they gain."""
        if not self._slots:
            return []
        gone = [placed.job.index for placed in departed if placed.job.index not in state.running]
        new = [index for index in arrived if not state.engine.is_gated(index)]
        for index in [*gone, *new]:
            self._windows.pop(index, None)
            self._classes.pop(index, None)
        return [
            instruction
            for members in state.changed_groups(arrived, departed)
            for instruction in self._decide(_Group(state, members, self._windows, self._classes))
        ]

    def _decide(self, group: _Group) -> Iterator[JobInstruction]:
        """Yield instructions to the jobs of a group whose windows or class change."""
        plan = self._choose_plan(group)
        for index in group.members:
            if group.is_unchanged(plan, index):
                continue
            self._windows.pop(index, None)
            self._classes[index] = traffic_class = plan.classes.get(str(index), 0)
            windows, start = None, 0.0
            if (period := plan.periods.get(str(index))) is not None:
                start = group.start_ms(plan, index)
                self._windows[index] = period, start
                phases = group.state.running[index].phases
                windows = burst_windows(float(period * SLOT_MS), phases, SLOT_MS)
            yield JobInstruction(index, windows, start, traffic_class)

    def _choose_plan(self, group: _Group) -> Plan:
        """Return the present plan of a group, unless another gains more than the change costs."""
        options = replace(
            self._options,
            network=self._network or group.state.sharing,
            classes=group.state.room.cluster.traffic_classes,
            exact_iterations=group.iterations,
        )
        keys = (pattern.key for pattern in group.iterations.values())
        key = group.instance.jobs, group.instance.links, *keys
        if key not in self._searched:
            self._searched[key] = find_plan(group.instance, options, Budget())
        found, present = group.anchor(self._searched[key]), group.present
        ungated = Plan(group.instance.unshifted)
        if found == present:
            return present
        evaluator = options.evaluator(
            group.instance, _FIRST_SEED, RACE_PERIODS, Budget(), group.change_costs
        )
        if not evaluator.is_within_loss(present):
            present = ungated
        return evaluator.best(present, [plan for plan in (found, ungated) if plan != present])


@dataclass(frozen=True)
class _Group:
    """Jobs that may delay one another, and what they do now. Slot 0 of a plan is now."""

    state: SimState
    members: Sequence[int]
    # period in slots of gated jobs, and a moment at which a period began, in ms, by index
    windows: Mapping[int, tuple[int, float]]
    classes: Mapping[int, int]  # traffic class of jobs by index, where it is above the lowest

    def _ready_ms(self, index: int) -> float:
        return self.state.earliest_start(index) - self.state.now

    @cached_property
    def instance(self) -> Instance:
        """The jobs as an instance; without jitter bursts stay where they are."""
        instance = group_instance(
            self.state, {i: self.state.running[i].slots for i in self.members}
        )
        if any(job.jitter for job in instance.jobs):
            return instance
        jobs = (
            job.model_copy(update={"ready": round(self._ready_ms(index) / SLOT_MS) % job.period})
            for index, job in zip(self.members, instance.jobs, strict=True)
        )
        return instance.replace(jobs=tuple(jobs))

    @cached_property
    def iterations(self) -> Mapping[str, Iteration]:
        """The iterations of jobs of as many bursts in slots, with their jitter."""
        running = {str(index): self.state.running[index].profile for index in self.members}
        return {
            job.name: replace(running[job.name], jitter=job.jitter)
            for job in self.instance.jobs
            if len(running[job.name].bursts) == len(job.phases)
        }

    @cached_property
    def present(self) -> Plan:
        """The plan as things are; jobs that have just arrived are not gated."""
        offsets, periods = dict(self.instance.unshifted), {}
        for index in self.members:
            if index in self.windows:
                name, (period, start) = str(index), self.windows[index]
                periods[name] = period
                offsets[name] = round((start - self.state.now) / SLOT_MS) % period
        classes = {str(i): self.classes[i] for i in self.members if self.classes.get(i)}
        return Plan(offsets, periods, classes)

    def anchor(self, plan: Plan) -> Plan:
        """Return a plan with all windows shifted equally, such that jobs wait little."""
        gated = {str(i): i for i in self.members if str(i) in plan.periods}
        waits = []
        for name, index in gated.items():
            keeps = self.present.periods.get(name) == plan.periods[name]
            ready = self.present.offsets[name] * SLOT_MS if keeps else self._ready_ms(index)
            waits.append(plan.offsets[name] * SLOT_MS - float(ready))
        periods = [float(plan.periods[name] * SLOT_MS) for name in gated]
        weights = [max(1, self.state.running[i].job.spec.priority) for i in gated.values()]
        by = best_shift(waits, periods, weights)
        offsets = {
            name: round(plan.offsets[name] - by / SLOT_MS) % plan.periods[name] for name in gated
        }
        return replace(plan, offsets={**plan.offsets, **offsets})

    def is_unchanged(self, plan: Plan, index: int) -> bool:
        """Return whether a plan leaves a job the window and the class that it has."""
        name, present = str(index), self.present
        return (
            plan.periods.get(name) == present.periods.get(name)
            and plan.classes.get(name, 0) == present.classes.get(name, 0)
            and (name not in plan.periods or plan.offsets[name] == present.offsets[name])
        )

    def start_ms(self, plan: Plan, index: int) -> float:
        """Return when a gated job begins its next iteration in its window."""
        period, offset = plan.periods[str(index)], plan.offsets[str(index)]
        ready = self.state.earliest_start(index)
        return ready + (self.state.now + offset * SLOT_MS - ready) % (period * SLOT_MS)

    def change_costs(self, plan: Plan) -> Floats:
        """Return by how much waits for new windows slow jobs down until the next job departs."""
        waits = np.zeros(len(self.members))
        for number, index in enumerate(self.members):
            if not self.is_unchanged(plan, index) and str(index) in plan.periods:
                waits[number] = self.start_ms(plan, index) - self.state.earliest_start(index)
        return waits / max(1.0, min(self.state.left_ms(index) for index in self.members))
