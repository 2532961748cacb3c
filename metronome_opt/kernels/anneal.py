"""Simulated annealing that takes every offset of a job into account at once.

One pass of the sliding window gives what a job adds to the contention at all of its offsets. So an
offset can be drawn from the Boltzmann distribution, ``P(o) ~ exp(-cost(o) / temperature)``, itself
(heat bath, or Gibbs sampling; Geman and Geman 1984), where Metropolis would propose offsets one by
one and refuse most. The draw is the offset that minimises ``cost(o) - temperature * g(o)`` for
independent standard Gumbel variables g (Gumbel 1954), which come from a table.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metronome_opt.kernels.jobs import put_job, score_job, score_placed
from metronome_opt.kernels.tables import Ints, Tables

Floats = NDArray[np.float64]
_STARTS = 2**13  # places to begin at in the table of noise


def gumbel_noise(generator: np.random.Generator, longest: int) -> Floats:
    """Return a table of standard Gumbel variables, enough for periods of up to `longest` slots."""
    return generator.gumbel(size=_STARTS + longest)


@njit(cache=True, nogil=True)
def spreads(tables: Tables, demand: Ints, offsets: Ints, jobs: Ints, work: Ints) -> Floats:
    """Return the standard deviation of each job's cost over its offsets, given all the others.

    Parameters
    ----------
    demand, offsets
        A schedule and its layered demand; left as they are.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    found = np.empty(jobs.shape[0])
    for position in range(jobs.shape[0]):
        job = jobs[position]
        period = tables.period[job]
        cost = work[:period]
        score_placed(tables, demand, job, offsets[job], cost, work[period:])
        found[position] = np.std(cost)
    return found


@njit(cache=True, nogil=True)
def anneal(
    tables: Tables,
    demand: Ints,
    offsets: Ints,
    free: Ints,
    scale: Floats,
    temperature: float,
    cooling: float,
    noise: Floats,
    generator: np.random.Generator,
    steps: int,
    work: Ints,
) -> float:
    """Draw the offset of a random job anew, `steps` times; return the temperature that is reached.

    Parameters
    ----------
    demand, offsets
        In and out, consistent with each other.
    free
        The jobs that may move.
    scale
        Per job, the scaled contention that temperature 1 stands for.
    temperature, cooling
        At the first step, and what it is multiplied by after each.
    noise
        See `gumbel_noise`.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    for _ in range(steps):
        job = free[generator.integers(0, free.shape[0])]
        period = tables.period[job]
        cost = work[:period]
        put_job(tables, demand, job, offsets[job], -1)
        score_job(tables, demand, job, cost, work[period:])
        begin = generator.integers(0, noise.shape[0] - period)
        offsets[job] = _draw(cost, temperature * scale[job], noise[begin : begin + period])
        put_job(tables, demand, job, offsets[job], 1)
        temperature *= cooling
    return temperature


@njit(cache=True, nogil=True)
def _draw(cost: Ints, temperature: float, noise: Floats) -> int:
    """Return an offset from the Boltzmann distribution of `cost`."""
    drawn = 0
    least = np.inf
    for o in range(cost.shape[0]):
        value = cost[o] - temperature * noise[o]
        if value < least:
            drawn, least = o, value
    return drawn
