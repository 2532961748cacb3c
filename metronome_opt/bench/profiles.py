"""Distributions over instances and runs: performance profiles, cactus plots, time to target."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

P = TypeVar("P", bound=Hashable)

Points = tuple[tuple[float, float], ...]


def performance_profile(
    times: Mapping[str, Mapping[P, float]], floor: float = 0.0
) -> dict[str, Points]:
    """Return for each solver the share of problems that it solves within a ratio of the best time.

    Parameters
    ----------
    times
        Seconds for each solver and problem, infinity for a failure. All solvers have the same
        problems; those that nobody solves count as well.
    floor
        Times below this many seconds count as this many, since their ratios would be noise.

    Returns
    -------
    dict
        Points (ratio, share) where the share rises, ascending; below the first it is 0.

    Raises
    ------
    ValueError
        If the solvers do not have the same problems.

    References
    ----------
    E. D. Dolan, J. J. More, "Benchmarking optimization software with performance profiles",
    Mathematical Programming 91, 2002.
    """
    problems = {frozenset(by_problem) for by_problem in times.values()}
    if len(problems) > 1:
        raise ValueError("the solvers of a performance profile must have the same problems")
    best = {
        problem: max(floor, min(by_problem[problem] for by_problem in times.values()))
        for problem in next(iter(problems), frozenset())
    }
    return {
        solver: _distribution(
            [
                max(floor, time) / best[problem] if math.isfinite(time) else math.inf
                for problem, time in by_problem.items()
            ]
        )
        for solver, by_problem in times.items()
    }


def _distribution(values: Sequence[float]) -> Points:
    """Return the empirical distribution of values, infinite ones in the denominator only."""
    reached = sorted(value for value in values if math.isfinite(value))
    # A dict keeps the last, highest share of values that are alike.
    shares = {value: rank / len(values) for rank, value in enumerate(reached, start=1)}
    return tuple(shares.items())


def cactus(times: Sequence[float]) -> Points:
    """Return the points (problems solved, seconds that the last of them took), fastest first."""
    solved = sorted(time for time in times if math.isfinite(time))
    return tuple((float(count), time) for count, time in enumerate(solved, start=1))


def target_distribution(times: Sequence[float]) -> Points:
    """Return the points (t_i, (i - 1/2) / n) of n runs, where t_i is the i-th time to target.

    Runs that did not reach the target (infinity) are part of n and have no point.

    References
    ----------
    R. M. Aiex, M. G. C. Resende, C. C. Ribeiro, "TTT plots: a perl program to create
    time-to-target plots", Optimization Letters 1, 2007.
    """
    reached = sorted(time for time in times if math.isfinite(time))
    return tuple((time, (rank - 0.5) / len(times)) for rank, time in enumerate(reached, start=1))
