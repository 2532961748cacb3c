"""Means over seeds with 95 % bootstrap confidence intervals.

What is resampled are whole seeds, never the jobs of a run: jobs of one run share its links and are
not independent of each other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CONFIDENCE = 0.95
RESAMPLES = 9999
_SEED = 0
_METHODS: tuple[Literal["BCa", "percentile"], ...] = ("BCa", "percentile")


@dataclass(frozen=True)
class Interval:
    """A mean and where it may lie.

    Attributes
    ----------
    mean
        Of the values.
    low, high
        The ends of the confidence interval; None where one value alone cannot tell.
    count
        How many values there were.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    def __contains__(self, value: float) -> bool:
        """Return whether a value lies in the interval; without one, nothing is certain."""
        if self.low is None or self.high is None:
            return True
        return self.low <= value <= self.high

    def __sub__(self, value: float) -> Interval:
        """Return the interval moved down."""
        low, high = (None if end is None else end - value for end in (self.low, self.high))
        return Interval(self.mean - value, low, high, self.count)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of independent values and its bootstrap confidence interval.

    The method is BCa, bias corrected and accelerated; where it is not defined, the percentiles of
    the bootstrap distribution. The same values in the same order give the same interval.

    Parameters
    ----------
    values
        Finite, one for each seed.

    Raises
    ------
    ValueError
        If there are no values or one is not finite.

    References
    ----------
    B. Efron, "Better bootstrap confidence intervals", Journal of the American Statistical
    Association 82(397), 1987.
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("an interval needs values, all of them finite")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Interval(mean, None, None, 1)
    if min(values) == max(values):
        return Interval(values[0], values[0], values[0], len(values))
    ends = next(filter(_finite, (_ends(values, method) for method in _METHODS)))
    return Interval(mean, *ends, len(values))


def _ends(values: Sequence[float], method: Literal["BCa", "percentile"]) -> tuple[float, float]:
    import numpy as np
    from scipy.stats import bootstrap

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # where BCa is not defined its ends are not finite
        found = bootstrap(
            (list(values),),
            np.mean,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method=method,
            rng=np.random.default_rng(_SEED),
        ).confidence_interval
    return float(found.low), float(found.high)


def _finite(ends: tuple[float, float]) -> bool:
    return all(map(math.isfinite, ends))
