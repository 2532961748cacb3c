"""Common periods: how long the iterations of jobs that share links are to take, to keep in step.

Bursts of two jobs can only be kept apart for good if their periods fit each other. One job's
iteration, stretched or not, is the base; the others take a whole number of bases, or a whole part
of it, with idle time at the end. A job that would have to idle for too long is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_MOST_PARTS = 8
_MOST_BASES = 12  # that all repeat together after
_LEFT_OUT = 0.3  # of an iteration: what a job costs that is left out


def common_periods(
    durations: Mapping[int, int],
    weights: Mapping[int, int],
    *,
    stretch: float = 0.0,
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
    stretch
        By what share the base is longer than the iteration that it is taken from.
    most_idle
        The largest share of an iteration, beyond `stretch`, that a job may idle for.
    fixed
        Jobs that keep the period they have, as long as they keep in step with one another; one of
        theirs is the base.
    """
    fixed = fixed or {}
    if fixed:
        bases = sorted(set(fixed.values()))
    else:
        bases = sorted({math.ceil(duration * (1 + stretch)) for duration in durations.values()})
    best: dict[int, int] = {}
    least = math.inf
    for base in bases:
        found = _with_base(base, durations, stretch + most_idle, fixed)
        idle = sum(
            weights[job] * (found[job] / duration - 1 if job in found else stretch + _LEFT_OUT)
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
