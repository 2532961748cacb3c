"""Profiles of jobs from records of gates, which have every burst as it was."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from metronome_opt.cluster.profile import MIN_CYCLES, NORMAL, Profile, stated_traffic
from metronome_opt.cluster.recorded import RecordedBurst
from metronome_opt.errors import InputError

_PAUSE = 3  # times the usual length: a longer iteration is a checkpoint or a restart


def profile_record(bursts: Sequence[RecordedBurst]) -> Profile:
    """Return the mean iteration of a record, without what it waited for its slots.

    Iterations that are much longer than usual, as those with a checkpoint, are left out.

    Raises
    ------
    InputError
        If the record does not tell what bursts sent, so that rates would be a guess.
    """
    silent = next((burst for burst in bursts if burst.sent_bytes is None), None)
    if silent is not None:
        raise InputError(
            f"sent_bytes: null at {silent.at!r}: what the burst sent is not known; enter "
            "gate.burst(sent_bytes=...), or set sent_bytes of the burst before it ends"
        )
    rows = _iterations(bursts)
    if len(rows) < MIN_CYCLES:
        return Profile(reason=f"too short: {len(rows)} whole iterations, not {MIN_CYCLES}")
    usual = np.median([row[0] for row in rows])
    table = np.array([row for row in rows if row[0] <= _PAUSE * usual])
    means = table.mean(axis=0)
    errors = NORMAL * table.std(axis=0, ddof=1) / math.sqrt(len(table))
    period_ms, starts, lengths, sent = means[0], *np.split(means[1:], 3)
    rates = sent / lengths
    return Profile(
        traffic=stated_traffic(period_ms, list(zip(starts, lengths, rates, strict=True))),
        period_error_ms=float(errors[0]),
        burst_error_ms=float(errors[1 : 1 + 2 * len(starts)].max()),
        rate_error=float((errors[1 + len(starts) :].reshape(2, -1) / [lengths, sent]).sum(0).max()),
        cycles=len(table),
        mean_mbps=float(sent.sum() / period_ms),
    )


def _iterations(bursts: Sequence[RecordedBurst]) -> list[list[float]]:
    """Return a row for each whole iteration: its length, then starts, lengths, and Mbit/s * ms."""
    count = 1 + max(burst.phase for burst in bursts)
    rows = []
    for first in range(len(bursts) - count):
        inside, following = bursts[first : first + count], bursts[first + count]
        if [burst.phase for burst in inside] != list(range(count)) or not following.iteration_ms:
            continue
        waited = np.cumsum([burst.waited_ms for burst in inside])
        starts = [1000 * (burst.at - inside[0].at) for burst in inside]
        length = following.iteration_ms - float(waited[-1] - waited[0]) - following.waited_ms
        rows.append(
            [
                length,
                *(np.array(starts) - waited + waited[0]).tolist(),
                *(max(burst.burst_ms, 1e-6) for burst in inside),
                *((burst.sent_bytes or 0.0) * 8e-3 for burst in inside),
            ]
        )
    return rows
