"""Metronome: the decisions of `allocation`, as the controller asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from metronome_opt.allocation.admission import QueuedJob, decide_admissions
from metronome_opt.allocation.migrations import choose_migrations
from metronome_opt.allocation.occupancy import CANDIDATES, Occupancy, PlacedJob
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.request import JobRequest
from metronome_opt.allocation.rollout import Arrivals
from metronome_opt.allocation.slots.evaluator import MAX_LOSS
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import (
    DECISION_EVENTS,
    PERIODS,
    SlotSearchOptions,
    find_plan,
)
from metronome_opt.allocation.slots.simulator import FIRST_CUSHION
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.engine.jobs import LatePolicy, WindowSchedule
from metronome_opt.problem.instance import Instance, Sharing
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation.policies.baselines import SpreadPolicy
from metronome_opt.simulation.policies.common_periods import best_shift, group_instance
from metronome_opt.simulation.policies.transport import GROWTH
from metronome_opt.simulation.state import (
    SLOT_MS,
    JobInstruction,
    RunningJob,
    SimState,
    TrainingJob,
)
from metronome_opt.solvers.budget import Budget

_MAX_LOSS = float(MAX_LOSS)
_FIRST_SEED = 300_000  # that no search uses


class Metronome(SpreadPolicy):
    """Lets `allocation` decide where a job runs and when it starts, and `slowdown` its slots.

    Parameters
    ----------
    places
        Whether places are chosen; otherwise jobs are on the nearest nodes.
    waits
        Whether a job may wait although there is room.
    slots
        Whether jobs are gated.
    periods
        Whether gated jobs may be stretched.
    network
        How links are assumed to be shared; as they are if left out.
    lengths
        Whether it is known how long jobs will run; ``rough``: to a factor of two.
    mltcp
        Whether hosts share as under the policy of this name.
    objective
        What slots and classes minimise: the weighted mean slowdown, or completion.
    max_loss
        The share by which a job may be slower than with no job gated; none for any.
    """

    def __init__(
        self,
        seed: int,
        *,
        places: bool = True,
        waits: bool = True,
        slots: bool = True,
        periods: bool = True,
        network: Sharing | None = None,
        lengths: Literal["known", "rough", "unknown"] = "known",
        mltcp: bool = False,
        objective: Literal["slowdown", "completion"] = "slowdown",
        max_loss: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["none"] = _MAX_LOSS,
    ) -> None:
        super().__init__(seed)
        self._places, self._slots, self._network = places, slots, network
        self._lengths = lengths
        self.growth = GROWTH if mltcp else None
        self._waits, self._arrivals = waits, Arrivals()
        self._objective = objective
        self._options = SlotSearchOptions(
            stretch_limit=None if periods else Fraction(0),
            max_loss=None if max_loss == "none" else Fraction(str(max_loss)),
            max_events=DECISION_EVENTS,
        )
        self._searched: dict[object, Plan] = {}
        self._windows: dict[int, tuple[int, float]] = {}  # of gated jobs: period in slots, start
        self._classes: dict[int, int] = {}

    def starts(
        self, waiting: Sequence[TrainingJob], state: SimState
    ) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the jobs that start now."""
        asked = []
        for job in waiting:
            demand, arrival_ms = self._demand(job), 1000 * job.work.arrival_s
            self._arrivals.note(demand, arrival_ms)
            asked.append(QueuedJob(demand, state.now - arrival_ms))
        decisions = decide_admissions(
            asked, self.occupancy(state), self._arrivals, self._seed, may_wait=self._waits
        )
        for job in waiting:
            placement = decisions[job.name].placement
            if placement is not None:
                yield job, placement

    def moves(self, state: SimState, cost_ms: float) -> Mapping[str, Placement]:
        """Return what `allocation` moves; jobs whose nodes the scenario gives stay."""
        running = state.running.items()
        free = {
            link
            for index, each in running
            if index not in self._windows
            for link in each.placement.links
        }
        kept = {
            each.job.name: self._windows[index][0] * SLOT_MS / each.job.best_ms - 1
            for index, each in running
            if index in self._windows and free.isdisjoint(each.placement.links)
        }
        costs = {each.job.name: cost_ms for _, each in running if each.job.work.nodes is None}
        moves = choose_migrations(self.occupancy(state), costs, kept)
        return {move.job: move.after for move in moves}

    def occupancy(self, state: SimState) -> Occupancy:
        """Return the jobs that run, with losses of pairs on links that they share."""
        if self._meetings is None:
            self._meetings = PairLosses(
                self._network or state.sharing, classes=state.room.cluster.traffic_classes
            )
        placed = [
            PlacedJob(self._demand(each.job, state.left_ms(index)), each.placement)
            for index, each in state.running.items()
        ]
        candidates = CANDIDATES if self._places else 1
        return Occupancy(state.room, placed, self._meetings, candidates)

    def _demand(self, job: TrainingJob, left_ms: float | None = None) -> JobRequest:
        """Return a job as it is known, of which so much is left; all of it if None."""
        length = job.demand.length_ms if left_ms is None else left_ms
        if self._lengths == "unknown" or length is None:
            return replace(job.demand, length_ms=None)
        if self._lengths == "rough":
            length *= 2 ** Random(f"{self._seed} {job.name}").uniform(-1, 1)  # noqa: S311 (no secret)
        return replace(job.demand, length_ms=length)

    def plan(
        self, state: SimState, came: Sequence[int], left: Sequence[RunningJob]
    ) -> list[JobInstruction]:
        """Gate or classify the jobs around those that came and left, where they gain by it."""
        if not self._slots:
            return []
        gone = [placed.job.index for placed in left if placed.job.index not in state.running]
        for index in [*gone, *(index for index in came if not state.engine.is_gated(index))]:
            self._windows.pop(index, None)
            self._classes.pop(index, None)
        return [
            order for members in state.changed(came, left) for order in self._decide(state, members)
        ]

    def _decide(self, state: SimState, members: Sequence[int]) -> Iterator[JobInstruction]:
        """Yield orders to those of some jobs whose windows or class change."""
        group = _Group(state, tuple(members), self._windows, self._classes)
        plan = self._chosen(group)
        for index in members:
            name = str(index)
            offset, period = plan.offsets[name], plan.periods.get(name)
            traffic_class = plan.classes.get(name, 0)
            if group.keeps(plan, index):
                continue
            slot, start = None, state.can_start(index)
            self._windows.pop(index, None)
            self._classes[index] = traffic_class
            if period is not None:
                start = group.start_ms(index, offset, period)
                self._windows[index] = period, start
                slot = WindowSchedule(
                    period_ms=float(period * SLOT_MS),
                    cushion_ms=FIRST_CUSHION * period * SLOT_MS,
                    lateness=LatePolicy.YIELD,
                    bursts_ms=group.bursts_ms(index),
                )
            yield JobInstruction(index, slot, start, traffic_class)

    def _chosen(self, group: _Group) -> Plan:
        """Return the plan of a group: as it is, unless another gains more than the change costs."""
        lives = group.lives_ms if self._objective == "completion" else None
        options = replace(
            self._options,
            network=self._network or group.state.sharing,
            classes=group.state.room.cluster.traffic_classes,
            lives_ms=lives,
            patterns=group.patterns,
        )
        keys = (pattern.key for pattern in group.patterns.values())
        key = group.instance.jobs, group.instance.links, *keys, *(lives or {}).values()
        if key not in self._searched:
            self._searched[key] = find_plan(group.instance, options, Budget())
        found, stay = group.anchored(self._searched[key]), group.present
        free = Plan(group.instance.unshifted)
        if found == stay:
            return stay
        evaluator = options.evaluator(
            group.instance, _FIRST_SEED, PERIODS, Budget(), group.change_costs
        )
        if not evaluator.is_harmless(stay):
            stay = free
        return evaluator.best(stay, [plan for plan in (found, free) if plan != stay])


