"""The objectives of a schedule, from the definitions, in exact arithmetic.

A demand is looked up slot by slot in the pattern of its job, the unserved bandwidth is taken from
the lightest jobs first (the linear program that defines contention, solved as it stands), and only
slots in which all jobs of a link burst at the same rates are counted at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance, Job, Link
from metronome_opt.schedule import OBJECTIVES


@dataclass(frozen=True)
class Violation:
    """A statement of a schedule file that is not true."""

    place: str
    stated: str
    truth: str

    def __str__(self) -> str:
        return f"{self.place}: stated {self.stated}, but {self.truth}"


@dataclass(frozen=True)
class LinkReport:
    """Load and contention of one link.

    Attributes
    ----------
    hyperperiod
        Slots after which the link repeats itself.
    contention
        Mean weighted unserved bandwidth, weight * Mbit/s.
    late
        Mean unserved bandwidth without priorities, Mbit/s.
    score
        CASSINI's compatibility, ``1 - late / capacity``.
    jobs
        How many jobs use the link.
    cushion
        The largest number of slots by which every burst may grow before the link is overloaded;
        None where the link is overloaded already or never can be.
    """

    name: str
    hyperperiod: int
    contention: Fraction
    late: Fraction
    score: Fraction
    jobs: int
    cushion: int | None


@dataclass(frozen=True)
class Evaluation:
    """Every objective and what leads to it, exact; docs/model.md defines them.

    Attributes
    ----------
    objectives
        Value per objective; the cushion is None when nothing limits it.
    links
        One report per link, in the order of the instance.
    elongation
        Predicted slots by which an iteration of each job grows.
    unserved
        Mean unserved bandwidth of each job, heaviest served first, summed over its links, Mbit/s.
    """

    objectives: Mapping[str, Fraction | None]
    links: tuple[LinkReport, ...]
    elongation: Mapping[str, Fraction]
    unserved: Mapping[str, Fraction]

    @property
    def contention(self) -> Fraction:
        """The contention, for short."""
        value = self.objectives["contention"]
        assert value is not None  # noqa: S101 (only the cushion can be None)
        return value

    @property
    def scores(self) -> tuple[Fraction, ...]:
        """Compatibility scores of the shared links, those with more than one job."""
        return tuple(link.score for link in self.links if link.jobs > 1)

    @property
    def score_mean(self) -> Fraction | None:
        """Mean compatibility over the shared links; None where no link is shared."""
        return sum(self.scores, Fraction(0)) / len(self.scores) if self.scores else None

    @property
    def score_min(self) -> Fraction | None:
        """Smallest compatibility over the shared links; None where no link is shared."""
        return min(self.scores, default=None)


def evaluate(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int] | None = None,
    *,
    longer: int = 0,
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
    longer
        Slots by which every burst is longer than the instance says; everything is then that of
        the longer bursts. A burst as long as the stretched period does not grow any further.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, unknown or out of range, if `longer` is negative, or
        if stretched periods make a hyperperiod longer than the limit of the instance.
    """
    stretch = stretch or {}
    if longer < 0:
        raise InputError(f"longer: must be at least 0, got {quote(longer)}; bursts cannot shrink")
    faults = assignment_faults(instance, offsets, stretch, stretch_limit)
    if faults:
        raise InputError(str(faults[0]))
    check_hyperperiods(instance, instance.jobs, stretch)
    runs = [Run(job, offsets[job.name], stretch.get(job.name, 0), longer) for job in instance.jobs]
    elongation = {run.job.name: Fraction(run.stretch) for run in runs}
    missing = {run.job.name: Fraction(0) for run in runs}
    reports = []
    users_of: dict[str, list[Run]] = {link.name: [] for link in instance.links}
    for run in runs:
        for name in run.job.links:
            users_of[name].append(run)
    seen: dict[tuple[str, ...], _Rates] = {}  # links of the same jobs see the same rates
    for link in instance.links:
        users = users_of[link.name]
        names = tuple(run.job.name for run in users)
        if names not in seen:
            seen[names] = _Rates.of(users)
        report, unserved = _judge_link(link, users, seen[names])
        reports.append(report)
        for run, volume in zip(users, unserved, strict=True):
            mean = volume / report.hyperperiod
            missing[run.job.name] += mean
            elongation[run.job.name] += _slots_lost(run, link, mean)
    cushions = [report.cushion for report in reports if report.cushion is not None]
    weights = {job.name: job.weight for job in instance.jobs}
    objectives: dict[str, Fraction | None] = {
        "contention": sum((report.contention for report in reports), Fraction(0)),
        "latency": _latency([Run(job, 0, 0, longer) for job in instance.jobs], reports),
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
        MappingProxyType(missing),
    )


