"""What a link is asked to carry, slot by slot: arrays for the pictures, no drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance, Job, Link

# A circle or a timeline with more than these cannot be read; it shows the beginning and says so.
MOST_BURSTS = 180  # of one job
MOST_SLOTS = 200_000

LARGEST = 2**62  # Mbit/s; sums stay within 64-bit integers


@dataclass(frozen=True)
class LinkDemand:
    """The demand on one link from slot 0 on.

    Attributes
    ----------
    link
        The link.
    jobs
        Its jobs, heaviest first, in the order of the instance where weights are equal.
    rates
        Mbit/s, of shape (jobs, slots).
    """

    link: Link
    jobs: tuple[Job, ...]
    rates: NDArray[np.int64]

    @property
    def slots(self) -> int:
        """How many slots are covered."""
        return int(self.rates.shape[1])

    @property
    def total(self) -> NDArray[np.int64]:
        """Demand of all jobs together, Mbit/s per slot."""
        return np.asarray(self.rates.sum(axis=0))

    @property
    def overloaded(self) -> NDArray[np.bool_]:
        """Where the demand exceeds the capacity."""
        return np.asarray(self.total > self.link.capacity)


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
    known = ", ".join(show(link.name) for link in instance.links[:3])
    more = ", ..." if len(instance.links) > 3 else ""
    raise InputError(f"link: there is no link {show(name)}; there are {known or 'none'}{more}")


def jobs_of(instance: Instance, link: Link) -> tuple[Job, ...]:
    """Return the jobs of a link in the order in which it serves them: heaviest first."""
    jobs = (instance.jobs[index] for index in instance.jobs_on[link.name])
    return tuple(sorted(jobs, key=lambda job: -job.weight))


def link_demand(
    instance: Instance, offsets: Mapping[str, int], link: Link, slots: int | None = None
) -> LinkDemand:
    """Return the demand of each job on `link` in the first `slots` slots.

    Parameters
    ----------
    instance
        The problem.
    offsets
        Slots per job name, known to be valid.
    link
        A link of the instance.
    slots
        How many slots to cover; the hyperperiod of the link if None. A link repeats itself.

    Raises
    ------
    InputError
        If the numbers are too large for 64-bit integers.
    """
    jobs = jobs_of(instance, link)
    slots = instance.hyperperiods[link.name] if slots is None else slots
    peak = sum(job.links[link.name] * job.peak for job in jobs)
    if max(peak, link.capacity) > LARGEST:
        raise InputError(
            f"link {show(link.name)}: {show(max(peak, link.capacity))} Mbit/s is too much to draw; "
            f"at most {LARGEST}"
        )
    rates = np.zeros((len(jobs), slots), dtype=np.int64)
    for row, job in zip(rates, jobs, strict=True):
        row[:] = np.resize(np.roll(_pattern(job), offsets[job.name]), slots)
        row *= job.links[link.name]
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


def drawn_slots(instance: Instance, link: Link) -> int:
    """Return how much of the hyperperiod of `link` a picture of it can show, in slots."""
    limits = [MOST_BURSTS * job.period // len(job.phases) for job in jobs_of(instance, link)]
    return max(1, min(instance.hyperperiods[link.name], MOST_SLOTS, *limits))


def runs(mask: NDArray[np.bool_], *, closed: bool = False) -> list[tuple[int, int]]:
    """Return (start, length) of each stretch in which `mask` is true.

    Parameters
    ----------
    mask
        Of shape (slots,).
    closed
        Whether the last slot is followed by the first one; a stretch may then end after the last.
    """
    padded = np.concatenate(([False], mask, [False]))
    marks = np.flatnonzero(padded[1:] != padded[:-1])
    found = [(int(a), int(b - a)) for a, b in zip(marks[::2], marks[1::2], strict=True)]
    if closed and len(found) > 1 and mask[0] and mask[-1]:
        start, length = found.pop()
        found[0] = (start, length + found[0][1])
        found.append(found.pop(0))
    return found


def _pattern(job: Job) -> NDArray[np.int64]:
    """Return the rate of one flow in each slot of the period."""
    pattern = np.zeros(job.period, dtype=np.int64)
    for phase in job.phases:
        pattern[phase.start : phase.end] = phase.rate
    return pattern
