"""Local search by simulation: one job after another gets other windows, or another class.

So a part of the jobs that share links may be gated. Periods are tried that are longer by some
shares, and those of the other jobs as they run, their halves and doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from metronome_opt.allocation.slots.evaluator import PlanEvaluator, is_better, lowest
from metronome_opt.allocation.slots.greedy import PartialSchedule
from metronome_opt.allocation.slots.periods import CUSHION_SLOTS, HyperperiodTest
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.kernels.burst_costs import middle_of_longest_run

_MIN_GAIN = 5e-4  # for which a job is gated or in a higher class, or stays so
_STRETCHES = (0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 80, 100)  # in % of a period
_ROUNDS = 3


Moves = Callable[[Plan, Job], Iterator[Plan]]
"""Returns plans that differ in one job."""


def improve_plan(
    evaluator: PlanEvaluator, plan: Plan, is_over: Callable[[], bool], moves: Moves
) -> list[Plan]:
    """Return better and better plans, until no change of a single job is better or time is over."""
    values, found = evaluator.values(plan), list[Plan]()
    for _ in range(_ROUNDS):
        before = plan
        for index in np.argsort(-evaluator.slowdowns(plan), kind="stable"):
            job = evaluator.instance.jobs[index]
            for moved in moves(plan, job):
                if is_over():
                    return found
                reached = evaluator.values(moved)
                # Jobs that are gated, and jobs in a class above the lowest, make a plan complex.
                complexity, before_move = (len(p.periods) + len(p.classes) for p in (moved, plan))
                gain = -_MIN_GAIN if complexity < before_move else _MIN_GAIN
                if is_better(reached, values, gain):
                    plan, values = moved, lowest(reached, values)
                    found.append(plan)
        if plan is before:
            break
    return found


@dataclass(frozen=True)
class OtherSlots:
    """Moves of a job: ungated, or in other windows beside the gated jobs."""

    part: Instance
    longest: Mapping[str, int]  # the longest period of each job, in slots
    # returns whether hyperperiods are short enough at some periods
    hyperperiods_fit: HyperperiodTest
    slowdowns: Callable[[Plan], Floats]  # returns the slowdown of each job under a plan

    def __call__(self, plan: Plan, job: Job) -> Iterator[Plan]:
        """Yield the plans whose hyperperiods are short enough."""
        others = {name: period for name, period in plan.periods.items() if name != job.name}
        if job.name in plan.periods and self.hyperperiods_fit(others):
            yield Plan({**plan.offsets, job.name: job.unshifted}, others, plan.classes)
        placed = PartialSchedule(self.part, CUSHION_SLOTS)
        for name, period in others.items():
            placed.put(name, period, plan.offsets[name])
        slowdowns = self.slowdowns(plan).tolist()
        theirs = [
            others.get(other.name, round(other.period * slowdown))
            for other, slowdown in zip(self.part.jobs, slowdowns, strict=True)
            if other is not job
        ]
        for period in _periods(job, theirs, self.longest[job.name]):
            cost, periods = placed.costs(job.name, period), {**others, job.name: period}
            if cost is not None and self.hyperperiods_fit(periods):
                offset = int(middle_of_longest_run(cost, job.unshifted)[0])
                yield Plan({**plan.offsets, job.name: offset}, periods, plan.classes)


def other_classes(count: int, plan: Plan, job: Job) -> Iterator[Plan]:
    """Yield plans in which a job is in another one of `count` traffic classes."""
    for number in range(count):
        if number != plan.classes.get(job.name, 0):
            yield plan.in_classes({**plan.classes, job.name: number})


def _periods(job: Job, theirs: Sequence[int], longest: int) -> Iterator[int]:
    """Yield distinct periods: stretched ones, and such as fit those of others as they run."""
    spread = [job.period * (100 + stretch) // 100 for stretch in _STRETCHES]
    suitable = [other for period in theirs for other in (period // 2, period, 2 * period)]
    for period in sorted({*spread, *suitable}):
        if job.period <= period <= longest:
            yield period
