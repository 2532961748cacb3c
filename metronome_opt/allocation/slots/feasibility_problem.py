"""Feasibility problems and their results.

Jobs at some periods fit if there are offsets at which they never ask a link for more than it
carries.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from metronome_opt.errors import quote
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError
from metronome_opt.solvers.presolve.extend import extend_bursts, extended

_LARGEST_SUM = 2**60  # of bandwidths


class Reason(StrEnum):
    """Reason why jobs do not fit."""

    PAIR = "bursts of the two meet at all offsets"
    LOAD = "their bursts are more than a link carries, whenever they come"
    HYPERPERIOD = "the common multiple of what their periods share is above the limit"
    SEARCH = "all offsets were searched"


@dataclass(frozen=True)
class Conflict:
    """Jobs that do not fit at their periods, each of which the reason needs.

    It is not known whether they fit if the reason is the hyperperiod.
    """

    reason: Reason
    periods: Mapping[str, int]  # the jobs by name, with their periods

    def __str__(self) -> str:
        return f"{', '.join(f'{name} at {p}' for name, p in self.periods.items())}: {self.reason}"


@dataclass(frozen=True)
class FeasibilityDecision:
    """The decision for jobs at some periods: offsets or a refutation; neither without time."""

    offsets: Mapping[str, int] | None = None
    refutation: Conflict | None = None


@dataclass(frozen=True)
class FeasibilityResult:
    """Jobs that fit, and what is proved."""

    # offsets of the gated jobs; None if no jobs were found that fit
    offsets: Mapping[str, int] | None = None
    cost: int | None = None  # the weight of the dropped jobs, None without offsets
    # proved lower bound of the cost; None if it is proved that all jobs do not fit and they must
    bound: int | None = 0
    refutations: tuple[Conflict, ...] = ()  # conflicts that prove the bound
    stop: StopReason = StopReason.FINISHED  # why the solver ended

    @property
    def proved(self) -> bool:
        """True if nothing is cheaper, or the jobs do not fit."""
        return self.bound is None or self.cost == self.bound


@dataclass
class FeasibilityProblem:
    """An instance whose jobs are to fit, and the resources of the run.

    Bandwidths are in units that fit 64-bit integers.
    """

    instance: Instance
    cushion_slots: int = 0
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        self.instance = _in_units(self.instance)

    def weight_without(self, gated: Container[str]) -> int:
        """Return the weight of the jobs that are not gated."""
        return sum(job.weight for job in self.instance.jobs if job.name not in gated)


def _in_units(instance: Instance) -> Instance:
    """Return an instance whose sums of bandwidths are far below 2**63.

    Where they are not, bandwidths are divided by their greatest common divisor; a
    `TooLargeError` if they are still too large.
    """
    worst, link = _largest_sum(instance)
    if worst < _LARGEST_SUM:
        return instance
    rates = (phase.rate for job in instance.jobs for phase in job.phases)
    unit = math.gcd(*rates, *(link.capacity for link in instance.links))
    if worst // unit >= _LARGEST_SUM:
        raise TooLargeError(
            f"links: capacity and peaks on {quote(link)} add up to {quote(worst)}, which does not "
            "fit 64-bit integers; use rates and capacities with a larger common divisor"
        )
    return instance.replace(
        links=tuple(
            link.model_copy(update={"capacity": link.capacity // unit}) for link in instance.links
        ),
        jobs=tuple(
            job.model_copy(
                update={
                    "phases": tuple(
                        phase.model_copy(update={"rate": phase.rate // unit})
                        for phase in job.phases
                    )
                }
            )
            for job in instance.jobs
        ),
    )


def _largest_sum(instance: Instance) -> tuple[int, str]:
    """Return the largest sum of a link's capacity and the peaks of its jobs, and the link."""
    sums = [(0, "")]
    for link in instance.links:
        users = (instance.jobs[index] for index in instance.jobs_on[link.name])
        sums.append((link.capacity + sum(j.peak * j.links[link.name] for j in users), link.name))
    return max(sums)


def at_periods(instance: Instance, periods: Mapping[str, int], cushion_slots: int = 0) -> Instance:
    """Return the instance of the jobs that have a period, with extended bursts and weights of 1.

    Its contention is 0 exactly where the jobs fit.
    """
    jobs = tuple(
        job.model_copy(update={"period": periods[job.name], "max_stretch": 0, "weight": 1})
        for job in instance.jobs
        if job.name in periods
    )
    return extend_bursts(instance.replace(jobs=jobs), cushion_slots)


