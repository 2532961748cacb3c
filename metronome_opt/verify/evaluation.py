"""The objectives of a schedule, from the definitions, in exact arithmetic.

A hyperperiod is cut where a rate changes. Unserved bandwidth is taken from the lightest jobs first
(the linear program that defines contention, solved as it stands). Only slots in which all jobs of a
link burst at the same rates are counted at once, and only jobs that burst are visited.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from types import MappingProxyType

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.evaluation import Evaluation, LinkReport
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.problem.schedule import OBJECTIVES


@dataclass(frozen=True)
class Violation:
    """False statement of a schedule file."""

    place: str
    stated: str
    truth: str

    def __str__(self) -> str:
        return f"{self.place}: stated {self.stated}, but {self.truth}"


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
        Slots per job name, ``0 <= offset < period + stretch``.
    stretch
        Idle slots per job name; a job that is not named is not stretched.
    cushion_slots
        Slots by which every burst is extended; all values are those of the extended bursts. A burst
        as long as the stretched period does not grow any further.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, unknown or out of range, if `cushion_slots` is
        negative, or if a hyperperiod is above the limit of the instance.
    """
    stretch = stretch or {}
    if cushion_slots < 0:
        raise InputError(
            f"cushion_slots: must be at least 0, got {quote(cushion_slots)}; bursts cannot shrink"
        )
    violations = assignment_violations(instance, offsets, stretch, stretch_limit)
    if violations:
        raise InputError(str(violations[0]))
    instance.check_hyperperiods(stretch)
    runs = [
        ScheduledJob(job, offsets[job.name], stretch.get(job.name, 0), cushion_slots)
        for job in instance.jobs
    ]
    elongation = {run.job.name: Fraction(run.stretch) for run in runs}
    mean_unserved = {run.job.name: Fraction(0) for run in runs}
    reports = []
    users_of = runs_by_link(instance, runs)
    known: dict[tuple[str, ...], _Rates] = {}  # links of the same jobs have the same rates
    for link in instance.links:
        users = users_of[link.name]
        names = tuple(run.job.name for run in users)
        if names not in known:
            known[names] = _Rates.of(users)
        report, unserved = _evaluate_link(link, users, known[names])
        reports.append(report)
        for run, volume in zip(users, unserved, strict=True):
            mean = volume / report.hyperperiod
            mean_unserved[run.job.name] += mean
            elongation[run.job.name] += _slots_lost(run, link, mean)
    cushions = [report.cushion for report in reports if report.cushion is not None]
    weights = {job.name: job.weight for job in instance.jobs}
    objectives: dict[str, Fraction | None] = {
        "contention": sum((report.contention for report in reports), Fraction(0)),
        "latency": _latency(
            [ScheduledJob(job, 0, 0, cushion_slots) for job in instance.jobs], reports
        ),
        "stretch": sum(
            (Fraction(run.job.weight * run.stretch, run.job.period) for run in runs), Fraction(0)
        ),
        "wait": Fraction(
            sum(weights[run.job.name] * ((run.offset - run.job.ready) % run.period) for run in runs)
        ),
        "moves": Fraction(
            sum(
                run.job.weight
                for run in runs
                if run.job.current_offset is not None and run.offset != run.job.current_offset
            )
        ),
        "cushion": Fraction(min(cushions)) if cushions else None,
    }
    return Evaluation(
        MappingProxyType({name: objectives[name] for name in OBJECTIVES}),
        tuple(reports),
        MappingProxyType(elongation),
        MappingProxyType(mean_unserved),
    )


def assignment_violations(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
    stretch_limit: Fraction | None,
) -> list[Violation]:
    """Return the offsets and stretches that are missing, unknown or out of range."""
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
    """Return by how many slots a job may be stretched at most."""
    # No period is above the limit of the instance, whatever share of it is allowed.
    share = math.floor((stretch_limit or 0) * job.period)
    return max(job.max_stretch, min(share, instance.hyperperiod_limit - job.period))


