"""Random numbers by their place, not by their turn.

The factor of the k-th computing time of a job is a function of the seed, the job, the iteration and
the segment. So whatever a policy does, the job meets the same chance in the same iteration, and
policies can be compared pair by pair.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / 2.0**53
_CUT = 3.0  # standard deviations


@njit(cache=True, nogil=True)
def mix(state: np.uint64, step: int) -> np.uint64:
    """Return a number that looks as if it had nothing to do with `state` and `step`.

    References
    ----------
    G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
    (the finaliser of SplitMix64).
    """
    z = state + _GOLDEN * np.uint64(step + 1)
    z = (z ^ (z >> _S30)) * _ONE
    z = (z ^ (z >> _S27)) * _TWO
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True)
def uniform(state: np.uint64) -> float:
    """Return a number in (0, 1)."""
    return (float(state >> _S11) + 0.5) * _UNIT


@njit(cache=True, nogil=True)
def exponential(state: np.uint64) -> float:
    """Return an exponential number of mean 1."""
    return -math.log(uniform(state))


@njit(cache=True, nogil=True)
def normal(state: np.uint64) -> float:
    """Return a standard normal number, no further from 0 than three standard deviations."""
    radius = math.sqrt(2.0 * exponential(mix(state, 0)))
    number = radius * math.cos(2.0 * math.pi * uniform(mix(state, 1)))
    return min(max(number, -_CUT), _CUT)


@njit(cache=True, nogil=True)
def slowness(state: np.uint64, jitter: float, stragglers: float, straggling: float) -> float:
    """Return by what factor a computing time is longer than usual."""
    factor = 1.0
    if jitter > 0.0:
        factor += jitter * normal(mix(state, 2))
    if stragglers > 0.0 and uniform(mix(state, 3)) < stragglers:
        factor *= straggling
    return factor
