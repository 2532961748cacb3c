"""Running jobs as instances; common periods and shifts of jobs that share links.

Two jobs can only be kept apart for good if their periods fit. One job's iteration is the base; the
others take a whole number of bases, or a whole part of it, with idle time at the end. A job that
would have to idle for too long is dropped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.simulation.state import SLOT_MS, SimState

_MAX_PARTS = 8
_MAX_BASES = 12  # after which all repeat together
_MAX_IDLE = 0.1  # of an iteration
_DROPPED = 0.3  # of an iteration: the cost of a job that is dropped


def group_instance(
    state: SimState, periods: Mapping[int, int], links: Iterable[str] | None = None
) -> Instance:
    """Return running jobs, with their periods in slots, as an instance on the grid of policies.

    Without `links` it has all that the jobs use.
    """
    placed = {index: state.running[index] for index in periods}
    if links is None:
        links = dict.fromkeys(link for job in placed.values() for link in job.placement.links)
    capacities = {link: state.room.cluster.capacities[link] for link in links}
    return Instance(
        name="group",
        slot_ms=SLOT_MS,
        links=tuple(Link(name=link, capacity=most) for link, most in capacities.items()),
        jobs=tuple(
            Job(
                name=str(index),
                period=periods[index],
                best_ms=running.job.best.duration,
                max_stretch=periods[index],  # windows may be twice as far apart
                weight=running.job.spec.priority,
                phases=running.phases,
                jitter=state.jitter if (own := running.job.source.jitter) is None else own,
                links={
                    link: flows
                    for link, flows in running.placement.links.items()
                    if link in capacities
                },
            )
            for index, running in placed.items()
        ),
    )


def common_periods(durations: Mapping[int, int], weights: Mapping[int, int]) -> dict[int, int]:
    """Return the periods of the jobs that can keep in step, in slots, by index.

    Durations are iterations without delays, in slots; weights are the cost of a unit of idle time.
    """
    best: dict[int, int] = {}
    minimum = math.inf
    for base in sorted(set(durations.values())):
        periods = _with_base(base, durations)
        idle = sum(
            weights[job] * (periods[job] / duration - 1 if job in periods else _DROPPED)
            for job, duration in durations.items()
        )
        if idle < minimum:
            best, minimum = periods, idle
    return best


def _with_base(base: int, durations: Mapping[int, int]) -> dict[int, int]:
    parts = {job: min(_MAX_PARTS, base // duration) for job, duration in durations.items()}
    fitting = {
        job: count
        for job, count in parts.items()
        if count >= 1 and base / count <= durations[job] * (1 + _MAX_IDLE)
    }
    whole = math.lcm(*fitting.values())
    base = -(-base // whole) * whole
    periods: dict[int, int] = {}
    for job, duration in durations.items():
        period = base // fitting[job] if job in fitting else -(-duration // base) * base
        together = math.lcm(period, base, *periods.values())
        if period <= duration * (1 + _MAX_IDLE) and together <= _MAX_BASES * base:
            periods[job] = period
    return periods


def best_shift(waits: Sequence[float], periods: Sequence[float], weights: Sequence[int]) -> float:
    """Return the shift of all jobs to an earlier time that minimises the weighted sum of waits.

    A wait is the time until the next window of a job, a period that between two of them.
    """

    def cost(by: float) -> float:
        jobs = zip(weights, waits, periods, strict=True)
        return sum(weight * ((wait - by) % period) for weight, wait, period in jobs)

    return min(waits, key=cost, default=0.0)


@dataclass(frozen=True)
class ContentionGroup:
    """Jobs that share contended links, as an instance. Slot 0 is the moment `origin_ms`."""

    instance: Instance
    members: tuple[int, ...]  # indices of the jobs, in the order of the instance's jobs
    ready_ms: tuple[float, ...]  # when they could begin their next iterations, in this order
    origin_ms: float

    @classmethod
    def of(cls, state: SimState, members: Sequence[int]) -> Self | None:
        """Return the members that can keep in step, with their contended links, if any can."""
        contending, _ = _contending(state, members)
        periods = common_periods(
            {index: state.running[index].slots for index in contending},
            {index: max(1, state.running[index].job.spec.priority) for index in contending},
        )
        chosen, links = _contending(state, [index for index in contending if index in periods])
        if len(chosen) < 2:
            return None
        instance = group_instance(state, {index: periods[index] for index in chosen}, links)
        ready = tuple(state.earliest_start(index) for index in chosen)
        return cls(instance, tuple(chosen), ready, state.now)

    def starts(self, offsets: Sequence[int]) -> list[float]:
        """Return when each job is to begin its next iteration, in ms.

        Offsets are in the order of the instance's jobs. All are shifted equally, so that the jobs
        wait as little as possible, weighted by priority.
        """
        slot_ms = self.instance.slot_ms
        periods = [float(job.period * slot_ms) for job in self.instance.jobs]
        waits = [
            (self.origin_ms + offset * slot_ms - ready) % period
            for offset, ready, period in zip(offsets, self.ready_ms, periods, strict=True)
        ]
        by = best_shift(waits, periods, [job.weight for job in self.instance.jobs])
        jobs = zip(self.ready_ms, waits, periods, strict=True)
        return [ready + (wait - by) % period for ready, wait, period in jobs]


def _contending(state: SimState, members: Sequence[int]) -> tuple[list[int], list[str]]:
    """Return the jobs whose bursts exceed the capacity of a link together, and these links."""
    peaks: Counter[str] = Counter()
    for index in members:
        placed = state.running[index]
        peak = max(phase.rate for phase in placed.phases)
        for link, flows in placed.placement.links.items():
            peaks[link] += flows * peak
    capacities = state.room.cluster.capacities
    links = [link for link, peak in peaks.items() if peak > capacities[link]]
    crossing = {index for link in links for index in state.users[link]}
    return [index for index in members if index in crossing], links
