"""Mean iterations of jobs from the counters of their gates, and reservations corrected by them.

A job that others delay has longer bursts and iterations, but its traffic is still as reserved. Out
of its slots its bursts count as if all were sent at the rate of the fastest of sixteen, which
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
_SETTLING = 8  # periods in which a gate goes over to other slots
_MBIT = 8e-6  # per byte
_LATE = 0.02  # share of the period by which iterations of a gated job may be longer
_PERIOD = 0.01  # share of the period, but half a slot at least
_LENGTH = 0.1  # share of the length of all bursts, but one slot at least
_MAX_TOTAL = 1e18  # of any counter, in bytes or seconds
_NEARLY = 1e-6  # of a slot: what rounding of floats may make too much


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
    computing_ms, burst_ms
        Neither sending nor waiting; and sending, without delays by other jobs.
    sent_ms
        How long what was sent takes at the claimed rate; 0 if that is not known.
    error_ms
        By how much the period may be off.
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
        """Return whether iterations take longer than the slots of a gated job allow."""
        return reservation.gated and self.period_ms > reservation.period * slot_ms * (1 + _LATE)

    def no_longer(self, reservation: Reservation, slot_ms: int) -> Observation:
        """Return it with bursts that are longer than claimed only as far as they send more."""
        longest = max(self.sent_ms, float(slot_ms * _busy(reservation.gang)))
        return replace(self, burst_ms=min(self.burst_ms, longest))

    def differences(self, reservation: Reservation, slot_ms: int) -> list[str]:
        """Return in words what is not as claimed, beyond tolerances."""
        own, busy = (
            float(reservation.gang.period * slot_ms),
            float(slot_ms * _busy(reservation.gang)),
        )
        periods = "period without waiting", own, self.own_ms
        bursts = "bursts", busy, self.burst_ms
        tolerated = max(_PERIOD * own, slot_ms / 2, self.error_ms), max(_LENGTH * busy, slot_ms)
        return [
            f"{reservation.job}: {what} in ms {measured:,.6g} instead of {claimed:,.6g}"
            for (what, claimed, measured), most in zip((periods, bursts), tolerated, strict=True)
            if abs(measured - claimed) > most
        ]


def _busy(gang: Gang) -> int:
    """Return how many slots of an iteration a task sends in."""
    return sum(phase.length for phase in gang.phases)


def observe_gates(
    reservations: Mapping[str, Reservation],
    slot_ms: int,
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
    for job, reservation in reservations.items():
        begin_s = now_s - _lookback_of(reservation, slot_ms, for_s)
        if job in notified_s:
            settled_s = _SETTLING * reservation.period * slot_ms / 1000
            begin_s = max(begin_s, notified_s[job] + settled_s)
        totals = dict.fromkeys(COUNTERS, 0.0)
        for counter in by_job.get(job, ()):
            if counter.name in totals:
                totals[counter.name] += counter.increase(begin_s)
        observations[job] = _observation(reservation, slot_ms, totals)
    return observations


def lookback_s(reservations: Mapping[str, Reservation], slot_ms: int, for_s: float) -> float:
    """Return for how long counters have to be read, in seconds: `for_s`, or what jobs need."""
    return max(_lookback_of(reservation, slot_ms, for_s) for reservation in reservations.values())


def _lookback_of(reservation: Reservation, slot_ms: int, for_s: float) -> float:
    return max(for_s, _WANTED_ITERATIONS * reservation.period * slot_ms / 1000)


def _observation(
    reservation: Reservation, slot_ms: int, totals: Mapping[str, float]
) -> Observation | str:
    """Return what the totals of all tasks of a job say, or why they say nothing."""
    if not totals["bursts"]:
        return "no bursts were counted by its gates"
    if max(totals.values()) > _MAX_TOTAL:
        return "its gates count more than can be"
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
    sent_ms = sent * _busy(reservation.gang) / claimed
    # At either end of the time an iteration may be counted whose wait is not.
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

    Their variance is half the mean square of the difference of two in a row, and the square of
    their mean the mean product: so neither drift, nor that tasks and bursts differ, counts.
    """
    product = totals["computing_products"]
    return math.sqrt(totals["computing_differences"] / (2 * product)) if product else None


def corrected(
    reservation: Reservation, seen: Observation, slot_ms: int, hyperperiod: int
) -> Reservation | None:
    """Return a reservation as its job was measured; None if longer than the hyperperiod.

    Bursts grow alike, and so do pauses. Each burst keeps its rate: if it takes longer without
    sending more, a link carries less, and the burst fills that. The period with its idle time is
    the one that is claimed if that is long enough, else the next that divides the hyperperiod.
    """
    gang, busy = reservation.gang, _busy(reservation.gang)
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
        "step": None,  # what it would be elsewhere was not measured
        "max_stretch": max(gang.period + gang.max_stretch - own, stretch),
        "jitter": gang.jitter if seen.jitter is None else seen.jitter,
    }
    # A gate keeps the slot of the first burst.
    offset = (reservation.offset + before[0].start - phases[0].start) % period
    gang = Gang.model_validate(gang.model_copy(update=changes).model_dump())
    return reservation.model_copy(update={"gang": gang, "offset": offset, "stretch": stretch})
