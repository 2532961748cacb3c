"""Instances of jobs that share links, and slots from their offsets.

Bursts of two jobs can only be kept apart for good if their periods fit each other. One job's
iteration is the base; the others take a whole number of bases, or a whole part of it, with idle
time at the end. A job that would have to idle for too long is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

import numpy as np

from metronome_opt.engine.runner import Lateness, Slot
from metronome_opt.instance import Instance, Job, Link
from metronome_opt.kernels.jobs import put_job, score_use
from metronome_opt.kernels.sliding import first_offset, roomiest_offset
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.simulate.state import SLOT_MS, Running, SimState
from metronome_opt.verify import evaluate

_MOST_PARTS = 8
_MOST_BASES = 12  # that all repeat together after
_LEFT_OUT = 0.3  # of an iteration: what a job costs that is left out


def common_periods(
    durations: Mapping[int, int],
    weights: Mapping[int, int],
    *,
    most_idle: float = 0.1,
    fixed: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Return the period of each job that can keep in step with others, in slots.

    Parameters
    ----------
    durations
        Length of an iteration that nothing holds up, in slots.
    weights
        Priorities: who is to idle less.
    most_idle
        The largest share of an iteration that a job may idle for.
    fixed
        Jobs that keep the period they have, as long as they keep in step with one another; one of
        theirs is the base.
    """
    fixed = fixed or {}
    bases = sorted(set((fixed or durations).values()))
    best: dict[int, int] = {}
    least = math.inf
    for base in bases:
        found = _with_base(base, durations, most_idle, fixed)
        idle = sum(
            weights[job] * (found[job] / duration - 1 if job in found else _LEFT_OUT)
            for job, duration in durations.items()
        )
        if idle < least:
            best, least = found, idle
    return best


