"""Mean iterations of jobs from the counters of their gates, and reservations corrected by them.

A job that others delay has longer bursts and iterations, but its traffic is still as reserved. Out
of its windows its bursts count as if all were sent at the rate of the fastest of sixteen, which
shared links with the fewest others, if all are reserved at one rate. Even the fastest may have been
delayed: there bursts are longer than reserved only as far as they send more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kubernetes.state.records import Gang, Reservation
from metronome_opt.problem.instance import Phase
from metronome_opt.scenario.iteration import divisor_from

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
    "computing_products",
    "computing_differences",
)
_MIN_ITERATIONS = 8  # of which a mean says something
_WANTED_ITERATIONS = 20  # to look back for at least
_SETTLING = 8  # periods in which a gate goes over to other windows
_MBIT = 8e-6  # per byte
_LATE = 0.02  # share of the period by which iterations of a gated job may be longer
_PERIOD = 0.01  # share of the period, but half a slot at least
_LENGTH = 0.1  # share of the length of all bursts, but one slot at least
_MAX_TOTAL = 1e18  # of any counter, in bytes or seconds
_NEARLY = 1e-6  # of a slot: what rounding of floats may make too much


@dataclass(frozen=True)
class GateCounter:
    """Samples of one counter of one gate; values restart where the gate was restarted."""

    job: str
    name: str  # one of COUNTERS
    times_s: NDArray[np.float64]  # seconds since the epoch, ascending, shape (n,)
    values: NDArray[np.float64]  # shape (n,)

    def increase(self, since_s: float) -> float:
        """Return the growth between samples since some time."""
        steps = np.diff(self.values)
        return float(steps[(self.times_s[:-1] >= since_s) & (steps > 0)].sum())


Read = Callable[[float, float], Iterable[GateCounter]]
"""Reads counters of all gates between two times, in seconds since the epoch."""


@dataclass(frozen=True)
class Observation:
    """The mean iteration of a job.

    Attributes
    ----------
    period_ms
        Length, with waits for windows.
    computing_ms, burst_ms
        Time in it without traffic or waits; and duration of bursts, not delayed by other jobs.
    sent_ms
        Duration of the traffic at the reserved rate; 0 if that is not known.
    error_ms
        Error of the period.
    jitter
        Standard deviation of computing times, as a share of them; None if it is not counted.
    """

    period_ms: float
    computing_ms: float
    burst_ms: float
    sent_ms: float = 0.0
    error_ms: float = 0.0
    jitter: float | None = None

    @property
    def own_ms(self) -> float:
        """Length of an iteration that neither waits nor is delayed."""
        return self.computing_ms + self.burst_ms

    def is_late(self, reservation: Reservation, slot_ms: int) -> bool:
        """Return whether iterations take longer than the windows of a gated job allow."""
        return reservation.gated and self.period_ms > reservation.period * slot_ms * (1 + _LATE)

    def no_longer(self, reservation: Reservation, slot_ms: int) -> Observation:
        """Return the observation with bursts longer than reserved only as far as they send more."""
        longest = max(self.sent_ms, float(slot_ms * reservation.gang.busy))
        return replace(self, burst_ms=min(self.burst_ms, longest))

    def differences(self, reservation: Reservation, slot_ms: int) -> list[str]:
        """Return messages about differences from a reservation beyond tolerances."""
        gang = reservation.gang
        own, busy = float(gang.period * slot_ms), float(gang.busy * slot_ms)
        compared = (
            ("period without waiting", own, self.own_ms, max(_PERIOD * own, self.error_ms)),
            ("bursts", busy, self.burst_ms, max(_LENGTH * busy, slot_ms)),
        )
        return [
            f"{gang.name}: {what} in ms {measured:,.6g} instead of {claimed:,.6g}"
            for what, claimed, measured, most in compared
            if abs(measured - claimed) > max(most, slot_ms / 2)
        ]


def observe_gates(
    reservations: Mapping[str, Reservation],
    slot_ms: int,
    read: Read,
    *,
    now_s: float,
    for_s: float,
    notified_s: Mapping[str, float],
) -> dict[str, Observation | str]:
    """Return mean iterations by job, or why counters do not show them.

    Parameters
    ----------
    reservations, slot_ms
        Reservations by job, and the length of a slot.
    read
        Reads counters.
    now_s, for_s
        End of the observation, seconds since the epoch, and its length; longer for jobs with long
        iterations.
    notified_s
        Time at which a job was notified of its windows; nothing counts until it is in them.

    Returns
    -------
    dict
        Observations or messages by job.
    """
    periods_s = {job: held.period * slot_ms / 1000 for job, held in reservations.items()}
    begins_s = {
        job: now_s - max(for_s, _WANTED_ITERATIONS * period_s)
        for job, period_s in periods_s.items()
    }
    by_job: dict[str, list[GateCounter]] = {}
    for counter in read(min(begins_s.values()), now_s):
        by_job.setdefault(counter.job, []).append(counter)
    observations: dict[str, Observation | str] = {}
    for job, reservation in reservations.items():
        begin_s = begins_s[job]
        if job in notified_s:
            begin_s = max(begin_s, notified_s[job] + _SETTLING * periods_s[job])
        totals = dict.fromkeys(COUNTERS, 0.0)
        for counter in by_job.get(job, ()):
            if counter.name in totals:
                totals[counter.name] += counter.increase(begin_s)
        observations[job] = _observation(reservation, slot_ms, totals)
    return observations


def _observation(
    reservation: Reservation, slot_ms: int, totals: Mapping[str, float]
) -> Observation | str:
    """Return the observation of the totals of all tasks of a job, or why there is none."""
    if not totals["bursts"]:
        return "no bursts were counted by its gates"
    if max(totals.values()) > _MAX_TOTAL:
        return "counts of its gates are too large"
    jitter = _jitter(totals)
    if jitter is not None and jitter > 1:
        return f"its gates count computing times that vary by {100 * jitter:,.4g} %; 100 % can be"
    times = totals["bursts"] / len(reservation.gang.phases)
    if min(times, totals["iterations"]) < _MIN_ITERATIONS:
        return f"{totals['iterations']:.0f} iterations only; at least {_MIN_ITERATIONS} are needed"
    period_ms = 1000 * totals["iteration_seconds"] / totals["iterations"]
    burst_ms, waited_ms = (
        1000 * totals[counter] / times for counter in ("burst_seconds", "waited_seconds")
    )
    computing_ms = period_ms - waited_ms - burst_ms
    sent = 1000 * _MBIT * totals["sent_bytes"] / times  # Mbit/s * ms of one task
    late_ms = 1000 * totals["late_seconds"] / totals["bursts"]
    claimed = sum(phase.length * phase.rate for phase in reservation.gang.phases)
    sent_ms = sent * reservation.gang.busy / claimed
    # At the ends of the observation an iteration may be counted whose wait is not.
    error_ms = 2 * (waited_ms + late_ms) / times
    seen = Observation(period_ms, computing_ms, burst_ms, sent_ms, error_ms, jitter)
    fastest = totals["fastest_bytes"] and totals["fastest_seconds"]
    in_time = reservation.gated and not seen.is_late(reservation, slot_ms)
    one_rate = len({phase.rate for phase in reservation.gang.phases}) == 1
    if in_time or not (fastest and sent and one_rate):
        return seen
    alone_ms = sent * totals["fastest_seconds"] / (_MBIT * totals["fastest_bytes"])
    return replace(seen, burst_ms=min(burst_ms, alone_ms))


def _jitter(totals: Mapping[str, float]) -> float | None:
    """Return the standard deviation of computing times as a share of them.

    Variance is half the mean square of the differences of neighbours, and the square of the mean
    their mean product: so neither drift nor differences between tasks and bursts count.
    """
    product = totals["computing_products"]
    return math.sqrt(totals["computing_differences"] / (2 * product)) if product else None


def correct_reservation(
    reservation: Reservation, seen: Observation, slot_ms: int, hyperperiod: int
) -> Reservation | None:
    """Return a reservation as its job was measured; None if longer than the hyperperiod.

    All bursts grow by one factor, and all pauses by another. Bursts keep their rates: one that
    takes longer without sending more fills a link that carries less. The period with its idle time
    stays if it is long enough, else it is the next divisor of the hyperperiod.
    """
    gang, busy = reservation.gang, reservation.gang.busy
    before = sorted(gang.phases, key=lambda phase: phase.start)
    pauses = max(0.0, seen.computing_ms) / max(1, (gang.period - busy) * slot_ms)
    bursts = seen.burst_ms / (busy * slot_ms)
    phases, end, sent = [], 0, 0
    for phase in before:
        start = max(end, round(pauses * (phase.start - sent) + bursts * sent))
        sent += phase.length
        length = max(1, math.ceil(bursts * phase.length - _NEARLY))
        phases.append(Phase(start=start, length=length, rate=phase.rate))
        end = start + length
    own = max(1, round(seen.own_ms / slot_ms), end)
    period = reservation.period if own <= reservation.period else divisor_from(hyperperiod, own)
    if period is None:
        return None
    stretch = period - own
    changes = {
        "period": own,
        "phases": tuple(phases),
        "step": None,  # iterations on other nodes were not measured
        "max_stretch": max(gang.period + gang.max_stretch - own, stretch),
        "jitter": gang.jitter if seen.jitter is None else seen.jitter,
    }
    # A gate keeps the window of the first burst.
    offset = (reservation.offset + before[0].start - phases[0].start) % period
    gang = Gang.model_validate(gang.model_copy(update=changes).model_dump())
    return reservation.model_copy(update={"gang": gang, "offset": offset, "stretch": stretch})
