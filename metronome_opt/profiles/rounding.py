"""Bursts as measured, rounded to slots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Phase
from metronome_opt.profiles.bursts import Burst

_TOUCHED = 0.1  # of a slot: a burst that ends less than this after a slot does not need another


def to_phases(bursts: Sequence[Burst], slot_ms: int, period_slots: int) -> tuple[Phase, ...]:
    """Round bursts to slots of a period; volumes are kept but for rates being whole.

    Raises
    ------
    InputError
        If they do not fit into the period.
    """
    phases: list[Phase] = []
    for burst in bursts:
        first = math.floor(burst.start_ms / slot_ms + 0.5)
        start = max(first, phases[-1].end if phases else 0)
        end = math.ceil((burst.start_ms + burst.length_ms) / slot_ms - _TOUCHED)
        length = max(end - start, 1)
        rate = math.ceil(burst.length_ms * burst.rate_mbps / (length * slot_ms))
        phases.append(Phase(start=start, length=length, rate=max(rate, 1)))
    if phases and phases[-1].end > period_slots:
        raise InputError(
            f"slot_ms: {show(slot_ms)}: the bursts take {phases[-1].end} slots, the period has "
            f"{period_slots}; use shorter slots"
        )
    return tuple(phases)
