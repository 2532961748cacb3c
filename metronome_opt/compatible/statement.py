"""The choices without the offsets: what pairs, loads and refutations allow, and what it costs.

Each job takes one choice. Two jobs that do not fit at two periods do not take both, loads stay
within capacities, and of jobs that were refuted at some periods not all take these. What is
cheapest under all that is a lower bound, and if its jobs fit, it is the optimum.

A refutation says more than its own periods. Whether jobs fit depends on their bursts and the
pairwise greatest common divisors of their periods alone: bursts at ``r_i`` within their iterations
meet somewhere iff ``phi_i + r_i`` and ``phi_j + r_j`` are congruent modulo ``gcd(T_i, T_j)`` for
all pairs (the Chinese remainder theorem). With divisors of these they meet all the more. So each
job of a refutation stands for all its periods whose divisors with all those of the others divide
the refuted ones. Only a hyperperiod above its limit says nothing of other periods.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.compatible.choices import Choices
from metronome_opt.compatible.decide import Reason, Refutation
from metronome_opt.compatible.pace import load
from metronome_opt.compatible.pairs import Pairs
from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.solvers.deadline import Deadline

_LARGEST = 2**50
_FINEST = 2**32  # of loads, which many choices add to
Taken = tuple[str, int | None]


class CostsTooFineError(InputError):
    """Costs have no common denominator that a back end could count in."""


@dataclass(frozen=True)
class Row:
    """``sum of coefficient * x <= most``, x being 1 if a choice is taken and 0 if not.

    Attributes
    ----------
    terms
        (coefficient, number of the choice); coefficients are positive.
    """

    terms: tuple[tuple[int, int], ...]
    most: int


class Statement:
    """The problem as rows over the choices, which are numbered; `forbid` adds to them.

    Parameters
    ----------
    choices
        Of all jobs of the instance, no two of a job with the same period.
    clock
        Once it is over, rows are left out, which makes bounds lower and not wrong.

    Attributes
    ----------
    taken
        Of each choice: the job, and the period at which it keeps slots.
    groups
        The choices of each job, one of which it takes.
    costs
        Of each choice, in units of ``1 / scale``.

    Raises
    ------
    CostsTooFineError
        If costs do not fit 64-bit integers.
    """

    def __init__(self, instance: Instance, choices: Choices, pairs: Pairs, clock: Deadline) -> None:
        self.taken: list[Taken] = []
        self.groups: dict[str, range] = {}
        for job in instance.jobs:
            begin = len(self.taken)
            self.taken += [(job.name, choice.period) for choice in choices[job.name]]
            self.groups[job.name] = range(begin, len(self.taken))
        costs = [choice.cost for job in instance.jobs for choice in choices[job.name]]
        self.scale = math.lcm(*(cost.denominator for cost in costs))
        if self.scale * (1 + sum(costs)) >= _LARGEST:
            raise CostsTooFineError(
                "costs: too fine for 64-bit integers; use coarser ones, or solver auto or search"
            )
        self.costs = [int(cost * self.scale) for cost in costs]
        self.rows: list[Row] = []
        for index in pairs.impossible:
            kept = [number for _, number in self._kept(instance.jobs[index].name)]
            self._allow(0, kept)
        self._state_pairs(instance, pairs, clock)
        self._state_loads(instance, pairs.cushion_slots)

    def cost(self, numbers: Iterable[int]) -> Fraction:
        """Return what some choices cost together."""
        return Fraction(sum(self.costs[number] for number in numbers), self.scale)

    def forbid(self, refutation: Refutation) -> None:
        """State that some jobs do not fit at some periods, and others like these."""
        alike = {name: [period] for name, period in refutation.periods.items()}
        if refutation.reason is not Reason.HYPERPERIOD:
            for name, periods in alike.items():
                periods += [
                    period
                    for period, _ in self._kept(name)
                    if period not in periods and _is_no_better(period, name, refutation, alike)
                ]
        numbers = [
            number
            for name, periods in alike.items()
            for period, number in self._kept(name)
            if period in periods
        ]
        self._allow(len(alike) - 1, numbers)

    def _kept(self, name: str) -> list[tuple[int, int]]:
        """Return (period, number) of the choices in which a job keeps slots."""
        named = ((self.taken[number][1], number) for number in self.groups[name])
        return [(period, number) for period, number in named if period is not None]

    def _allow(self, most: int, numbers: Iterable[int]) -> None:
        self.rows.append(Row(tuple((1, number) for number in numbers), most))

    def _state_pairs(self, instance: Instance, pairs: Pairs, clock: Deadline) -> None:
        for i, j in pairs.forbidden:
            alike = defaultdict(list)
            theirs = self._kept(instance.jobs[j].name)
            for period, number in self._kept(instance.jobs[i].name):
                if clock.over:
                    return
                clashing = tuple(n for other, n in theirs if not pairs.fit(i, j, period, other))
                alike[clashing].append(number)
            for clashing, numbers in alike.items():
                if clashing:
                    self._allow(1, (*numbers, *clashing))

    def _state_loads(self, instance: Instance, cushion_slots: int) -> None:
        for link in instance.links:
            users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
            if sum(job.peak * job.links[link.name] for job in users) <= link.capacity:
                continue
            loads = [
                (number, job.links[link.name] * load(job, period, cushion_slots))
                for job in users
                for period, number in self._kept(job.name)
            ]
            common = math.lcm(*(each.denominator for _, each in loads))
            scale = min(common, max(1, _FINEST // link.capacity))  # rounded down: a relaxation
            most = scale * link.capacity
            terms = ((min(int(scale * each), most + 1), number) for number, each in loads)
            self.rows.append(Row(tuple(term for term in terms if term[0]), most))


def _is_no_better(
    period: int, name: str, refutation: Refutation, alike: Mapping[str, list[int]]
) -> bool:
    """Return whether a job fits at another period no better than at the refuted one."""
    own = refutation.periods[name]
    return all(
        math.gcd(own, refutation.periods[other]) % math.gcd(period, theirs) == 0
        for other, taken in alike.items()
        if other != name
        for theirs in taken
    )
