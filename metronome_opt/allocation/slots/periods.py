"""Candidates for the windows of jobs that share links: periods with common divisors, and offsets.

Bursts that a link cannot carry at once never meet only if the greatest common divisor of the
periods is as long as both. So the periods are multiples of a base, for each job the shortest one
that leaves it some idle time, and every base is tried. Periods at which all jobs fit are kept if
they cost less in the mean than all with a smaller largest stretch. A larger limit on stretches has
these candidates, and more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter

import numpy as np

from metronome_opt.allocation.slots.feasibility import FeasibilityTest
from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityProblem,
    at_periods,
    overloads,
)
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import means_of
from metronome_opt.engine.conditions import jitter_or_default
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.presolve.extend import extended

Periods = Mapping[str, int]
HyperperiodTest = Callable[[Periods], bool]
"""Returns whether hyperperiods are short enough at some periods."""

CUSHION_SLOTS = 1
"""Slots added to bursts of gated jobs at least."""

_IDLE = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0)
"""Standard deviations of its computing time by which a gated job is idle at least: one without idle
time that is late once stays late. Its bursts may grow by as much, or by a cushion only."""

_MAX_HYPERPERIOD_SLOTS = 20_000
_SHARE = 0.3  # of the time, to find periods at which jobs fit


def hyperperiods_fit(
    instance: Instance,
    links: Iterable[str],
    others: Mapping[str, int],
    periods: Mapping[str, int],
    *,
    hyperperiod: int | None = None,
) -> bool:
    """Return whether links still have hyperperiods that can be walked through, and may have them.

    A link that has none at the jobs' own periods needs none. `others` and `periods` are those of
    the jobs that do not keep their own; `periods` have to divide a `hyperperiod`, if there is one.
    """
    if hyperperiod is not None and any(hyperperiod % period for period in periods.values()):
        return False
    changed, limit = {**others, **periods}, instance.hyperperiod_limit
    for link in links:
        own = instance.hyperperiods[link]
        if own > limit:
            continue
        jobs = [instance.jobs[index] for index in instance.jobs_on[link]]
        kept = {changed.get(job.name, job.period) for job in jobs}
        if math.lcm(*kept) > min(max(_MAX_HYPERPERIOD_SLOTS, own), limit):
            return False
    return True


def largest_stretch(part: Instance, periods: Periods) -> Fraction:
    """Return the largest stretch of a job, as a share of its period."""
    own = {job.name: job.period for job in part.jobs}
    return max(
        (Fraction(period, own[name]) - 1 for name, period in periods.items()), default=Fraction(0)
    )


def deviation(job: Job) -> float:
    """Return the standard deviation of the computing time of an iteration, in slots."""
    computing = job.period - sum(phase.length for phase in job.phases)
    return computing * jitter_or_default(job.jitter)


@dataclass(frozen=True)
class PeriodCandidates:
    """Candidates for the windows of jobs that share links."""

    part: Instance
    longest: Periods  # the longest period of each job, in slots
    # returns whether hyperperiods are short enough at some periods
    hyperperiods_fit: HyperperiodTest
    budget: Budget  # time for the search of periods and offsets
    hyperperiod: int | None = None  # slots that periods have to divide; None for any periods
    # weights in the means that count; those of the jobs if None
    mean_weights: MeanWeights | None = None

    def plans(self) -> Iterator[Plan]:
        """Yield plans in which all jobs are gated, those of little stretch first."""
        if any(overloads(self.part, self.longest, CUSHION_SLOTS)):
            return  # at the longest periods, and so at all
        share = self.budget.fraction(_SHARE)
        test = self._short_test(self.part, CUSHION_SLOTS, share)
        found = [periods for idle in _IDLE for periods in self._fitting(idle, test, share)]
        distinct = {tuple(periods.values()): periods for periods in found}
        for periods in sorted(distinct.values(), key=partial(largest_stretch, self.part)):
            offsets = self._roomiest_offsets(periods)
            if offsets is not None:
                yield Plan(offsets, periods)

    @cached_property
    def _coefficients(self) -> list[dict[str, int]]:
        """Coefficients of periods in the weighted sums of all stretches, as whole numbers."""
        best = {job.name: self.part.best_ms(job) for job in self.part.jobs}
        levels = [
            {name: Fraction(weight) / best[name] for name, weight in level.items()}
            for level in means_of(self.part, self.mean_weights)
        ]
        unit = math.lcm(*(share.denominator for level in levels for share in level.values()))
        return [{name: int(share * unit) for name, share in level.items()} for level in levels]

    def _cost(self, periods: Periods) -> tuple[int, ...]:
        """Return numbers that order periods as the weighted sums of all stretches do."""
        return tuple(
            sum(coefficient * periods[name] for name, coefficient in level.items())
            for level in self._coefficients
        )

    def _at_bases(self, idle: float, budget: Budget) -> Iterator[Periods]:
        """Yield distinct periods of all jobs, by base."""
        shortest = {
            job.name: job.period + math.ceil(idle * deviation(job)) for job in self.part.jobs
        }
        known = set()
        bases = np.arange(1, max(self.longest.values()) + 1)
        for name, slots in shortest.items():
            bases = bases[-(-slots // bases) * bases <= self.longest[name]]
        for base in bases.tolist():
            if budget.stopped:
                return
            if self.hyperperiod is not None and self.hyperperiod % base:
                continue
            periods = {}
            for name, slots in shortest.items():
                multiples = range(-(-slots // base) * base, self.longest[name] + 1, base)
                suitable = (
                    multiple for multiple in multiples if not (self.hyperperiod or 0) % multiple
                )
                period = next(suitable, None)
                if period is None:
                    break
                periods[name] = period
            else:
                if (key := tuple(periods.values())) not in known:
                    known.add(key)
                    yield periods

    def _fitting(self, idle: float, test: FeasibilityTest, budget: Budget) -> Iterable[Periods]:
        """Return periods at which all jobs fit, of less and less cost and more and more stretch.

        Periods for bursts that grow by the cushion come first, then for those that grow by `idle`.
        A short test drops periods at which jobs do not fit with the cushion.
        """
        found: dict[float, list[Periods]] = {0.0: [], idle: []}
        lowest: dict[float, tuple[int, ...]] = {}
        unit = math.lcm(*(job.period for job in self.part.jobs))
        units = {job.name: unit // job.period for job in self.part.jobs}
        each_base = (
            (max(units[name] * periods[name] for name in units), self._cost(periods), periods)
            for periods in self._at_bases(idle, budget)
        )
        for _, cost, periods in sorted(each_base, key=itemgetter(0, 1)):
            growths = [growth for growth in found if growth not in lowest or cost < lowest[growth]]
            if (
                growths
                and self.hyperperiods_fit(periods)
                and test.decide(periods).offsets is not None
            ):
                for growth in growths:
                    if not growth or self._offsets(periods, growth, budget) is not None:
                        lowest[growth] = cost
                        found[growth].append(periods)
        return chain(*found.values())

    def _roomiest_offsets(self, periods: Periods) -> Mapping[str, int] | None:
        """Return offsets at which bursts can grow most, in proportion to their deviations."""
        offsets = self._offsets(periods, 0.0, self.budget)
        low, high = 0, max(periods.values())
        unit = max(map(deviation, self.part.jobs)) or 1.0
        while offsets is not None and high - low > 1:
            middle = (low + high) // 2
            roomier = self._offsets(periods, middle / unit, self.budget)
            if roomier is None:
                high = middle
            else:
                low, offsets = middle, roomier
        return offsets

    def _offsets(self, periods: Periods, growth: float, budget: Budget) -> Mapping[str, int] | None:
        """Return offsets with bursts longer by `growth` deviations, or the cushion."""
        part = at_periods(self.part, periods)
        deviations = [deviation(job) for job in self.part.jobs]
        if not any(deviations):
            deviations = [1.0] * len(deviations)
        jobs = tuple(
            extended(job, max(CUSHION_SLOTS, math.ceil(growth * deviation_slots)))
            for job, deviation_slots in zip(part.jobs, deviations, strict=True)
        )
        return self._short_test(part.replace(jobs=jobs), 0, budget).decide(periods).offsets

    def _short_test(self, part: Instance, cushion_slots: int, budget: Budget) -> FeasibilityTest:
        """Return a test that gives up after some placements."""
        return FeasibilityTest(FeasibilityProblem(part, cushion_slots, budget), quick=True)
