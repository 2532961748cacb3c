"""Demand on links before and after, slot by slot: numbers for pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import index

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance, Job, Link
from metronome_opt.plot.style import gigabits, shorten
from metronome_opt.verify import Evaluation, evaluate

# A circle or a timeline with more than these cannot be read; it shows the beginning and says so.
_MOST_BURSTS = 180  # of one job
_MOST_SLOTS = 200_000

_LARGEST = 2**62  # Mbit/s; sums stay within 64-bit integers


@dataclass(frozen=True)
class Side:
    """One of two schedules of an instance, ``before`` or ``after``, and what the judge says."""

    name: str
    instance: Instance
    offsets: Mapping[str, int]
    evaluation: Evaluation

    @property
    def contention(self) -> dict[str, Fraction]:
        """The contention of each link."""
        return {report.name: report.contention for report in self.evaluation.links}

    def demand(self, link: Link, slots: int | None = None) -> LinkDemand:
        """Return the demand on a link; see `link_demand`."""
        return link_demand(self.instance, self.offsets, link, slots)


def compare(
    instance: Instance, before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[Side, Side]:
    """Check and judge two sets of offsets.

    Raises
    ------
    InputError
        If an offset is missing, of an unknown job, out of range or not an integer.
    """
    return judge(instance, "before", before), judge(instance, "after", after)


def judge(
    instance: Instance,
    name: str,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int] | None = None,
    stretch_limit: Fraction | None = None,
) -> Side:
    """Check and judge one set of offsets, called ``before`` or ``after``; see `evaluate`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, of an unknown job, out of range or not an integer.
    """
    try:
        whole = _integers("offsets", offsets)
        idle = _integers("stretch", stretch or {})
        judged = evaluate(instance, whole, idle, stretch_limit=stretch_limit)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return Side(name, instance, whole, judged)


def _integers(field: str, values: Mapping[str, int]) -> dict[str, int]:
    whole = {}
    for job, value in values.items():
        try:
            whole[job] = index(value)
        except TypeError:
            told = f"{field}.{job}: must be an integer, got {quote(value)}"
            raise InputError(told) from None
    return whole


# ------------------------------------------------------------------ links


def find_link(instance: Instance, name: str) -> Link:
    """Return the link called `name`.

    Raises
    ------
    InputError
        If there is none.
    """
    for link in instance.links:
        if link.name == name:
            return link
    known = ", ".join(quote(link.name) for link in instance.links[:3])
    more = ", ..." if len(instance.links) > 3 else ""
    raise InputError(f"link: there is no link {quote(name)}; there are {known or 'none'}{more}")


def most_contended(side: Side) -> Link | None:
    """Return the link with the largest contention, ties by name; None if no job uses a link."""
    used = [link for link in side.instance.links if side.instance.jobs_on[link.name]]
    contention = side.contention
    return min(used, key=lambda link: (-contention[link.name], link.name), default=None)


def busiest_link(instance: Instance, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return the name of the link that was most contended before, ties by name.

    Links without jobs are never chosen.

    Raises
    ------
    InputError
        If an offset of either schedule is wrong or no link has a job.
    """
    link = most_contended(compare(instance, before, after)[0])
    if link is None:
        raise InputError(f"instance {quote(instance.name)}: no job uses a link, nothing to draw")
    return link.name


def _jobs_of(instance: Instance, link: Link) -> tuple[Job, ...]:
    """Return the jobs of a link in the order in which it serves them: heaviest first."""
    jobs = (instance.jobs[index] for index in instance.jobs_on[link.name])
    return tuple(sorted(jobs, key=lambda job: -job.weight))


