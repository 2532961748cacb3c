"""New windows for running jobs, if simulated iterations become shorter by them.

For a connected component of jobs four plans are simulated: no change; the corrected reservations
in their windows; a plan of minimum slowdown, rotated so that jobs wait little; and no job gated.
A later plan is taken only if iterations become noticeably shorter by it, with the cost of waiting
once counted in. No job may become slower than now: gates give up windows that jobs cannot keep, so
that little is lost without a change. Traffic classes stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from metronome_opt.allocation.slots.evaluator import PlanEvaluator
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import (
    DECISION_EVENTS,
    SlotSearchOptions,
    find_plan,
    long_periods,
)
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.presolve.blocks import components
from metronome_opt.verify import evaluate

_MIN_LOSS = 0.005  # mean loss, above which other plans are tried
_FIRST_SEED = 200_000  # that no search uses
_MAX_SECONDS = 5.0  # for a plan of minimum slowdown
_MAX_NAMED = 3
_CHANGE_COST = Fraction(1, 50)  # 2 to 4 % of an iteration to move a job: it pays within 50
_MAX_ROTATIONS = 64  # of a plan, for each job that may keep its offset
_MIN_GAIN = Fraction(1, 100)  # of an iteration, costs included


class NewSlots(NamedTuple):
    """Windows that running jobs get."""

    plan: Plan  # offsets and periods of the jobs that get other windows or a corrected reservation
    why: str  # text on what the change brings, or why there is none


def choose_slots(
    before: Instance,
    plan: Plan,
    measured: Instance,
    corrected: Plan,
    hyperperiod: int,
    concerned: Collection[str],
) -> NewSlots:
    """Choose new windows for the jobs of components with some jobs or links; see the module.

    Parameters
    ----------
    before, plan
        The jobs as reserved, without idle time, and the plan in force.
    measured, corrected
        The jobs as measured, and the plan with corrected reservations.
    hyperperiod
        Slots that every period of a gated job has to divide.
    concerned
        Jobs and links whose components are decided about.
    """
    offsets: dict[str, int] = {}
    periods: dict[str, int] = {}
    why = []
    for part in components(measured):
        jobs, links = ({item.name for item in items} for items in (part.jobs, part.links))
        if concerned and not (jobs | links).isdisjoint(concerned):
            group = _Group(before, plan.only(part), part, corrected.only(part), hyperperiod)
            if group.fits_as_reserved:
                continue  # their idle time is only known once they run
            way = group.choose()
            if group.is_slow(group.stay):
                why.append(group.describe(way))
            if way is not group.stay:
                offsets |= way.offsets
                periods |= way.periods
    return NewSlots(Plan(offsets, periods), "; ".join(why))


@dataclass(frozen=True)
class _Group:
    """A component of jobs, and their possible plans."""

    before: Instance
    plan: Plan
    part: Instance  # as measured
    corrected: Plan
    hyperperiod: int

    @cached_property
    def _instance(self) -> Instance:
        """The jobs as they would run by themselves, at any period that divides the hyperperiod."""
        jobs = tuple(
            job.model_copy(
                update={"current_offset": None, "max_stretch": self.hyperperiod - job.period}
            )
            for job in self.part.jobs
        )
        return self.part.replace(jobs=jobs)

    @cached_property
    def _evaluator(self) -> PlanEvaluator:
        periods, classes = long_periods(self._instance), self.plan.classes
        return PlanEvaluator(
            partial(PlanSimulator, self._instance, periods=periods, classes=classes),
            _FIRST_SEED,
            base=self.stay,
            change_costs=lambda plan: float(_CHANGE_COST) * np.array(self._waits(plan), float),
        )

    @cached_property
    def stay(self) -> Plan:
        """Plan without changes: jobs keep the periods of their reservations."""
        offsets = {
            name: self.corrected.offsets[name] % period
            for name, period in self.plan.periods.items()
        }
        return Plan({**self._instance.unshifted, **offsets}, self.plan.periods)

    def _others(self) -> Iterator[Plan]:
        """Yield other plans: one of minimum slowdown, and one with no job gated."""
        options = SlotSearchOptions(
            hyperperiod=self.hyperperiod,
            base=self.stay,
            classes_kept=self.plan.classes,
            max_events=DECISION_EVENTS,
        )
        best = find_plan(self._instance, options, Budget(_MAX_SECONDS))
        if best.periods:
            yield self._near(best)
        yield Plan(self._instance.unshifted)

    def _near(self, plan: Plan) -> Plan:
        """Return a plan rotated so that waiting for it costs least."""
        kept = list(plan.periods)
        ways = _rotate(
            list(plan.periods.values()),
            [self.corrected.offsets[name] % plan.periods[name] for name in kept],
            [plan.offsets[name] for name in kept],
        )
        plans = (
            Plan({**plan.offsets, **dict(zip(kept, way, strict=True))}, plan.periods)
            for way in ways
        )
        return min(plans, key=lambda tried: sum(self._waits(tried), Fraction(0)))

    def choose(self) -> Plan:
        """Return the plan that is chosen."""
        chosen, evaluator = self.corrected, self._evaluator
        if not evaluator.is_within_loss(chosen):
            chosen = self.stay
        chosen = evaluator.best(chosen, [self.stay], _MIN_GAIN)
        if self.is_slow(chosen):
            chosen = evaluator.best(chosen, list(self._others()), _MIN_GAIN)
        return chosen

    @property
    def fits_as_reserved(self) -> bool:
        """Whether all jobs fit, no period is longer than needed, and jobs run as reserved."""
        for job in self.part.jobs:
            reserved, period = self.before.job(job.name), self.plan.periods.get(job.name)
            if (
                period is None
                or (job.period, job.phases) != (reserved.period, reserved.phases)
                or any(self.hyperperiod % length == 0 for length in range(job.period, period))
            ):
                return False
        periods = self.corrected.periods
        kept = [job for job in self._instance.jobs if job.name in periods]
        if not kept:
            return True
        offsets = {job.name: self.corrected.offsets[job.name] for job in kept}
        stretch = {job.name: periods[job.name] - job.period for job in kept}
        gated = self._instance.replace(jobs=tuple(kept))
        return not any(link.unserved for link in evaluate(gated, offsets, stretch).links)

    def is_slow(self, plan: Plan) -> bool:
        """Return whether iterations are noticeably longer under a plan than isolated ones."""
        return self._value(plan) > self._evaluator.simulator.least[0] + _MIN_LOSS

    def _value(self, plan: Plan) -> float:
        return self._evaluator.means(plan)[0]

    def _waits(self, plan: Plan) -> list[Fraction]:
        """Return for each job the iterations that it waits to change to a plan."""
        waits = []
        for job in self._instance.jobs:
            period = plan.periods.get(job.name)
            wait = Fraction(0)
            if period is not None and plan is not self.stay:
                moved = plan.offsets[job.name] - self.corrected.offsets[job.name]
                wait = Fraction(moved % period, period)
                if job.name not in self.corrected.periods:
                    wait = Fraction(1, 2)  # its offset is not known
            waits.append((1 + wait) * bool(wait))
        return waits

    def describe(self, plan: Plan) -> str:
        """Return a text on the loss of the jobs now and by a plan."""
        names = [job.name for job in self._instance.jobs]
        listed = ", ".join(names[:_MAX_NAMED])
        if len(names) > _MAX_NAMED:
            listed += f" and {len(names) - _MAX_NAMED} more"
        now, then = (100 * (self._value(of) - 1) for of in (self.stay, plan))
        lost = f"iterations of {listed} take {now:.1f} % longer than alone"
        if plan is self.stay or plan is self.corrected:
            return f"{lost}, and no other windows gain enough"
        if not plan.periods:
            return f"{lost}, {then:.1f} % without windows"
        return f"{lost}, {then:.1f} % in the new windows"


def _rotate(
    periods: Sequence[int], current: Sequence[int], offsets: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield offsets with all jobs shifted by as many slots, so that one of them keeps its own."""
    whole = math.lcm(*periods)
    shifts: dict[int, None] = {}
    for job, period in enumerate(periods):
        first = (current[job] - offsets[job]) % period
        shifts |= dict.fromkeys(range(first, min(whole, _MAX_ROTATIONS * period), period))
    for shift in shifts:
        yield tuple(
            (offset + shift) % period for offset, period in zip(offsets, periods, strict=True)
        )
