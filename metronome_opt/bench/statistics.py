"""What a run is worth in one number: the measures of the field, on exact values where they exist.

A *failure* (no schedule, a crash, a schedule that the judge refused, no proof where proofs are
timed) always counts, with a value that its function states; nothing is ever left out of a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

Steps = Sequence[tuple[float, Fraction]]
"""Values of the incumbent with the seconds at which each was found, in order of time."""


def shifted_geometric_mean(values: Sequence[float], shift: float) -> float:
    """Return ``exp(mean(log(v + shift))) - shift``.

    The shift keeps values far below it from deciding the mean; both are of one unit. The mean of
    means over groups of equal size is the mean over all.

    Raises
    ------
    ValueError
        If there are no values.
    """
    if not values:
        raise ValueError("the mean of no values")
    logarithms = math.fsum(math.log(value + shift) for value in values)
    # Rounding may lead just below the smallest value, and below 0, where all are alike.
    return max(min(values), math.exp(logarithms / len(values)) - shift)


def penalised_time(solved_s: float | None, limit_s: float, factor: float = 2.0) -> float:
    """Return the seconds of a run, `factor` times its limit if it did not solve (None): PAR2."""
    return factor * limit_s if solved_s is None else solved_s


def primal_gap(value: Fraction | None, best: Fraction | None) -> Fraction:
    """Return how far a value is from the best known one, between 0 and 1.

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
    """Return ``(value - bound) / value``, what is not proved of a value that is never negative.

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
    integral divided by the time limit, so that runs with different limits can be told together.

    References
    ----------
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41(6),
    2013, section 2.
    """
    since, gap, areas = 0.0, Fraction(1), []
    for elapsed, value in steps:
        now = min(max(elapsed, since), limit_s)
        areas.append((now - since) * float(gap))
        since, gap = now, primal_gap(value, best)
    areas.append((limit_s - since) * float(gap))
    # Nothing is 0 seconds long; a limit of 0 leaves the last value alone.
    return math.fsum(areas) / limit_s if limit_s > 0 else float(gap)


def time_to_target(steps: Steps, target: Fraction) -> float:
    """Return the seconds until a value is at most `target`; infinity if none is."""
    return next((elapsed for elapsed, value in steps if value <= target), math.inf)