class ScheduledJob:
    """A job as it runs: its offset, its stretched period, its pattern over one period.

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

    def grown(self, slots: int) -> ScheduledJob:
        """Return the job with bursts extended by further slots."""
        return ScheduledJob(self.job, self.offset, self.stretch, self.cushion_slots + slots)

    def folded(self, others: Iterable[ScheduledJob]) -> ScheduledJob:
        """Return the job at a period in which it meets others of a link as it does in its own.

        That depends on the common divisors of periods alone. In a slot of the shorter period it has
        the largest rate of those that fall there.
        """
        divisors = (math.gcd(self.period, each.period) for each in others if each is not self)
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
        """Yield (slot, rate) in [0, hyperperiod) where a part of the pattern begins."""
        for slot, _, rate in self.pattern:
            for begin in range(0, hyperperiod, self.period):
                yield (begin + slot + self.offset) % hyperperiod, rate


def runs_by_link(instance: Instance, runs: Iterable[ScheduledJob]) -> dict[str, list[ScheduledJob]]:
    """Return the jobs of each link."""
    users: dict[str, list[ScheduledJob]] = {link.name: [] for link in instance.links}
    for run in runs:
        for name in run.job.links:
            users[name].append(run)
    return users


def pieces(runs: list[ScheduledJob], hyperperiod: int) -> Iterator[tuple[int, int, dict[int, int]]]:
    """Yield (slot, length, rates) of the pieces of a hyperperiod in which no rate changes.

    The rates are those of a flow of each job that bursts, by its index, until the next piece.
    """
    changes: dict[int, list[tuple[int, int]]] = {0: []}
    for index, run in enumerate(runs):
        for slot, rate in run.changes(hyperperiod):
            changes.setdefault(slot, []).append((index, rate))
    slots = sorted(changes)
    rates = {index: run.rate(0) for index, run in enumerate(runs) if run.rate(0)}
    for slot, following in zip(slots, [*slots[1:], hyperperiod], strict=True):
        for index, rate in changes[slot]:
            if rate:
                rates[index] = rate
            else:
                rates.pop(index, None)
        yield slot, following - slot, rates


@dataclass(frozen=True)
class _Rates:
    """Rates of the jobs of a link in a hyperperiod.

    Attributes
    ----------
    hyperperiod
        Of these jobs, in slots.
    slots
        Number of slots for each combination of (index, rate of a flow in Mbit/s) of the jobs that
        burst.
    """

    hyperperiod: int
    slots: Mapping[frozenset[tuple[int, int]], int]

    @classmethod
    def of(cls, runs: list[ScheduledJob]) -> _Rates:
        """Return those of some jobs."""
        hyperperiod = math.lcm(*(run.period for run in runs))
        slots: Counter[frozenset[tuple[int, int]]] = Counter()
        for _, length, rates in pieces(runs, hyperperiod):
            slots[frozenset(rates.items())] += length
        return cls(hyperperiod, slots)


def _evaluate_link(
    link: Link, runs: list[ScheduledJob], combined: _Rates
) -> tuple[LinkReport, list[Fraction]]:
    """Return the link's report and each run's unserved volume in a hyperperiod."""
    flows = [run.job.links[link.name] for run in runs]
    weights = [run.job.weight for run in runs]
    weighted = 0
    late = 0
    # Volume by denominator of each run: integers are added, fractions only at the end.
    unserved: list[Counter[int]] = [Counter() for _ in runs]
    for rates, length in combined.slots.items():
        demands = {index: flows[index] * rate for index, rate in rates}
        excess = sum(demands.values()) - link.capacity
        if excess <= 0:
            continue
        late += length * excess
        members: dict[int, list[int]] = {}
        for index in demands:
            members.setdefault(weights[index], []).append(index)
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
    mean_late = Fraction(late, combined.hyperperiod)
    return LinkReport(
        name=link.name,
        hyperperiod=combined.hyperperiod,
        contention=Fraction(weighted, combined.hyperperiod),
        unserved=mean_late,
        score=1 - mean_late / link.capacity,
        jobs=len(runs),
        cushion=None if late else _link_cushion(link, runs, combined.hyperperiod),
    ), [_total(volumes) for volumes in unserved]


def _total(volumes: Mapping[int, int]) -> Fraction:
    """Return the sum of numerators given by denominator."""
    common = math.lcm(*volumes)
    return Fraction(sum(volume * (common // each) for each, volume in volumes.items()), common)


def _link_cushion(link: Link, runs: list[ScheduledJob], hyperperiod: int) -> int | None:
    """Return the largest growth of all bursts that an uncontended link bears, None if any."""
    flows = [run.job.links[link.name] for run in runs]
    peaks = [max(phase.rate for phase in run.job.phases) for run in runs]
    if sum(map(mul, flows, peaks)) <= link.capacity:
        return None

    def bears(slots: int) -> bool:
        grown = [run.grown(slots) for run in runs]
        return all(
            sum(flows[index] * rate for index, rate in rates.items()) <= link.capacity
            for _, _, rates in pieces(grown, hyperperiod)
        )

    low, high = 0, max(run.period for run in runs)  # borne, not borne: growth only adds demand
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bears(middle) else (low, middle)
    return low


def _slots_lost(run: ScheduledJob, link: Link, unserved: Fraction) -> Fraction:
    """Return the mean unserved bandwidth as slots of an iteration at the job's mean burst rate."""
    bursting = sum(slots for _, slots, rate in run.pattern if rate)
    mean_rate = Fraction(_volume(run), bursting)
    return unserved * run.period / (run.job.links[link.name] * mean_rate)


def _volume(run: ScheduledJob) -> int:
    """Return the volume of a flow in a period, Mbit/s * slots."""
    return sum(slots * rate for _, slots, rate in run.pattern)


def _latency(unstretched: list[ScheduledJob], reports: list[LinkReport]) -> Fraction:
    """Return the late share of all traffic; 0 where there is no traffic.

    The traffic is that of jobs that are not stretched: stretching must not look like less of it.
    """
    late = sum((report.unserved for report in reports), Fraction(0))
    traffic = sum(
        (
            Fraction(flows * _volume(run), run.period)
            for run in unstretched
            for flows in run.job.links.values()
        ),
        Fraction(0),
    )
    return late / traffic if traffic else Fraction(0)
