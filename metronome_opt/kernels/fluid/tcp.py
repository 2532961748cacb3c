"""Shares of single bursts, as connections of TCP get them: by chance, and less for newcomers."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from metronome_opt.kernels.fluid.chance import mix, normal
from metronome_opt.kernels.fluid.world import World


@njit(cache=True, nogil=True)
def share_of_burst(world: World, job: int, draw: np.uint64) -> float:
    """Return the share of a burst that begins now, which it keeps to its end.

    The share of a burst that begins alone is drawn from a lognormal distribution of median 1. One
    that meets another burst, on any of its links, has a window that is still small, and so less.
    """
    clock, row = world.clock[0], world.jobs[job]
    share = math.exp(clock.spread * normal(mix(draw, 5)))
    for use in range(row.first_use, row.first_use + row.uses):
        if world.links[world.uses[use].link].active > 0:
            return share * float(clock.newcomer)
    return share