@dataclass(frozen=True)
class _Group:
    """Jobs that may delay one another, and what they do now. Slot 0 of a plan is now.

    Attributes
    ----------
    windows
        Of gated jobs by index: period in slots, and a moment at which a period began, in ms.
    classes
        Traffic class of each job by index, where it is above the lowest.
    """

    state: SimState
    members: tuple[int, ...]
    windows: Mapping[int, tuple[int, float]]
    classes: Mapping[int, int]

    @cached_property
    def instance(self) -> Instance:
        """The jobs as an instance; without jitter bursts stay where they are."""
        periods = {index: self.state.running[index].slots for index in self.members}
        instance = group_instance(self.state, periods)
        if any(job.jitter for job in instance.jobs):
            return instance
        ready = {
            str(i): round((self.state.can_start(i) - self.state.now) / SLOT_MS) for i in periods
        }
        return instance.replace(
            jobs=tuple(
                job.model_copy(update={"ready": ready[job.name] % job.period})
                for job in instance.jobs
            )
        )

    @cached_property
    def patterns(self) -> Mapping[str, Iteration]:
        """The iterations of jobs of as many bursts in slots, with their jitter."""
        running = {str(index): self.state.running[index].pattern for index in self.members}
        return {
            job.name: replace(running[job.name], jitter=job.jitter)
            for job in self.instance.jobs
            if len(running[job.name].bursts) == len(job.phases)
        }

    @property
    def lives_ms(self) -> Mapping[str, float]:
        """How long jobs still run at best, in ms, to two digits."""
        return {str(i): float(f"{self.state.left_ms(i):.1e}") for i in self.members}

    @cached_property
    def present(self) -> Plan:
        """The plan as things are; jobs that have just come are not gated."""
        offsets, periods = dict(self.instance.unshifted), {}
        for index in self.members:
            if index in self.windows:
                name, (period, start) = str(index), self.windows[index]
                periods[name] = period
                offsets[name] = round((start - self.state.now) / SLOT_MS) % period
        classes = {str(i): self.classes[i] for i in self.members if self.classes.get(i)}
        return Plan(offsets, periods, classes)

    def anchored(self, plan: Plan) -> Plan:
        """Return a plan with all windows shifted by the same amount, such that jobs wait little."""
        gated = [index for index in self.members if str(index) in plan.periods]
        periods = [float(plan.periods[str(index)] * SLOT_MS) for index in gated]
        waits = []
        for index in gated:
            name, ready = str(index), self.state.can_start(index) - self.state.now
            if self.present.periods.get(name) == plan.periods[name]:
                ready = float(self.present.offsets[name] * SLOT_MS)
            waits.append(plan.offsets[name] * SLOT_MS - ready)
        weights = [max(1, self.state.running[index].job.work.priority) for index in gated]
        by = best_shift(waits, periods, weights)
        offsets = {
            str(i): round(plan.offsets[str(i)] - by / SLOT_MS) % plan.periods[str(i)] for i in gated
        }
        return replace(plan, offsets={**plan.offsets, **offsets})

    def keeps(self, plan: Plan, index: int) -> bool:
        """Return whether a job has under a plan what it has now."""
        name, present = str(index), self.present
        return (
            plan.periods.get(name) == present.periods.get(name)
            and plan.classes.get(name, 0) == present.classes.get(name, 0)
            and (name not in plan.periods or plan.offsets[name] == present.offsets[name])
        )

    def start_ms(self, index: int, offset: int, period: int) -> float:
        """Return when a job begins its next iteration in its window."""
        ready = self.state.can_start(index)
        wait = (self.state.now + offset * SLOT_MS - ready) % (period * SLOT_MS)
        return ready + wait

    def bursts_ms(self, index: int) -> tuple[float, ...]:
        """Return when the bursts of a job are due in an iteration."""
        return tuple(sorted(float(p.start * SLOT_MS) for p in self.state.running[index].phases))

    def change_costs(self, plan: Plan) -> Floats:
        """Return by how much waits for new windows slow jobs down until the next job leaves."""
        waits = np.zeros(len(self.members))
        for number, index in enumerate(self.members):
            if not self.keeps(plan, index) and str(index) in plan.periods:
                period, offset = plan.periods[str(index)], plan.offsets[str(index)]
                waits[number] = self.start_ms(index, offset, period) - self.state.can_start(index)
        return waits / max(1.0, min(self.state.left_ms(index) for index in self.members))
