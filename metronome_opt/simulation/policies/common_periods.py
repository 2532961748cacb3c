"""Running jobs as instances; periods and shifts of jobs that share links.

Bursts of two jobs never meet for good only if their periods fit each other. One job's
iteration is the base; the others take a whole number of bases, or a whole part of it, with idle
time at the end. A job that would have to idle for too long is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.simulation.state import SLOT_MS, SimState

_MOST_PARTS = 8
_MOST_BASES = 12  # that all repeat together after
_MOST_IDLE = 0.1  # of an iteration
_LEFT_OUT = 0.3  # of an iteration: the cost of a job that is left out


def group_instance(
    state: SimState, periods: Mapping[int, int], links: Iterable[str] | None = None
) -> Instance:
    """Return running jobs as an instance, as they claim to be, on the grid of policies.

    Parameters
    ----------
    periods
        Period of each job by its index, in slots.
    links
        Links of the instance; all that the jobs use if None.
    """
    placed = {index: state.running[index] for index in periods}
    if links is None:
        links = dict.fromkeys(link for each in placed.values() for link in each.placement.links)
    capacities = {link: state.room.cluster.capacities[link] for link in links}
    return Instance(
        name="group",
        slot_ms=SLOT_MS,
        links=tuple(Link(name=link, capacity=most) for link, most in capacities.items()),
        jobs=tuple(
            Job(
                name=str(index),
                period=periods[index],
                best_ms=each.job.best.duration,
                max_stretch=periods[index],  # slots may be twice as far apart
                weight=each.job.work.priority,
                phases=each.phases,
                jitter=state.jitter if each.job.traffic.jitter is None else each.job.traffic.jitter,
                links={
                    link: flows
                    for link, flows in each.placement.links.items()
                    if link in capacities
                },
            )
            for index, each in placed.items()
        ),
    )


def common_periods(durations: Mapping[int, int], weights: Mapping[int, int]) -> dict[int, int]:
    """Return the period of each job that can keep in step with others, in slots.

    Parameters
    ----------
    durations
        Length of an iteration without delays, in slots.
    weights
        Priorities: a unit of idle time of a job costs as much.
    """
    best: dict[int, int] = {}
    minimum = math.inf
    for base in sorted(set(durations.values())):
        periods = _with_base(base, durations)
        idle = sum(
            weights[job] * (periods[job] / duration - 1 if job in periods else _LEFT_OUT)
            for job, duration in durations.items()
        )
        if idle < minimum:
            best, minimum = periods, idle
    return best


def _with_base(base: int, durations: Mapping[int, int]) -> dict[int, int]:
    parts = {job: min(_MOST_PARTS, base // duration) for job, duration in durations.items()}
    fitting = {
        job: count
        for job, count in parts.items()
        if count >= 1 and base / count <= durations[job] * (1 + _MOST_IDLE)
    }
    whole = math.lcm(*fitting.values())
    base = -(-base // whole) * whole
    periods: dict[int, int] = {}
    for job, duration in durations.items():
        period = base // fitting[job] if job in fitting else -(-duration // base) * base
        together = math.lcm(period, base, *periods.values())
        if period <= duration * (1 + _MOST_IDLE) and together <= _MOST_BASES * base:
            periods[job] = period
    return periods


def best_shift(waits: Sequence[float], periods: Sequence[float], weights: Sequence[int]) -> float:
    """Return by how much to shift all jobs earlier such that the weighted sum of waits is least.

    To shift all leaves everything else as it is.
    """

    def cost(by: float) -> float:
        each = zip(weights, waits, periods, strict=True)
        return sum(weight * ((wait - by) % period) for weight, wait, period in each)

    return min(waits, key=cost, default=0.0)


@dataclass(frozen=True)
class ContentionGroup:
    """Jobs that share contended links, as an instance. Slot 0 is the moment `origin_ms`.

    Attributes
    ----------
    members
        Indices of the jobs, in the order of the instance's jobs.
    ready_ms
        When each of them could begin its next iteration.
    """

    instance: Instance
    members: tuple[int, ...]
    ready_ms: tuple[float, ...]
    origin_ms: float

    @classmethod
    def of(cls, state: SimState, members: Sequence[int]) -> Self | None:
        """Return the members that can keep in step, with their contended links, if any can."""
        contended = _contended_links(state, members)
        meeting = _on_links(state, members, contended)
        periods = common_periods(
            {index: state.running[index].slots for index in meeting},
            {index: max(1, state.running[index].job.work.priority) for index in meeting},
        )
        in_step = [index for index in meeting if index in periods]
        links = _contended_links(state, in_step)
        chosen = _on_links(state, in_step, links)
        if len(chosen) < 2:
            return None
        instance = group_instance(state, {index: periods[index] for index in chosen}, links)
        ready = tuple(state.can_start(index) for index in chosen)
        return cls(instance, tuple(chosen), ready, state.now)

    def starts(self, offsets: Sequence[int]) -> list[float]:
        """Return when each job is to begin its next iteration, in ms.

        Parameters
        ----------
        offsets
            Slots, in the order of the instance's jobs. All are shifted alike, so that the jobs
            wait as little as possible, weighted by priority.
        """
        slot_ms = self.instance.slot_ms
        periods = [float(job.period * slot_ms) for job in self.instance.jobs]
        planned = [self.origin_ms + offset * slot_ms for offset in offsets]
        waits = [
            (plan - ready) % period
            for plan, ready, period in zip(planned, self.ready_ms, periods, strict=True)
        ]
        by = best_shift(waits, periods, [job.weight for job in self.instance.jobs])
        each = zip(self.ready_ms, waits, periods, strict=True)
        return [ready + (wait - by) % period for ready, wait, period in each]


def _on_links(state: SimState, members: Sequence[int], links: Mapping[str, object]) -> list[int]:
    return [
        index
        for index in members
        if not links.keys().isdisjoint(state.running[index].placement.links)
    ]


def _contended_links(state: SimState, members: Sequence[int]) -> dict[str, None]:
    peaks: dict[str, int] = {}
    for index in members:
        placed = state.running[index]
        peak = max(phase.rate for phase in placed.phases)
        for link, flows in placed.placement.links.items():
            peaks[link] = peaks.get(link, 0) + flows * peak
    return {
        link: None for link, peak in peaks.items() if peak > state.room.cluster.capacities[link]
    }
