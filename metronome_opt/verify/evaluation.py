"""The objectives of a schedule, from the definitions, in exact arithmetic.

A hyperperiod is cut where a rate changes. Unserved bandwidth is taken from jobs of low weight first
(the linear program that defines contention, solved greedily). Slots of a link with equal rates of
all jobs are counted at once, and only jobs that burst are visited.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from types import MappingProxyType

from metronome_opt.errors import InputError, check_type, quote
from metronome_opt.problem.evaluation import Evaluation, LinkReport
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.problem.schedule import OBJECTIVES

_Rates = tuple[int, Mapping[frozenset[tuple[int, int]], int]]
"""A hyperperiod, and its slots for each set of (index of a job, rate of its flow) above 0."""


@dataclass(frozen=True)
class Violation:
    """False statement of a schedule file."""

    location: str
    stated: str
    truth: str

    def __str__(self) -> str:
        return f"{self.location}: stated {self.stated}, but {self.truth}"


def evaluate(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int] | None = None,
    *,
    cushion_slots: int = 0,
    stretch_limit: Fraction | None = None,
) -> Evaluation:
    """Compute every objective of a complete assignment.

    Parameters
    ----------
    instance
        The problem.
    offsets
        Slots by job, ``0 <= offset < period + stretch``.
    stretch
        Idle slots by job; a job that is not named is not stretched.
    cushion_slots
        Slots by which every burst is extended; all values are those of the extended bursts. A burst
        as long as the stretched period does not grow any further.
    stretch_limit
        Share of its period by which a job may be stretched, if above its `max_stretch`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, unknown or out of range, if `cushion_slots` is
        negative, or if a hyperperiod is above the limit of the instance.
    """
    stretch = {} if stretch is None else stretch
    check_type("instance", instance, Instance)
    for field, values in (("offsets", offsets), ("stretch", stretch)):
        check_type(field, values, Mapping)
        for name, value in values.items():
            check_type(f"{field}.{quote(name)}", value, int)
    check_type("cushion_slots", cushion_slots, int)
    if stretch_limit is not None:
        check_type("stretch_limit", stretch_limit, Rational)
    if cushion_slots < 0:
        raise InputError(
            f"cushion_slots: must be at least 0, got {quote(cushion_slots)}; bursts cannot shrink"
        )
    violations = assignment_violations(instance, offsets, stretch, stretch_limit)
    if violations:
        raise InputError(str(violations[0]))
    instance.check_hyperperiods(stretch)
    jobs = schedule_jobs(instance.jobs, offsets, stretch, cushion_slots)
    elongation = {run.job.name: Fraction(run.stretch) for run in jobs}
    unserved = {run.job.name: Fraction(0) for run in jobs}
    reports = []
    users_of = jobs_by_link(instance, jobs)
    known: dict[tuple[str, ...], _Rates] = {}  # links of the same jobs have the same rates
    for link in instance.links:
        users = users_of[link.name]
        names = tuple(user.job.name for user in users)
        if names not in known:
            known[names] = _count_rates(users)
        report, means = _evaluate_link(link, users, known[names])
        reports.append(report)
        for user, mean in zip(users, means, strict=True):
            unserved[user.job.name] += mean
            elongation[user.job.name] += _slots_lost(user, link, mean)
    # The traffic is that of jobs that are not stretched: stretching must not look like less of it.
    traffic = Fraction(0)
    for run in schedule_jobs(instance.jobs, dict.fromkeys(offsets, 0), {}, cushion_slots):
        traffic += Fraction(sum(run.job.links.values()) * run.volume, run.period)
    late = sum(report.unserved for report in reports)
    moved = (run.job for run in jobs if run.job.current_offset not in (None, run.offset))
    objectives = {
        "contention": Fraction(sum(report.contention for report in reports)),
        "latency": late / traffic if traffic else Fraction(0),
        "stretch": Fraction(sum(Fraction(r.job.weight * r.stretch, r.job.period) for r in jobs)),
        "wait": Fraction(
            sum(run.job.weight * ((run.offset - run.job.ready) % run.period) for run in jobs)
        ),
        "moves": Fraction(sum(job.weight for job in moved)),
        "cushion": min(
            (Fraction(report.cushion) for report in reports if report.cushion is not None),
            default=None,
        ),
    }
    return Evaluation(
        MappingProxyType({name: objectives[name] for name in OBJECTIVES}),
        tuple(reports),
        MappingProxyType(elongation),
        MappingProxyType(unserved),
    )


def assignment_violations(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
    stretch_limit: Fraction | None,
) -> list[Violation]:
    """Check the offsets and stretches of all jobs.

    Parameters
    ----------
    offsets, stretch
        Slots by job name; no stretch where omitted.
    stretch_limit
        The largest share of its period by which a job is stretched, beside its `max_stretch`;
        None for 0.

    Returns
    -------
    list
        Values that are missing, of unknown jobs, out of range, or not as fixed.
    """
    violations = []
    jobs = {job.name: job for job in instance.jobs}
    for field, values in (("offsets", offsets), ("stretch", stretch)):
        for name, value in values.items():
            if name not in jobs:
                violations.append(Violation(f"{field}.{quote(name)}", quote(value), "no such job"))
    for name, job in jobs.items():
        idle = stretch.get(name, 0)
        maximum = longest_stretch(instance, job, stretch_limit)
        place = f"offsets.{name}"
        if not 0 <= idle <= maximum:
            violations.append(
                Violation(f"stretch.{name}", quote(idle), f"it must be in [0, {maximum}]")
            )
        elif name not in offsets:
            violations.append(Violation(place, "nothing", "every job needs an offset"))
        elif not 0 <= offsets[name] < job.period + idle:
            within = f"it must be in [0, {job.period + idle})"
            violations.append(Violation(place, quote(offsets[name]), within))
        elif job.fixed_offset not in (None, offsets[name]):
            fixed = f"the job is fixed at {job.fixed_offset}"
            violations.append(Violation(place, quote(offsets[name]), fixed))
    return violations


def longest_stretch(instance: Instance, job: Job, stretch_limit: Fraction | None) -> int:
    """Return the largest stretch of a job, in slots."""
    # Periods are at most the limit of the instance, for all shares.
    share = math.floor((stretch_limit or 0) * job.period)
    return max(job.max_stretch, min(share, instance.hyperperiod_limit - job.period))


class ScheduledJob:
    """A job with its offset, its stretched period, and its rates in one period.

    Attributes
    ----------
    pattern
        (slot, slots, rate) of the parts of a period with one rate, slots counted from the offset.
    """

    def __init__(self, job: Job, offset: int, stretch: int, cushion_slots: int) -> None:
        self.job = job
        self.offset = offset
        self.stretch = stretch
        self.cushion_slots = cushion_slots
        self.period = job.period + stretch
        bounds = {phase.start % self.period for phase in job.phases}
        bounds |= {(phase.end + cushion_slots) % self.period for phase in job.phases}
        slots = sorted(bounds)
        self.pattern = [
            (slot, following - slot, self.rate(offset + slot))
            for slot, following in zip(slots, [*slots[1:], slots[0] + self.period], strict=True)
        ]

    @property
    def volume(self) -> int:
        """The volume of a flow in a period, Mbit/s * slots."""
        return sum(slots * rate for _, slots, rate in self.pattern)

    def extend(self, slots: int) -> ScheduledJob:
        """Return the job with bursts extended by further slots."""
        return ScheduledJob(self.job, self.offset, self.stretch, self.cushion_slots + slots)

    def shorten_period(self, others: Iterable[ScheduledJob]) -> ScheduledJob:
        """Return the job at a shorter period in which it meets others of a link in the same way.

        Meetings depend only on the common divisors of periods. In a slot of the shorter period the
        job has the largest rate of the slots that fall there.
        """
        divisors = (math.gcd(self.period, other.period) for other in others if other is not self)
        job = self.job.model_copy(update={"period": math.lcm(*divisors)})
        return ScheduledJob(job, self.offset, 0, self.cushion_slots)

    def rate(self, slot: int) -> int:
        """Return the rate of a flow in a slot."""
        # A burst that grows into another one of its job does not add to it.
        return max(
            (
                phase.rate
                for phase in self.job.phases
                if (slot - self.offset - phase.start) % self.period
                < phase.length + self.cushion_slots
            ),
            default=0,
        )

    def changes(self, hyperperiod: int) -> Iterator[tuple[int, int]]:
        """Yield (slot, rate) of the beginnings of parts of the pattern in [0, hyperperiod)."""
        for slot, _, rate in self.pattern:
            for begin in range(0, hyperperiod, self.period):
                yield (begin + slot + self.offset) % hyperperiod, rate


def schedule_jobs(
    jobs: Iterable[Job], offsets: Mapping[str, int], stretch: Mapping[str, int], cushion_slots: int
) -> list[ScheduledJob]:
    """Return jobs at their offsets, stretched, and with extended bursts."""
    return [
        ScheduledJob(job, offsets[job.name], stretch.get(job.name, 0), cushion_slots)
        for job in jobs
    ]


def jobs_by_link(instance: Instance, jobs: Iterable[ScheduledJob]) -> dict[str, list[ScheduledJob]]:
    """Return the jobs of each link."""
    users: dict[str, list[ScheduledJob]] = {link.name: [] for link in instance.links}
    for run in jobs:
        for name in run.job.links:
            users[name].append(run)
    return users


def pieces(jobs: list[ScheduledJob], hyperperiod: int) -> Iterator[tuple[int, int, dict[int, int]]]:
    """Yield (slot, length, rates) of the pieces of a hyperperiod in which no rate changes.

    The rates are those of a flow of each job that bursts, by its index, until the next piece.
    """
    changes: dict[int, list[tuple[int, int]]] = {0: []}
    for index, job in enumerate(jobs):
        for slot, rate in job.changes(hyperperiod):
            changes.setdefault(slot, []).append((index, rate))
    slots = sorted(changes)
    rates = {index: job.rate(0) for index, job in enumerate(jobs) if job.rate(0)}
    for slot, following in zip(slots, [*slots[1:], hyperperiod], strict=True):
        for index, rate in changes[slot]:
            if rate:
                rates[index] = rate
            else:
                rates.pop(index, None)
        yield slot, following - slot, rates


def _count_rates(jobs: list[ScheduledJob]) -> _Rates:
    """Return the hyperperiod of jobs, and its numbers of slots by rates."""
    hyperperiod = math.lcm(*(job.period for job in jobs))
    slots: Counter[frozenset[tuple[int, int]]] = Counter()
    for _, length, rates in pieces(jobs, hyperperiod):
        slots[frozenset(rates.items())] += length
    return hyperperiod, slots


def _evaluate_link(
    link: Link, jobs: list[ScheduledJob], combined: _Rates
) -> tuple[LinkReport, list[Fraction]]:
    """Return the report of a link, and the mean unserved bandwidth of its jobs on it."""
    flows = [run.job.links[link.name] for run in jobs]
    hyperperiod, slots_of = combined
    weighted = total = 0
    # Volume by denominator of each job: integers are added, fractions only at the end.
    unserved: list[Counter[int]] = [Counter() for _ in jobs]
    for rates, length in slots_of.items():
        demands = {index: flows[index] * rate for index, rate in rates}
        excess = sum(demands.values()) - link.capacity
        if excess <= 0:
            continue
        total += length * excess
        members: dict[int, list[int]] = {}
        for index in demands:
            members.setdefault(jobs[index].job.weight, []).append(index)
        for weight in sorted(members):
            demand = sum(demands[index] for index in members[weight])
            taken = min(demand, excess)
            excess -= taken
            weighted += length * weight * taken
            share = Fraction(length * taken, demand)
            for index in members[weight]:
                unserved[index][share.denominator] += share.numerator * demands[index]
            if not excess:
                break
    mean = Fraction(total, hyperperiod)
    return LinkReport(
        name=link.name,
        hyperperiod=hyperperiod,
        contention=Fraction(weighted, hyperperiod),
        unserved=mean,
        score=1 - mean / link.capacity,
        jobs=len(jobs),
        cushion=None if total else _link_cushion(link, jobs, hyperperiod),
    ), [_total(volumes) / hyperperiod for volumes in unserved]


def _total(volumes: Mapping[int, int]) -> Fraction:
    """Return the sum of numerators given by denominator."""
    common = math.lcm(*volumes)
    return Fraction(sum(volume * (common // part) for part, volume in volumes.items()), common)


def _link_cushion(link: Link, jobs: list[ScheduledJob], hyperperiod: int) -> int | None:
    """Return the largest extension of all bursts without contention, None without limit."""
    flows = [run.job.links[link.name] for run in jobs]
    if sum(count * run.job.peak for count, run in zip(flows, jobs, strict=True)) <= link.capacity:
        return None

    def bears(slots: int) -> bool:
        return all(
            sum(flows[index] * rate for index, rate in rates.items()) <= link.capacity
            for _, _, rates in pieces([run.extend(slots) for run in jobs], hyperperiod)
        )

    low, high = 0, max(run.period for run in jobs)  # borne, not borne: growth only adds demand
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bears(middle) else (low, middle)
    return low


def _slots_lost(job: ScheduledJob, link: Link, unserved: Fraction) -> Fraction:
    """Return the mean unserved bandwidth as slots of an iteration at the job's mean burst rate."""
    bursting = sum(slots for _, slots, rate in job.pattern if rate)
    return unserved * job.period * bursting / (job.job.links[link.name] * job.volume)
