"""Mean iterations of jobs from the counters of their gates, exact at any scrape interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from metronome_opt.instance import Job
from metronome_opt.slowdown.claims import Claims

COUNTERS = (
    "iterations",
    "iteration_seconds",
    "bursts",
    "burst_seconds",
    "waited_seconds",
    "late_seconds",
    "sent_bytes",
    "fastest_bytes",
    "fastest_seconds",
)
_MIN_ITERATIONS = 8  # of which a mean says something
_WANTED_ITERATIONS = 20  # to look back for at least
_SETTLING = 8  # periods in which a gate goes over to other slots
_MBIT = 8e-6  # per byte
LATE = 0.02
"""Share of the period by which iterations of a gated job that fits its slots may be longer."""


@dataclass(frozen=True)
class GateCounter:
    """Samples of one counter of one gate; values begin anew where the gate was restarted."""

    job: str
    name: str  # one of COUNTERS
    times_s: NDArray[np.float64]  # seconds since the epoch, ascending, shape (n,)
    values: NDArray[np.float64]  # shape (n,)

    def increase(self, since_s: float) -> float:
        """Return by how much it grew between samples from a moment on."""
        steps = np.diff(self.values)
        return float(steps[(self.times_s[:-1] >= since_s) & (steps > 0)].sum())


Read = Callable[[float, float], Iterable[GateCounter]]
"""Reads the counters of all gates from one time to another, in seconds since the epoch."""


@dataclass(frozen=True)
class Observation:
    """The mean iteration of a job.

    Attributes
    ----------
    period_ms
        From one beginning to the next, with what it waited for its slots.
    computing_ms
        Neither sending nor waiting.
    burst_ms, claimed_ms
        In all its bursts, and how long they take at the rates that it claims.
    error_ms
        By how much the period may be off.
    alone
        Whether nothing is left in it of what other jobs did.
    """

    period_ms: float
    computing_ms: float
    burst_ms: float
    claimed_ms: float
    error_ms: float = 0.0
    alone: bool = False

    @property
    def own_ms(self) -> float:
        """Length of an iteration that does not wait."""
        return self.computing_ms + self.burst_ms


def observe_gates(
    claims: Claims,
    counters: Iterable[GateCounter],
    *,
    now_s: float,
    for_s: float,
    notified_s: Mapping[str, float],
) -> dict[str, Observation | str]:
    """Return the mean iteration of each job, or why the counters do not show it.

    Parameters
    ----------
    now_s, for_s
        The end of the time to look at, seconds since the epoch, and its length; longer for jobs
        whose iterations are, see `window_s`.
    notified_s
        When a job was notified of its slots; until it keeps them nothing counts.
    """
    by_job: dict[str, list[GateCounter]] = {}
    for counter in counters:
        by_job.setdefault(counter.job, []).append(counter)
    observations: dict[str, Observation | str] = {}
    for job in claims.running.jobs:
        begin_s = now_s - _look_back_s(job, claims, for_s)
        if job.name in notified_s:
            settled_s = _SETTLING * job.period * claims.instance.slot_ms / 1000
            begin_s = max(begin_s, notified_s[job.name] + settled_s)
        totals = dict.fromkeys(COUNTERS, 0.0)
        for counter in by_job.get(job.name, ()):
            totals[counter.name] += counter.increase(begin_s)
        observations[job.name] = _observation(claims, job, totals)
    return observations


def window_s(claims: Claims, for_s: float) -> float:
    """Return for how long counters have to be read, in seconds: `for_s`, or what jobs need."""
    return max(_look_back_s(job, claims, for_s) for job in claims.running.jobs)


def _look_back_s(job: Job, claims: Claims, for_s: float) -> float:
    return max(for_s, _WANTED_ITERATIONS * job.period * claims.instance.slot_ms / 1000)


def _observation(claims: Claims, job: Job, totals: Mapping[str, float]) -> Observation | str:
    """Return what the totals of all tasks of a job say, or why they say nothing."""
    if not totals["bursts"]:
        return "no bursts were counted by its gates"
    times = totals["bursts"] / len(job.phases)
    if min(times, totals["iterations"]) < _MIN_ITERATIONS:
        return f"{totals['iterations']:.0f} iterations only; at least {_MIN_ITERATIONS} are needed"
    slot_ms = claims.instance.slot_ms
    period_ms = 1000 * totals["iteration_seconds"] / totals["iterations"]
    burst_ms, waited_ms = (
        1000 * totals[counter] / times for counter in ("burst_seconds", "waited_seconds")
    )
    computing_ms = period_ms - waited_ms - burst_ms
    sent = 1000 * _MBIT * totals["sent_bytes"] / times  # Mbit/s * ms of one task
    late_ms = 1000 * totals["late_seconds"] / totals["bursts"]
    # At either end of the time an iteration may be counted whose wait is not.
    error_ms = 2 * (waited_ms + late_ms) / times
    in_time = claims.is_gated(job.name) and period_ms <= job.period * slot_ms * (1 + LATE)
    alone = bool(totals["fastest_seconds"]) and not in_time
    if alone:
        # Bursts out of their slots meet others; of sixteen the fastest met none, or fewest.
        fastest = _MBIT * totals["fastest_bytes"] / totals["fastest_seconds"]
        burst_ms = min(burst_ms, sent / fastest)
    claimed_ms = float(slot_ms * sum(phase.length for phase in job.phases))
    # What loops do not report is taken to be as claimed.
    volume = sum(slot_ms * phase.length * phase.rate for phase in job.phases)
    more = sent / volume or 1.0
    return Observation(period_ms, computing_ms, burst_ms, more * claimed_ms, error_ms, alone)


class Beliefs:
    """Lengths of the bursts of each job if they meet no others.

    In its slots a job meets no others, and its bursts are so long. Out of them even its fastest
    bursts may have met others, so that they are at most as long as measured: what was known before
    is believed, at first the claim. Once slots for that were tried in vain, the measurement counts.
    """

    def __init__(self) -> None:
        self._known_ms: dict[str, float | None] = {}

    def of(
        self, claims: Claims, observations: Mapping[str, Observation], *, tried: bool
    ) -> dict[str, Observation]:
        """Return the observations as they are believed; note what is known now.

        Parameters
        ----------
        tried
            Whether jobs that are late in slots which fit them, as far as is believed, have already
            been given a chance to separate.
        """
        believed = {}
        for name, each in observations.items():
            job = claims.instance.job(name)
            length = sum(phase.length for phase in job.phases) * claims.instance.slot_ms
            measured = each.burst_ms
            known = self._known_ms.setdefault(name, length)
            if not each.alone:
                self._known_ms[name] = measured
            elif tried and claims.is_gated(name):
                self._known_ms[name] = None
            elif known is not None and known < measured:
                each = replace(each, burst_ms=known)
            believed[name] = each
        return believed

    def forget(self, job: str) -> None:
        """Forget a job that has left."""
        self._known_ms.pop(job, None)
