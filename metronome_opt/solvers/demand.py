"""The rate of a flow slot by slot."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from metronome_opt.problem.instance import Phase


def slot_rates(phases: Iterable[Phase], period: int, offset: int = 0) -> NDArray[np.int64]:
    """Return the rate of a flow in every slot of a period.

    Parameters
    ----------
    phases, period, offset
        Bursts of the flow, their period and where it starts, in slots.

    Returns
    -------
    array
        Mbit/s, shape (period,).
    """
    rates = np.zeros(period, dtype=np.int64)
    for phase in phases:
        rates[phase.start : phase.end] = phase.rate
    return np.roll(rates, offset)
