"""The judge: every number of a schedule, from the definitions, in exact arithmetic.

Nothing here is shared with a solver or a kernel, and nothing is clever: a demand is looked up slot
by slot in the pattern of its job, the unserved bandwidth is taken from the lightest jobs first
(the linear program that defines contention, solved as it stands), and only stretches of time in
which no demand changes are counted at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance, Job, Link
from metronome_opt.schedule import OBJECTIVES, Schedule, Status

_SLOWDOWN = "slowdown"  # simulated, so that `evaluate` does not have it


@dataclass(frozen=True)
class LinkReport:
    """What a schedule does to one link.

    Attributes
    ----------
    hyperperiod
        Slots after which the link repeats itself.
    contention
        Mean weighted unserved bandwidth, weight * Mbit/s.
    late
        Mean unserved bandwidth, nobody preferred, Mbit/s.
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


@dataclass(frozen=True)
class Falsehood:
    """A statement of a schedule file that is not true."""

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
        raise InputError(f"longer: must be at least 0, got {show(longer)}; bursts cannot shrink")
    faults = _assignment_faults(instance, offsets, stretch, stretch_limit)
    if faults:
        raise InputError(str(faults[0]))
    _check_hyperperiods(instance, instance.jobs, stretch)
    runs = [_Run(job, offsets[job.name], stretch.get(job.name, 0), longer) for job in instance.jobs]
    elongation = {run.job.name: Fraction(run.stretch) for run in runs}
    missing = {run.job.name: Fraction(0) for run in runs}
    reports = []
    for link in instance.links:
        users = [run for run in runs if link.name in run.job.links]
        report, unserved = _judge_link(link, users)
        reports.append(report)
        for run, volume in zip(users, unserved, strict=True):
            mean = volume / report.hyperperiod
            missing[run.job.name] += mean
            elongation[run.job.name] += _slots_lost(run, link, mean)
    cushions = [report.cushion for report in reports if report.cushion is not None]
    weights = {job.name: job.weight for job in instance.jobs}
    objectives: dict[str, Fraction | None] = {
        "contention": sum((report.contention for report in reports), Fraction(0)),
        "latency": _latency([_Run(job, 0, 0, longer) for job in instance.jobs], reports),
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


def check(instance: Instance, schedule: Schedule) -> tuple[Falsehood, ...]:
    """Return every statement of `schedule` that is not true of `instance`; empty if all are.

    A lower bound cannot be proved by looking at it. It is false if it exceeds the value, and a
    schedule that calls itself optimal must state a bound that meets its value. What a schedule
    with a reserved cushion states is held against the longer bursts that it was made for.

    Iteration times are simulated, which nobody repeats here. They are false where they are known
    without, and a slowdown is false if it is not that of the stated times.
    """
    faults: list[Falsehood] = []
    if schedule.instance != instance.name:
        faults.append(
            Falsehood("instance", show(schedule.instance), f"the instance is {show(instance.name)}")
        )
    if schedule.status is Status.INFEASIBLE:
        faults.append(Falsehood("status", "infeasible", "every choice of offsets is a schedule"))
    if schedule.status in (Status.INFEASIBLE, Status.UNKNOWN):
        faults.extend(
            Falsehood(field, "values", f"the status is {schedule.status}")
            for field in ("offsets", "stretch", "objectives", "gated", "expected_ms")
            if getattr(schedule, field)
        )
        return (*faults, *_refuted_bound(instance, schedule))
    wrong = _assignment_faults(instance, schedule.offsets, schedule.stretch, schedule.stretch_limit)
    if wrong:
        return (*faults, *wrong)
    faults.extend(_gated_faults(instance, schedule))
    faults.extend(_expected_faults(instance, schedule))
    truth = _truth(instance, schedule)
    for name, stated in schedule.objectives.items():
        known = name in truth
        if not known or stated != truth[name]:
            right = f"it is {_written(truth[name])}" if known else "there is no such objective"
            place = f"objectives.{name if known else show(name)}"
            faults.append(Falsehood(place, _written(stated), right))
    faults.extend(_bound_faults(schedule, truth))
    if not any(fault.place == "lower_bound" for fault in faults):
        faults.extend(_refuted_bound(instance, schedule))
    return tuple(faults)


# ------------------------------------------------------------------ the definitions


class _Run:
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

    def grown(self, slots: int) -> _Run:
        """Return the job with bursts that are longer still."""
        return _Run(self.job, self.offset, self.stretch, self.longer + slots)

    def rate(self, slot: int) -> int:
        return self.rates[(slot - self.offset) % self.period]

    def changes(self, hyperperiod: int) -> Iterator[int]:
        """Yield the slots in [0, hyperperiod) at which the rate differs from the slot before."""
        within = [x for x in range(self.period) if self.rates[x] != self.rates[x - 1]]
        for begin in range(0, hyperperiod, self.period):
            for x in within:
                yield (begin + x + self.offset) % hyperperiod


def _pieces(runs: list[_Run], hyperperiod: int) -> Iterator[tuple[int, int]]:
    """Yield (slot, length) of the pieces of a hyperperiod in which no demand changes."""
    marks = sorted({0, *(slot for run in runs for slot in run.changes(hyperperiod))})
    yield from (
        (slot, following - slot)
        for slot, following in zip(marks, [*marks[1:], hyperperiod], strict=True)
    )


def _judge_link(link: Link, runs: list[_Run]) -> tuple[LinkReport, list[Fraction]]:
    """Return the link's report and each run's unserved volume in a hyperperiod."""
    hyperperiod = math.lcm(*(run.period for run in runs))
    flows = [run.job.links[link.name] for run in runs]
    weights = [run.job.weight for run in runs]
    weighted = 0
    late = 0
    unserved = [Fraction(0)] * len(runs)
    for slot, length in _pieces(runs, hyperperiod):
        demands = [count * run.rate(slot) for count, run in zip(flows, runs, strict=True)]
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
    mean_late = Fraction(late, hyperperiod)
    return LinkReport(
        name=link.name,
        hyperperiod=hyperperiod,
        contention=Fraction(weighted, hyperperiod),
        late=mean_late,
        score=1 - mean_late / link.capacity,
        jobs=len(runs),
        cushion=None if late else _link_cushion(link, runs, hyperperiod),
    ), unserved


def _link_cushion(link: Link, runs: list[_Run], hyperperiod: int) -> int | None:
    """Return the largest growth of all bursts that an uncontended link bears, None if any."""
    if sum(run.job.links[link.name] * max(run.rates) for run in runs) <= link.capacity:
        return None

    def bears(slots: int) -> bool:
        grown = [run.grown(slots) for run in runs]
        return all(
            sum(run.job.links[link.name] * run.rate(slot) for run in grown) <= link.capacity
            for slot, _ in _pieces(grown, hyperperiod)
        )

    low, high = 0, max(run.period for run in runs)  # borne, not borne: growth only adds demand
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bears(middle) else (low, middle)
    return low


def _slots_lost(run: _Run, link: Link, unserved: Fraction) -> Fraction:
    """Return the mean unserved bandwidth as slots of an iteration at the job's mean burst rate."""
    bursting = sum(rate > 0 for rate in run.rates)
    mean_rate = Fraction(sum(run.rates), bursting)
    return unserved * run.period / (run.job.links[link.name] * mean_rate)


def _latency(unstretched: list[_Run], reports: list[LinkReport]) -> Fraction:
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


# ------------------------------------------------------------------ statements


def _truth(instance: Instance, schedule: Schedule) -> dict[str, Fraction | None]:
    """Return the true values of what is stated."""
    truth: dict[str, Fraction | None] = {}
    # Jobs that run freely may have no common hyperperiod with the others, so that only what is
    # asked for is computed.
    if any(name in OBJECTIVES for name in schedule.objectives or (schedule.first,)):
        judged = evaluate(
            instance,
            schedule.offsets,
            schedule.stretch,
            longer=schedule.cushion_slots,
            stretch_limit=schedule.stretch_limit,
        )
        truth.update(judged.objectives)
    if _SLOWDOWN in schedule.objectives:
        times = schedule.expected_ms or {}
        whole = all(job.name in times for job in instance.jobs)  # else that is the fault
        stated = schedule.objectives[_SLOWDOWN]
        truth[_SLOWDOWN] = _slowdown(instance, times) if whole else stated
    return truth


def _slowdown(instance: Instance, expected_ms: Mapping[str, Fraction]) -> Fraction:
    """Return the weighted mean of iteration time over period, unweighted if all weights are 0."""
    alike = not any(job.weight for job in instance.jobs)
    weights = {job.name: 1 if alike else job.weight for job in instance.jobs}
    total = sum(
        (
            weights[job.name] * expected_ms[job.name] / (instance.slot_ms * job.period)
            for job in instance.jobs
        ),
        Fraction(0),
    )
    return total / sum(weights.values())


def _gated_faults(instance: Instance, schedule: Schedule) -> Iterator[Falsehood]:
    """Yield what is false of the jobs that keep slots: each link must bear them together."""
    if schedule.gated is None:
        return
    wrong = list(_naming_faults(instance, "gated", schedule.gated))
    yield from wrong
    if wrong:
        return
    kept = [job for job in instance.jobs if schedule.gated[job.name]]
    _check_hyperperiods(instance, kept, schedule.stretch)
    runs = [
        _Run(
            job,
            schedule.offsets[job.name],
            schedule.stretch.get(job.name, 0),
            schedule.cushion_slots,
        )
        for job in kept
    ]
    for link in instance.links:
        users = [run for run in runs if link.name in run.job.links]
        for slot, _ in _pieces(users, math.lcm(*(run.period for run in users))):
            demands = {
                run.job.name: run.job.links[link.name] * run.rate(slot)
                for run in users
                if run.rate(slot)
            }
            asked = sum(demands.values())
            if asked > link.capacity:
                yield Falsehood(
                    "gated",
                    f"jobs {', '.join(demands)} keep slots on link {link.name}",
                    f"at slot {slot} they ask for {asked} of its {link.capacity} Mbit/s",
                )
                break


def _expected_faults(instance: Instance, schedule: Schedule) -> Iterator[Falsehood]:
    """Yield iteration times that cannot be: nobody is faster than alone, or than its slots."""
    expected_ms = schedule.expected_ms
    if expected_ms is None:
        if _SLOWDOWN in schedule.objectives:
            yield Falsehood("expected_ms", "nothing", "a slowdown is that of these times")
        return
    wrong = list(_naming_faults(instance, "expected_ms", expected_ms))
    yield from wrong
    if wrong:
        return
    for job in instance.jobs:
        slots = job.period
        if schedule.gated and schedule.gated.get(job.name):
            slots += schedule.stretch.get(job.name, 0)
        if expected_ms[job.name] < instance.slot_ms * slots:
            yield Falsehood(
                f"expected_ms.{job.name}",
                str(expected_ms[job.name]),
                f"it takes {instance.slot_ms * slots} ms at least",
            )


def _naming_faults(
    instance: Instance, field: str, values: Mapping[str, object]
) -> Iterator[Falsehood]:
    """Yield where a field does not name exactly the jobs of the instance."""
    jobs = {job.name for job in instance.jobs}
    for name, value in values.items():
        if name not in jobs:
            yield Falsehood(f"{field}.{show(name)}", str(value), "no such job")
    for job in instance.jobs:
        if job.name not in values:
            yield Falsehood(f"{field}.{job.name}", "nothing", "all jobs are named or none")


def _assignment_faults(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
    stretch_limit: Fraction | None,
) -> list[Falsehood]:
    faults = []
    jobs = {job.name: job for job in instance.jobs}
    for field, values in (("offsets", offsets), ("stretch", stretch)):
        for name, value in values.items():
            if name not in jobs:
                faults.append(Falsehood(f"{field}.{show(name)}", show(value), "no such job"))
    for name, job in jobs.items():
        idle = stretch.get(name, 0)
        # No period is above the limit of the instance, whatever share of it is allowed.
        share = math.floor((stretch_limit or 0) * job.period)
        most = max(job.max_stretch, min(share, instance.hyperperiod_limit - job.period))
        if not 0 <= idle <= most:
            faults.append(Falsehood(f"stretch.{name}", show(idle), f"it must be in [0, {most}]"))
            continue
        if name not in offsets:
            faults.append(Falsehood(f"offsets.{name}", "nothing", "every job needs an offset"))
        elif not 0 <= offsets[name] < job.period + idle:
            faults.append(
                Falsehood(
                    f"offsets.{name}",
                    show(offsets[name]),
                    f"it must be in [0, {job.period + idle})",
                )
            )
        elif job.fixed_offset is not None and offsets[name] != job.fixed_offset:
            faults.append(
                Falsehood(
                    f"offsets.{name}",
                    show(offsets[name]),
                    f"the job is fixed at {job.fixed_offset}",
                )
            )
    return faults


def _check_hyperperiods(
    instance: Instance, jobs: Iterable[Job], stretch: Mapping[str, int]
) -> None:
    """Refuse stretched periods whose common multiple would take for ever to walk through."""
    for name, length in _too_long(instance, jobs, stretch):
        raise InputError(
            f"stretch: makes the hyperperiod of link {show(name)} {show(length)} slots, "
            f"above the limit of {instance.hyperperiod_limit}; "
            "choose stretches that give common periods"
        )


def _too_long(
    instance: Instance, jobs: Iterable[Job], stretch: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """Yield (link, hyperperiod) of the links on which that of some jobs exceeds the limit."""
    jobs = list(jobs)
    for link in instance.links:
        users = [job for job in jobs if link.name in job.links]
        length = math.lcm(*(job.period + stretch.get(job.name, 0) for job in users))
        if length > instance.hyperperiod_limit:
            yield link.name, length


def _bound_faults(schedule: Schedule, truth: Mapping[str, Fraction | None]) -> Iterator[Falsehood]:
    value = truth.get(schedule.first)
    bound = schedule.lower_bound
    if value is None:
        return
    if bound is not None and bound > value and schedule.first != "cushion":
        yield Falsehood("lower_bound", str(bound), f"the {schedule.first} is only {value}")
    if schedule.status is Status.OPTIMAL and bound != value:
        yield Falsehood(
            "status", "optimal", f"the lower bound is {bound} and the {schedule.first} {value}"
        )


def _refuted_bound(instance: Instance, schedule: Schedule) -> Iterator[Falsehood]:
    """Yield a fault if the unshifted schedule is better than a lower bound says any can be."""
    bound = schedule.lower_bound
    if bound is None or schedule.first not in OBJECTIVES or schedule.first == "cushion":
        return
    if any(_too_long(instance, instance.jobs, {})):
        return  # jobs that have to be stretched: nobody knows what unshifted ones come to
    judged = evaluate(instance, instance.unshifted, longer=schedule.cushion_slots)
    value = judged.objectives[schedule.first]
    if value is not None and bound > value:
        yield Falsehood("lower_bound", str(bound), f"the {schedule.first} unshifted is {value}")


def _written(value: Fraction | None) -> str:
    return "null" if value is None else str(value)