def drawn_slots(instance: Instance, link: Link) -> int:
    """Return how much of the hyperperiod of `link` a picture of it can show, in slots."""
    limits = [_MOST_BURSTS * job.period // len(job.phases) for job in _jobs_of(instance, link)]
    return max(1, min(instance.hyperperiods[link.name], _MOST_SLOTS, *limits))


def milliseconds(instance: Instance, slots: float) -> str:
    """Return a number of slots as a time."""
    return f"{slots * instance.slot_ms:,.10g} ms"


def link_title(instance: Instance, link: Link) -> str:
    """Return what a picture of one link says above both halves."""
    hyperperiod, slots = instance.hyperperiods[link.name], drawn_slots(instance, link)
    whole = f"hyperperiod {milliseconds(instance, hyperperiod)}"
    cut = "" if slots == hyperperiod else f", of which the first {milliseconds(instance, slots)}"
    return f"Link {shorten(link.name, 60)}: capacity {gigabits(link.capacity)}, {whole}{cut}"


def job_labels(instance: Instance, link: Link) -> list[str]:
    """Return what a legend says of the jobs of a link, numbered as in the picture."""
    labels = []
    for number, job in enumerate(_jobs_of(instance, link), start=1):
        flows = job.links[link.name]
        many = f", {flows} flows" if flows > 1 else ""
        labels.append(f"{number}  {shorten(job.name)} (weight {job.weight}{many})")
    return labels


# ------------------------------------------------------------------ slots


@dataclass(frozen=True)
class LinkDemand:
    """The demand on one link from slot 0 on.

    Attributes
    ----------
    jobs
        Its jobs, heaviest first, in the order of the instance where weights are equal.
    rates
        Mbit/s, of shape (jobs, slots).
    """

    link: Link
    jobs: tuple[Job, ...]
    rates: NDArray[np.int64]

    @property
    def total(self) -> NDArray[np.int64]:
        """Demand of all jobs together, Mbit/s per slot."""
        return np.asarray(self.rates.sum(axis=0))

    @property
    def overloaded(self) -> NDArray[np.bool_]:
        """Where the demand exceeds the capacity."""
        return np.asarray(self.total > self.link.capacity)


def link_demand(
    instance: Instance, offsets: Mapping[str, int], link: Link, slots: int | None = None
) -> LinkDemand:
    """Return the demand of each job on `link` in the first `slots` slots.

    Parameters
    ----------
    offsets
        Slots per job name, known to be valid.
    slots
        How many slots to cover; the hyperperiod of the link if None. A link repeats itself.

    Raises
    ------
    InputError
        If the numbers are too large for 64-bit integers.
    """
    jobs = _jobs_of(instance, link)
    slots = instance.hyperperiods[link.name] if slots is None else slots
    peak = sum(job.links[link.name] * job.peak for job in jobs)
    if max(peak, link.capacity) > _LARGEST:
        raise InputError(
            f"link {quote(link.name)}: {quote(max(peak, link.capacity))} Mbit/s is too much to "
            f"draw; at most {_LARGEST}"
        )
    rates = np.zeros((len(jobs), slots), dtype=np.int64)
    for row, job in zip(rates, jobs, strict=True):
        pattern = np.zeros(job.period, dtype=np.int64)
        for phase in job.phases:
            pattern[phase.start : phase.end] = phase.rate
        row[:] = np.resize(np.roll(pattern, offsets[job.name]), slots) * job.links[link.name]
    return LinkDemand(link, jobs, rates)


def bursts(job: Job, offset: int, slots: int) -> list[tuple[int, int, int]]:
    """Return (start, length, rate) of each burst of `job` that starts in ``[0, slots)``.

    If `slots` is a multiple of the period, the last burst may end after it: on a circle it comes
    round to the beginning. Otherwise what lies outside is cut off.
    """
    closed = slots % job.period == 0
    found = []
    for turn in range(-1, math.ceil(slots / job.period)):
        for phase in job.phases:
            start = offset + turn * job.period + phase.start
            end = start + phase.length
            if closed:
                if 0 <= start < slots:
                    found.append((start, phase.length, phase.rate))
            elif end > 0 and start < slots:
                begin = max(start, 0)
                found.append((begin, min(end, slots) - begin, phase.rate))
    return sorted(found)


def runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (start, length) of each stretch in which `mask`, of shape (slots,), is true."""
    marks = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return [(int(a), int(b - a)) for a, b in zip(marks[::2], marks[1::2], strict=True)]