def assignment_faults(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
    stretch_limit: Fraction | None,
) -> list[Violation]:
    """Return the offsets and stretches that are missing, unknown or out of range."""
    faults = []
    jobs = {job.name: job for job in instance.jobs}
    for field, values in (("offsets", offsets), ("stretch", stretch)):
        for name, value in values.items():
            if name not in jobs:
                faults.append(Violation(f"{field}.{quote(name)}", quote(value), "no such job"))
    for name, job in jobs.items():
        idle = stretch.get(name, 0)
        # No period is above the limit of the instance, whatever share of it is allowed.
        share = math.floor((stretch_limit or 0) * job.period)
        maximum = max(job.max_stretch, min(share, instance.hyperperiod_limit - job.period))
        place = f"offsets.{name}"
        if not 0 <= idle <= maximum:
            faults.append(
                Violation(f"stretch.{name}", quote(idle), f"it must be in [0, {maximum}]")
            )
        elif name not in offsets:
            faults.append(Violation(place, "nothing", "every job needs an offset"))
        elif not 0 <= offsets[name] < job.period + idle:
            within = f"it must be in [0, {job.period + idle})"
            faults.append(Violation(place, quote(offsets[name]), within))
        elif job.fixed_offset not in (None, offsets[name]):
            fixed = f"the job is fixed at {job.fixed_offset}"
            faults.append(Violation(place, quote(offsets[name]), fixed))
    return faults


def check_hyperperiods(instance: Instance, jobs: Iterable[Job], stretch: Mapping[str, int]) -> None:
    """Refuse stretched periods whose common multiple would take for ever to walk through."""
    for name, length in too_long(instance, jobs, stretch):
        raise InputError(
            f"stretch: makes the hyperperiod of link {quote(name)} {quote(length)} slots, "
            f"above the limit of {instance.hyperperiod_limit}; "
            "choose stretches that give common periods"
        )


