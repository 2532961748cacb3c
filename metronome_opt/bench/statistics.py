"""Measures of single runs, on exact values, and means over seeds with confidence intervals.

A *failure* (no schedule, a crash, a schedule that `verify` refuses, no proof where proofs are
timed) always counts, with a value that its function states; a mean drops none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Steps = Sequence[tuple[float, Fraction]]
"""Seconds and values of the incumbents, in order of time."""

PENALTY = 2.0
"""Time limits that a failure counts in PAR2."""
MISSING = "-"
CONFIDENCE = 0.95


# ------------------------------------------------------------------ of a run


def primal_gap(value: Fraction | None, best: Fraction | None) -> Fraction:
    """Return the distance of a value from the best known one, between 0 and 1.

    ``|v - v*| / max(|v|, |v*|)``; 0 if both are 0; 1 without a value (None) or if the signs
    differ. No shift is needed: where `best` is 0 the gap is 0 for 0 and 1 for anything else.

    References
    ----------
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41(6),
    2013, section 2.
    """
    if value is None or best is None or value * best < 0:
        return Fraction(1)
    if value == best:
        return Fraction(0)
    return abs(value - best) / max(abs(value), abs(best))


def certified_gap(value: Fraction | None, bound: Fraction | None) -> Fraction:
    """Return ``(value - bound) / value``, the unproved share of a non-negative value.

    0 for the value 0, which nothing can be below; 1 without a value or without a bound.
    """
    if value is None:
        return Fraction(1)
    if not value:
        return Fraction(0)
    return Fraction(1) if bound is None else (value - bound) / value


def primal_integral(steps: Steps, best: Fraction | None, limit_s: float) -> float:
    """Return the mean primal gap over the time ``[0, limit_s]``, between 0 and 1.

    Before the first value the gap is 1; after the last it stays as it is. This is the primal
    integral (Berthold 2013) divided by the time limit, so that runs with different limits can be
    combined.
    """
    since, gap, areas = 0.0, Fraction(1), []
    for elapsed, value in steps:
        now = min(max(elapsed, since), limit_s)
        areas.append((now - since) * float(gap))
        since, gap = now, primal_gap(value, best)
    areas.append((limit_s - since) * float(gap))
    # Nothing is 0 seconds long; a limit of 0 leaves the last value alone.
    return math.fsum(areas) / limit_s if limit_s > 0 else float(gap)


# ------------------------------------------------------------------ of several seeds


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    Attributes
    ----------
    low, high
        The ends; None if there is only one value.
    count
        Number of values.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    def __sub__(self, value: float) -> Interval:
        """Return the interval moved down."""
        low, high = (None if end is None else end - value for end in (self.low, self.high))
        return Interval(self.mean - value, low, high, self.count)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of independent values and its 95 % confidence interval, by Student's t.

    One value for each seed: jobs of one run share its links and are not independent. A `ValueError`
    if there are no values or one is not finite.
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("an interval needs values, all of them finite")
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, None, None, 1)
    if min(values) == max(values):
        return Interval(values[0], values[0], values[0], count)
    from scipy.special import stdtrit

    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    width = quantile * statistics.stdev(values) / math.sqrt(count)
    return Interval(mean, mean - width, mean + width, count)


# ------------------------------------------------------------------ as text


def three_digits(value: float | None) -> str:
    """Return a number with three digits, more if it has more before the point."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:#,.3g}" if value and abs(value) < 99.95 else f"{value:,.0f}"