def shorten_periods(instance: Instance) -> Instance:
    """Return jobs at shorter periods, at which offsets fit exactly if they do at the given ones.

    Whether offsets fit depends only on the common divisors of the periods: a job's shorter period
    is the least common multiple of its common divisors with others. Its rate in a slot is the
    largest of the slots that fall there. `restore_offsets` leads back.
    """
    shared = [1 for _ in instance.jobs]
    for users in instance.jobs_on.values():
        for one, other in itertools.permutations(users, 2):
            common = math.gcd(instance.jobs[one].period, instance.jobs[other].period)
            shared[one] = math.lcm(shared[one], common)
    return instance.replace(jobs=tuple(map(_shortened, instance.jobs, shared)))


def _shortened(job: Job, period: int) -> Job:
    fixed = job.fixed_offset and job.fixed_offset % period
    shorter = {"period": period, "max_stretch": 0, "fixed_offset": fixed}
    return extended(job.model_copy(update=shorter), 0)


def restore_offsets(instance: Instance, offsets: Mapping[str, int]) -> dict[str, int]:
    """Return offsets of jobs at shorter periods as offsets of the instance; fixed ones stay."""
    fixed = {name: instance.job(name).fixed_offset for name in offsets}
    return {name: fixed[name] or offset for name, offset in offsets.items()}


def load(job: Job, period: int, cushion_slots: int = 0) -> Fraction:
    """Return what a flow of a job carries on average at a period, in Mbit/s.

    Where extended bursts grow into others of their job it is a lower bound.
    """
    phases = sorted(job.phases, key=lambda phase: phase.start)
    begins = [*(phase.start for phase in phases[1:]), period + phases[0].start]
    volume = sum(
        min(phase.length + cushion_slots, begin - phase.start) * phase.rate
        for phase, begin in zip(phases, begins, strict=True)
    )
    return Fraction(volume, period)


def overloads(
    instance: Instance, periods: Mapping[str, int], cushion_slots: int
) -> Iterator[tuple[Link, dict[str, Fraction]]]:
    """Yield links to which jobs bring more traffic than they carry, with what each job brings."""
    for link in instance.links:
        loads = {
            job.name: job.links[link.name] * load(job, periods[job.name], cushion_slots)
            for job in (instance.jobs[index] for index in instance.jobs_on[link.name])
            if job.name in periods
        }
        if sum(loads.values()) > link.capacity:
            yield link, loads


def find_gap_conflict(instance: Instance) -> tuple[str, tuple[str, ...]] | None:
    """Return a link and jobs whose bursts find no room in its gaps, if there are any.

    Of bursts that each take more than half of a link no two meet. In g slots, those of jobs whose
    periods divide g leave gaps of C slots in all, which hold no more than ``n = floor(C / s)``
    bursts of s slots or more, and one less beside a burst of more than ``C - n s`` slots. A job
    whose period is T, a multiple of g, brings each of its bursts g / T times.
    """
    for link in instance.links:
        jobs = [instance.jobs[index] for index in instance.jobs_on[link.name]]
        bursts = {job.name: [(m, job.period) for m in _long_runs(job, link)] for job in jobs}
        kinds = Counter(itertools.chain.from_iterable(bursts.values()))
        lengths, periods = ({kind[place] for kind in kinds} for place in (0, 1))
        for g, shortest in itertools.product(sorted(periods), sorted(lengths)):
            if not _is_crowded(kinds, g, shortest):
                continue
            named = []
            for job in sorted(jobs, key=lambda job: Fraction(job.volume, job.period)):
                fewer = kinds - Counter(bursts[job.name])
                if _is_crowded(fewer, g, shortest):
                    kinds = fewer
                else:
                    named.append(job.name)
            return link.name, tuple(named)
    return None


def _long_runs(job: Job, link: Link) -> list[int]:
    """Return the lengths of bursts above half of a link, joined where they touch."""
    runs: list[list[int]] = []
    for phase in sorted(job.phases, key=lambda phase: phase.start):
        if 2 * phase.rate * job.links[link.name] > link.capacity:
            if runs and runs[-1][1] == phase.start:
                runs[-1][1] = phase.end
            else:
                runs.append([phase.start, phase.end])
    if len(runs) > 1 and runs[0][0] == runs[-1][1] - job.period:
        runs[0][0] = runs.pop()[0] - job.period
    return [end - start for start, end in runs]


def _is_crowded(bursts: Counter[tuple[int, int]], g: int, shortest: int) -> bool:
    """Return whether bursts, numbers of (slots, period), find no room in the gaps of g slots."""
    gap = g - sum(n * m * (g // period) for (m, period), n in bursts.items() if g % period == 0)
    room = gap // shortest
    others = [(m, Fraction(g, p), n) for (m, p), n in bursts.items() if p % g == 0 and p > g]
    brought = sum(n * often for m, often, n in others if m >= shortest)
    beside = (often for m, often, _ in others if gap - room * shortest < m < shortest)
    return gap < g and brought + max(beside, default=0) > room