def _with_base(
    base: int, durations: Mapping[int, int], most_idle: float, fixed: Mapping[int, int]
) -> dict[int, int]:
    parts = {job: min(_MOST_PARTS, base // duration) for job, duration in durations.items()}
    fitting = {
        job: count
        for job, count in parts.items()
        if count >= 1 and base / count <= durations[job] * (1 + most_idle)
    }
    if not fixed:
        whole = math.lcm(*fitting.values())
        base = -(-base // whole) * whole
    found: dict[int, int] = {}
    for job, duration in [*((job, fixed[job]) for job in fixed), *durations.items()]:
        if job in found:
            continue
        count = fitting.get(job)
        period = -(-duration // base) * base
        if job in fixed:
            period = fixed[job]
        elif count is not None and base % count == 0:
            period = base // count
        together = math.lcm(period, base, *found.values())
        if period <= duration * (1 + most_idle) and together <= _MOST_BASES * base:
            found[job] = period
    return found


def shifted(
    waits: Sequence[float], periods: Sequence[float], weights: Sequence[int]
) -> list[float]:
    """Return waits of jobs that are all shifted alike, so that they wait least in the weighted sum.

    To shift all leaves everything else as it is.
    """

    def price(by: float) -> float:
        each = zip(weights, waits, periods, strict=True)
        return sum(weight * ((wait - by) % period) for weight, wait, period in each)

    best = min(waits, key=price, default=0.0)
    return [(wait - best) % period for wait, period in zip(waits, periods, strict=True)]


Prediction = tuple[float | None, float]
"""The score, and by how many ms an iteration grows."""


@dataclass(frozen=True)
class ContentionGroup:
    """Jobs that share links, as an instance. Slot 0 is the moment `origin_ms`.

    Attributes
    ----------
    members
        Indices of the jobs, in the order of the instance's jobs.
    ready_ms
        When each of them could begin its next iteration.
    fixed_ms
        When members begin that stay where they are, by index. Their offsets are these moments to
        the nearest slot.
    """

    instance: Instance
    members: tuple[int, ...]
    ready_ms: tuple[float, ...]
    origin_ms: float
    fixed_ms: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        state: SimState,
        members: Sequence[int],
        *,
        fixed: Mapping[int, float] | None = None,
    ) -> Self | None:
        """Return the members that can keep in step, with their contended links, if any can.

        Parameters
        ----------
        members
            Indices of running jobs.
        fixed
            Of jobs that stay where they are, a moment at which they begin an iteration, in ms.
            Those of them that have slots keep their periods.
        """
        fixed = fixed or {}
        crowded = _contended_links(state, members)
        meeting = [
            index for index in members if not crowded.keys().isdisjoint(_links(state, index))
        ]
        kept = {
            index: period
            for index in meeting
            if index in fixed and (period := _kept_period(state.running[index])) is not None
        }
        periods = common_periods(
            {index: state.running[index].slots for index in meeting},
            {index: max(1, state.running[index].job.work.priority) for index in meeting},
            fixed=kept,
        )
        chosen = [index for index in meeting if index in periods]
        links = _contended_links(state, chosen)
        chosen = [index for index in chosen if not links.keys().isdisjoint(_links(state, index))]
        if len(chosen) < 2:
            return None
        origin = min(
            (moment for index, moment in fixed.items() if index in chosen), default=state.now
        )
        instance = Instance(
            name="rivals",
            slot_ms=SLOT_MS,
            links=tuple(
                Link(name=link, capacity=state.room.cluster.capacities[link]) for link in links
            ),
            jobs=tuple(
                _job(state.running[index], links, periods[index], fixed.get(index), origin)
                for index in chosen
            ),
        )
        ready = tuple(state.can_start(index) for index in chosen)
        return cls(instance, tuple(chosen), ready, origin, fixed)

    @classmethod
    def of_newcomer(cls, state: SimState, index: int) -> Self | None:
        """Return a job and those that it shares crowded links with, which stay where they are.

        None if nobody is in its way, or it cannot keep in step with anybody.
        """
        near = state.near(index)
        fixed = {other: state.next_start(other)[0] for other in near if other != index}
        rivals = cls.of(state, near, fixed=fixed)
        return rivals if rivals is not None and index in rivals.members else None

    def slot(self, index: int, *, lateness: Lateness, group: int) -> Slot:
        """Return the slot of a member."""
        job = self.instance.jobs[self.members.index(index)]
        return Slot(float(job.period * self.instance.slot_ms), lateness=lateness, group=group)

    def starts(self, offsets: Sequence[int], *, turn: bool) -> list[float]:
        """Return when each job is to begin its next iteration, in ms.

        Parameters
        ----------
        offsets
            Slots, in the order of the instance's jobs.
        turn
            Whether all may be turned together, so that the jobs wait as little as possible, the
            more important ones least. Turning all leaves everything else as it is.
        """
        slot_ms = self.instance.slot_ms
        periods = [float(job.period * slot_ms) for job in self.instance.jobs]
        planned = [self.origin_ms + offset * slot_ms for offset in offsets]
        waits = [
            (plan - ready) % period
            for plan, ready, period in zip(planned, self.ready_ms, periods, strict=True)
        ]
        if turn:
            waits = shifted(waits, periods, [job.weight for job in self.instance.jobs])
        return [
            self.fixed_ms.get(index, ready + wait)
            for index, ready, wait in zip(self.members, self.ready_ms, waits, strict=True)
        ]

    def best_rotation(self, index: int) -> tuple[int, tuple[int, Fraction]]:
        """Return the best offset of the one job that may move, and what it costs there.

        Costs are the links to whose contention it adds, and what it adds to all; the fewest links
        count first.
        """
        compiled = compile_instance(self.instance)
        state = compiled.empty()
        position = self.members.index(index)
        for other, job in enumerate(self.instance.jobs):
            if other != position:
                put_job(state, other, job.fixed_offset or 0, 1)
        period = self.instance.jobs[position].period
        conflicts, cost, row = (np.zeros(period, dtype=np.int64) for _ in range(3))
        record = compiled.tables.jobs[position]
        for use in range(record["first_use"], record["end_use"]):
            score_use(state, position, use, row)
            conflicts += row > 0
            cost += row
        fewest = int(conflicts.min())
        cost[conflicts > fewest] = np.iinfo(np.int64).max
        least, ready = int(cost.min()), int(record["ready"])
        offset = first_offset(cost, least, ready) if least else roomiest_offset(cost, ready)[0]
        return int(offset), (fewest, compiled.fraction(least, position))

    def predictions(self, offsets: Sequence[int]) -> dict[int, Prediction]:
        """Return the score and the elongation in ms that the judge predicts for each member.

        The score is the least of the shared links that the job crosses, None where it shares none.
        """
        instance = self.instance
        names = [job.name for job in instance.jobs]
        evaluation = evaluate(instance, dict(zip(names, offsets, strict=True)))
        scores = {link.name: link.score for link in evaluation.links if link.jobs > 1}
        told = {}
        for member, job in zip(self.members, instance.jobs, strict=True):
            score = min((scores[link] for link in job.links if link in scores), default=None)
            elongation = float(evaluation.elongation[job.name] * instance.slot_ms)
            told[member] = (None if score is None else float(score), elongation)
        return told


def _kept_period(placed: Running) -> int | None:
    """Return the period of a job's slot; None if it has none that is long enough for its claim."""
    period = 0 if placed.slot is None else round(placed.slot.period_ms / SLOT_MS)
    return period if period >= placed.slots else None


def _links(state: SimState, index: int) -> Mapping[str, int]:
    return state.running[index].placement.links


def _contended_links(state: SimState, members: Sequence[int]) -> dict[str, None]:
    peaks: dict[str, int] = {}
    for index in members:
        peak = max(phase.rate for phase in state.running[index].claim.phases)
        for link, flows in _links(state, index).items():
            peaks[link] = peaks.get(link, 0) + flows * peak
    return {
        link: None for link, peak in peaks.items() if peak > state.room.cluster.capacities[link]
    }


def _job(
    placed: Running, links: Mapping[str, None], period: int, fixed: float | None, origin: float
) -> Job:
    return Job(
        name=str(placed.job.index),
        period=period,
        weight=placed.job.work.priority,
        phases=placed.claim.phases,
        links={link: flows for link, flows in placed.placement.links.items() if link in links},
        fixed_offset=None if fixed is None else round((fixed - origin) / SLOT_MS) % period,
    )
