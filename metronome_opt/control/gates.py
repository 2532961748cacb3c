"""What gates count of their jobs' bursts, as observations: exact, however seldom it is scraped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from metronome_opt.control.claims import Claims
from metronome_opt.control.observation import Observation, Tolerance
from metronome_opt.control.watch import Read
from metronome_opt.instance import Job
from metronome_opt.profiles import Burst, Samples

_COUNTERS = (
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
SELECTOR = f'{{__name__=~"metronome_gate_({"|".join(_COUNTERS)})_total"}}'
_ENOUGH = 8  # iterations of which a mean says something
_MANY = 20  # for which is looked back at least
_SETTLING = 8  # periods in which a gate goes over to other slots
_MBIT = 8e-6  # per byte; the samples of any counter are told as if it counted bytes


def observe_gates(
    claims: Claims,
    read: Read,
    *,
    now_s: float,
    for_s: float,
    told_s: Mapping[str, float],
) -> dict[str, Observation | str]:
    """Return what the gates of each job counted, or why that says nothing.

    Parameters
    ----------
    read
        Where the samples of counters come from; the label ``job`` says whose they are.
    now_s, for_s
        The end of the time to look at, seconds since the epoch, and its length; longer for jobs
        whose iterations are.
    told_s
        When a job was told its slots; until it keeps them nothing counts.
    """
    back_s = {
        job.name: max(for_s, _MANY * job.period * claims.instance.slot_ms / 1000)
        for job in claims.running.jobs
    }
    series: dict[str, list[tuple[str, Samples]]] = {}
    for labels, samples in read(SELECTOR, now_s - max(back_s.values()), now_s).items():
        counter = labels["__name__"].removeprefix("metronome_gate_").removesuffix("_total")
        series.setdefault(labels.get("job", ""), []).append((counter, samples))
    seen: dict[str, Observation | str] = {}
    for job in claims.running.jobs:
        begin_s = now_s - back_s[job.name]
        if job.name in told_s:
            settled_s = _SETTLING * job.period * claims.instance.slot_ms / 1000
            begin_s = max(begin_s, told_s[job.name] + settled_s)
        totals = dict.fromkeys(_COUNTERS, 0.0)
        for counter, samples in series.get(job.name, ()):
            totals[counter] += _increase(samples, begin_s)
        seen[job.name] = _found_out(claims, job, totals, now_s)
    return seen


class Beliefs:
    """How long the bursts of each job are if they meet nobody.

    In its slots a job meets nobody, and what is seen is so. Out of them even its fastest bursts may
    have met others, so that they are as long as seen at most: what was known before is believed,
    at first the claim. Once slots for that were tried in vain, what is seen is all there is.
    """

    def __init__(self) -> None:
        self._known_ms: dict[str, float | None] = {}

    def of(
        self, claims: Claims, seen: Mapping[str, Observation], *, tried: bool
    ) -> dict[str, Observation]:
        """Return what is believed of jobs, given what was seen of them; note what is known now.

        Parameters
        ----------
        tried
            Whether jobs that are late in slots which fit them, as far as is believed, have already
            been given a chance to come apart.
        """
        believed = {}
        for name, each in seen.items():
            job = claims.instance.job(name)
            length = sum(phase.length for phase in job.phases) * claims.instance.slot_ms
            most = sum(burst.length_ms for burst in each.bursts or ())
            known = self._known_ms.setdefault(name, length)
            if not each.alone:
                self._known_ms[name] = most
            elif tried and claims.is_gated(name):
                self._known_ms[name] = None
            elif known is not None and known < most:
                each = _shortened(claims, job, each, known)
            believed[name] = each
        return believed

    def forget(self, job: str) -> None:
        """Forget a job that has left."""
        self._known_ms.pop(job, None)


def _shortened(claims: Claims, job: Job, seen: Observation, burst_ms: float) -> Observation:
    """Return what would have been seen had bursts taken so long."""
    bursts = seen.bursts or ()
    computing_ms = (seen.own_ms or 0.0) - sum(burst.length_ms for burst in bursts)
    volume = sum(burst.length_ms * burst.rate_mbps for burst in bursts)
    return replace(
        seen,
        own_ms=computing_ms + burst_ms,
        bursts=_bursts(claims, job, computing_ms, burst_ms, volume),
    )


def _increase(samples: Samples, begin_s: float) -> float:
    """Return by how much a counter grew after a moment."""
    spans, rates = samples.spans_s, samples.rates_mbps
    counts = (samples.times_s - spans >= begin_s) & np.isfinite(rates)
    return float((rates * spans)[counts].sum()) / _MBIT


def _found_out(
    claims: Claims, job: Job, totals: Mapping[str, float], now_s: float
) -> Observation | str:
    """Return what the totals of all tasks of a job say, or why they say nothing."""
    if not totals["bursts"]:
        return "its gates told Prometheus nothing"
    times = totals["bursts"] / len(job.phases)
    if min(times, totals["iterations"]) < _ENOUGH:
        return f"{totals['iterations']:.0f} iterations only; they have to be {_ENOUGH}"
    period_ms = 1000 * totals["iteration_seconds"] / totals["iterations"]
    burst_ms, waited_ms = (
        1000 * totals[counter] / times for counter in ("burst_seconds", "waited_seconds")
    )
    computing_ms = period_ms - waited_ms - burst_ms
    volume = 1000 * _MBIT * totals["sent_bytes"] / times
    late_ms = 1000 * totals["late_seconds"] / totals["bursts"]
    # At either end of the time an iteration may be counted of which a wait is not.
    others: dict[str, Any] = {"period_error_ms": 2 * (waited_ms + late_ms) / times}
    gated = claims.is_gated(job.name)
    if gated:
        due_ms = claims.next_due_ms(job.name, 1000 * now_s)
        others["origin_ms"] = due_ms + late_ms
        others["origin_error_ms"] = late_ms + claims.instance.slot_ms  # no drift: the gate knows
    in_time = gated and period_ms <= job.period * claims.instance.slot_ms * (1 + Tolerance.late)
    if totals["fastest_seconds"] and not in_time:
        # Bursts out of their slots meet others; of sixteen the fastest met nobody, or fewest.
        fastest = _MBIT * totals["fastest_bytes"] / totals["fastest_seconds"]
        burst_ms, others["alone"] = min(burst_ms, volume / fastest), True
    bursts = _bursts(claims, job, computing_ms, burst_ms, volume)
    return Observation(period_ms=period_ms, own_ms=computing_ms + burst_ms, bursts=bursts, **others)


def _bursts(
    claims: Claims, job: Job, computing_ms: float, burst_ms: float, volume: float
) -> tuple[Burst, ...]:
    """Return the bursts of an iteration: those claimed, grown or shrunk all alike.

    Parameters
    ----------
    computing_ms, burst_ms, volume
        Of an iteration; Mbit/s * ms of one task, 0 if loops do not tell what they send.
    """
    slot_ms = claims.instance.slot_ms
    own = claims.instance.job(job.name)
    phases = sorted(own.phases, key=lambda phase: phase.start)
    lengths = sum(phase.length for phase in phases)
    grown = burst_ms / (lengths * slot_ms)
    computing = max(0.0, computing_ms) / max(1, (own.period - lengths) * slot_ms)
    more = volume / sum(phase.length * slot_ms * phase.rate for phase in phases) or 1.0
    found, reached, begin = [], 0, 0.0
    for phase in phases:
        begin += (phase.start - reached) * slot_ms * computing
        length = phase.length * slot_ms * grown
        found.append(Burst(begin, length, phase.rate * more / grown))
        begin += length
        reached = phase.end
    return tuple(found)