def too_long(
    instance: Instance, jobs: Iterable[Job], stretch: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """Yield (link, hyperperiod) of the links on which that of some jobs exceeds the limit."""
    periods_on: dict[str, set[int]] = {link.name: set() for link in instance.links}
    for job in jobs:
        for name in job.links:
            periods_on[name].add(job.period + stretch.get(job.name, 0))
    for link in instance.links:
        length = math.lcm(*periods_on[link.name])
        if length > instance.hyperperiod_limit:
            yield link.name, length


class Run:
    """A job as it runs: its offset, its stretched period, its pattern over one period."""

    def __init__(self, job: Job, offset: int, stretch: int, longer: int) -> None:
        self.job = job
        self.offset = offset
        self.stretch = stretch
        self.longer = longer
        self.period = job.period + stretch
        self.rates = [0] * self.period
        for phase in job.phases:
            for slot in range(phase.start, phase.start + min(phase.length + longer, self.period)):
                # A burst that grows into another one of its job does not add to it.
                within = slot % self.period
                self.rates[within] = max(self.rates[within], phase.rate)

    def grown(self, slots: int) -> Run:
        """Return the job with bursts that are longer still."""
        return Run(self.job, self.offset, self.stretch, self.longer + slots)

    def rate(self, slot: int) -> int:
        """Return the rate of a flow in a slot."""
        return self.rates[(slot - self.offset) % self.period]

    def changes(self, hyperperiod: int) -> Iterator[int]:
        """Yield the slots in [0, hyperperiod) at which the rate differs from the slot before."""
        within = [x for x in range(self.period) if self.rates[x] != self.rates[x - 1]]
        for begin in range(0, hyperperiod, self.period):
            for x in within:
                yield (begin + x + self.offset) % hyperperiod


def pieces(runs: list[Run], hyperperiod: int) -> Iterator[tuple[int, int]]:
    """Yield (slot, length) of the pieces of a hyperperiod in which no demand changes."""
    marks = sorted({0, *(slot for run in runs for slot in run.changes(hyperperiod))})
    yield from (
        (slot, following - slot)
        for slot, following in zip(marks, [*marks[1:], hyperperiod], strict=True)
    )


@dataclass(frozen=True)
class _Rates:
    """Rates of the jobs of a link in a hyperperiod: combinations, and the slots that each takes.

    Attributes
    ----------
    hyperperiod
        Of these jobs, in slots.
    slots
        For the rates of a flow of each job, Mbit/s, in how many slots they are these.
    """

    hyperperiod: int
    slots: Mapping[tuple[int, ...], int]

    @classmethod
    def of(cls, runs: list[Run]) -> _Rates:
        """Return those of some jobs."""
        hyperperiod = math.lcm(*(run.period for run in runs))
        slots: Counter[tuple[int, ...]] = Counter()
        for slot, length in pieces(runs, hyperperiod):
            slots[tuple([run.rate(slot) for run in runs])] += length
        return cls(hyperperiod, slots)


def _judge_link(link: Link, runs: list[Run], seen: _Rates) -> tuple[LinkReport, list[Fraction]]:
    """Return the link's report and each run's unserved volume in a hyperperiod."""
    flows = [run.job.links[link.name] for run in runs]
    weights = [run.job.weight for run in runs]
    weighted = 0
    late = 0
    unserved = [Fraction(0)] * len(runs)
    for rates, length in seen.slots.items():
        demands = [count * rate for count, rate in zip(flows, rates, strict=True)]
        excess = max(0, sum(demands) - link.capacity)
        if not excess:
            continue
        late += length * excess
        for weight in sorted(set(weights)):
            members = [index for index, value in enumerate(weights) if value == weight]
            demand = sum(demands[index] for index in members)
            taken = min(demand, excess)
            excess -= taken
            weighted += length * weight * taken
            for index in members:
                if taken:
                    unserved[index] += Fraction(length * taken * demands[index], demand)
    mean_late = Fraction(late, seen.hyperperiod)
    return LinkReport(
        name=link.name,
        hyperperiod=seen.hyperperiod,
        contention=Fraction(weighted, seen.hyperperiod),
        late=mean_late,
        score=1 - mean_late / link.capacity,
        jobs=len(runs),
        cushion=None if late else _link_cushion(link, runs, seen.hyperperiod),
    ), unserved


def _link_cushion(link: Link, runs: list[Run], hyperperiod: int) -> int | None:
    """Return the largest growth of all bursts that an uncontended link bears, None if any."""
    if sum(run.job.links[link.name] * max(run.rates) for run in runs) <= link.capacity:
        return None

    def bears(slots: int) -> bool:
        grown = [run.grown(slots) for run in runs]
        return all(
            sum(run.job.links[link.name] * run.rate(slot) for run in grown) <= link.capacity
            for slot, _ in pieces(grown, hyperperiod)
        )

    low, high = 0, max(run.period for run in runs)  # borne, not borne: growth only adds demand
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bears(middle) else (low, middle)
    return low


def _slots_lost(run: Run, link: Link, unserved: Fraction) -> Fraction:
    """Return the mean unserved bandwidth as slots of an iteration at the job's mean burst rate."""
    bursting = sum(rate > 0 for rate in run.rates)
    mean_rate = Fraction(sum(run.rates), bursting)
    return unserved * run.period / (run.job.links[link.name] * mean_rate)


def _latency(unstretched: list[Run], reports: list[LinkReport]) -> Fraction:
    """Return the late share of all traffic; 0 where there is no traffic to be late.

    The traffic is that of jobs that are not stretched: stretching must not look like less of it.
    """
    late = sum((report.late for report in reports), Fraction(0))
    traffic = sum(
        (
            Fraction(flows * sum(run.rates), run.period)
            for run in unstretched
            for flows in run.job.links.values()
        ),
        Fraction(0),
    )
    return late / traffic if traffic else Fraction(0)
