"""Candidates for the slots of jobs that meet: periods that suit one another, and offsets.

Bursts that a link cannot carry at once never meet only if the greatest common divisor of the
periods is as long as both. So the periods are multiples of a base, for each job the shortest one
that leaves it some idle time, and every base is tried. Of those at which all jobs fit the ones are
kept that cost less in the mean than all with a smaller largest stretch. A larger limit on
stretches has the same candidates, and more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from operator import itemgetter

from metronome_opt.compatible.decider import Decider
from metronome_opt.compatible.problem import FitTask
from metronome_opt.instance import Instance
from metronome_opt.objectives import Levels
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import levels_of
from metronome_opt.solvers.budget import Budget

Periods = Mapping[str, int]
Short = Callable[[Periods], bool]

_IDLE = tuple(Fraction(each, 1000) for each in (0, 5, 10, 20, 40))
"""Shares of periods by which gated jobs are stretched at least, if they may be: a job without
idle time that is late once stays late."""
_SHARE = 0.3  # of the time, to find periods at which jobs fit


def largest_stretch(part: Instance, periods: Periods) -> Fraction:
    """Return the largest stretch of a job, as a share of its period."""
    own = {job.name: job.period for job in part.jobs}
    return max(
        (Fraction(period, own[name]) - 1 for name, period in periods.items()), default=Fraction(0)
    )


@dataclass(frozen=True)
class Candidates:
    """Candidates for the slots of jobs that meet.

    Attributes
    ----------
    longest
        The longest period that each job may keep, in slots.
    cushion_slots
        By how many slots bursts are longer.
    short
        Whether hyperperiods are short enough at some periods.
    budget
        For all that is not simulated.
    hyperperiod
        Slots that periods have to divide; None for any periods.
    levels
        Weights in the means that count; those of the jobs if left out.
    """

    part: Instance
    longest: Periods
    cushion_slots: int
    short: Short
    budget: Budget
    hyperperiod: int | None = None
    levels: Levels | None = None

    def plans(self) -> Iterator[Plan]:
        """Yield plans in which all jobs are gated, those of little stretch first."""
        share = self.budget.fraction(_SHARE)
        found = [periods for idle in _IDLE for periods in self._fitting(idle, share)]
        distinct = {tuple(periods.values()): periods for periods in found}
        for periods in sorted(distinct.values(), key=partial(largest_stretch, self.part)):
            offsets = self._roomiest(periods)
            if offsets is not None:
                yield Plan(offsets, periods)

    def _cost(self, periods: Periods) -> tuple[Fraction, ...]:
        """Return the weighted sums of all stretches, in order."""
        own = {job.name: job.period for job in self.part.jobs}
        return tuple(
            sum(
                (Fraction(periods[name], own[name]) * weight for name, weight in level.items()),
                Fraction(0),
            )
            for level in levels_of(self.part, self.levels)
        )

    def _at_bases(self, idle: Fraction, budget: Budget) -> Iterator[Periods]:
        """Yield distinct periods, of which each base gives one to every job."""
        shortest = {job.name: math.ceil(job.period * (1 + idle)) for job in self.part.jobs}
        known = set()
        for base in range(1, max(self.longest.values()) + 1):
            if budget.stopped:
                return
            if self.hyperperiod is not None and self.hyperperiod % base:
                continue
            periods = {}
            for name, slots in shortest.items():
                multiples = range(-(-slots // base) * base, self.longest[name] + 1, base)
                suitable = (each for each in multiples if not (self.hyperperiod or 0) % each)
                period = next(suitable, None)
                if period is None:
                    break
                periods[name] = period
            else:
                if (key := tuple(periods.values())) not in known:
                    known.add(key)
                    yield periods

    def _fitting(self, idle: Fraction, budget: Budget) -> Iterator[Periods]:
        """Yield periods at which all jobs fit, of less and less cost and more and more stretch."""
        decider, lowest = self._decider(self.cushion_slots, budget), None
        every = self._at_bases(idle, budget)
        tried = [(largest_stretch(self.part, each), self._cost(each), each) for each in every]
        for _, cost, periods in sorted(tried, key=itemgetter(0, 1)):
            if (lowest is not None and cost >= lowest) or not self.short(periods):
                continue
            if decider.decide(periods).offsets is not None:
                lowest = cost
                yield periods

    def _decider(self, cushion_slots: int, budget: Budget) -> Decider:
        """Return a decider that gives up after some placements."""
        return Decider(FitTask(self.part, cushion_slots, budget), quick=True)

    def _roomiest(self, periods: Periods) -> Mapping[str, int] | None:
        """Return offsets at which bursts of gated jobs may grow by as much as can be."""
        offsets = self._decider(self.cushion_slots, self.budget).decide(periods).offsets
        low, high = self.cushion_slots, max(periods.values())
        while offsets is not None and high - low > 1:
            middle = (low + high) // 2
            roomier = self._decider(middle, self.budget).decide(periods).offsets
            if roomier is None:
                high = middle
            else:
                low, offsets = middle, roomier
        return offsets
