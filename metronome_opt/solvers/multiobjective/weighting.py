"""Sums of layered objectives as the contention of other weights."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction

from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import LayeredObjective, find_objective


def can_rotate(names: Collection[str]) -> bool:
    """Return True if rotating jobs that share links changes none of some objectives."""
    return all(find_objective(name).rotation_invariant for name in names)


def is_layered(name: str) -> bool:
    """Return True if an objective is the contention of other weights."""
    return isinstance(find_objective(name), LayeredObjective)


def find_layered(name: str) -> LayeredObjective:
    """Return an objective that `is_layered`."""
    objective = find_objective(name)
    assert isinstance(objective, LayeredObjective)  # noqa: S101 (the callers' promise)
    return objective


def weigh(instance: Instance, coefficients: Mapping[str, Fraction]) -> tuple[Instance, Fraction]:
    """Return a sum of layered objectives as the contention of other weights, and its unit.

    Parameters
    ----------
    coefficients
        Coefficient of a Mbit/s of every objective, by name, not negative; for latency, of a Mbit/s
        that is late, not of its share of the traffic.

    Returns
    -------
    tuple
        The jobs with other weights, and what a unit of their contention counts in the sum.
    """
    common = math.lcm(1, *(factor.denominator for factor in coefficients.values()))
    whole = {find_layered(name): int(factor * common) for name, factor in coefficients.items()}
    shared = math.gcd(*whole.values()) or 1
    jobs = []
    for job in instance.jobs:
        terms = (factor // shared * layer.weight(job.weight) for layer, factor in whole.items())
        jobs.append(job.model_copy(update={"weight": sum(terms)}))
    return instance.replace(jobs=tuple(jobs)), Fraction(shared, common)
