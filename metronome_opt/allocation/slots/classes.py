"""Orders of jobs by traffic class: all orders of few jobs, some by rules of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

from metronome_opt.engine.jobs import isolated_iteration
from metronome_opt.problem.instance import Instance, Job

Classes = Mapping[str, int]

FEW = 4
"""Jobs of which all orders are tried, 75 at most."""


def class_orders(instance: Instance, count: int) -> Iterator[Classes]:
    """Yield classes, 0 the lowest, by several orders; those that follow weights come first."""
    jobs = instance.jobs
    every = _all_orders(jobs, count) if len(jobs) <= FEW else _by_rules(instance, count)
    distinct = {tuple(classes.values()): classes for classes in every}
    kept = [classes for values, classes in distinct.items() if len(set(values)) > 1]
    yield from sorted(kept, key=lambda classes: not follows_weights(jobs, classes))


def follows_weights(jobs: Sequence[Job], classes: Classes) -> bool:
    """Return whether no job of higher weight is in a lower class than one of less weight."""
    return all(
        classes.get(one.name, 0) <= classes.get(other.name, 0)
        for one in jobs
        for other in jobs
        if one.weight < other.weight
    )


def _all_orders(jobs: Sequence[Job], count: int) -> Iterator[Classes]:
    """Yield all weak orders of jobs, none of whose classes is empty."""
    most = min(count, len(jobs))
    for choice in product(range(most), repeat=len(jobs)):
        if set(choice) == set(range(max(choice) + 1)):
            yield dict(zip((job.name for job in jobs), choice, strict=True))


def _by_rules(instance: Instance, count: int) -> Iterator[Classes]:
    """Yield orders by rules in 2, 4, 8, ... classes, and single jobs above or below the rest."""
    jobs = instance.jobs
    rules: list[Callable[[Job], Fraction]] = [
        lambda job: Fraction(job.weight),
        urgency,
        lambda job: job.weight * _intensity(instance, job),
        lambda job: Fraction(job.weight, job.period),
    ]
    sizes = [2**power for power in range(1, count.bit_length()) if 2**power < count]
    for used in [*sizes, count]:
        for rule in rules:
            yield in_order(jobs, used, rule)
    for job in jobs:
        yield {other.name: int(other is job) for other in jobs}
        yield {other.name: int(other is not job) for other in jobs}


def in_order(jobs: Sequence[Job], count: int, key: Callable[[Job], Fraction]) -> Classes:
    """Return classes in equal shares of distinct keys, larger ones higher; none is empty."""
    keys = sorted({key(job) for job in jobs})
    used = min(count, len(keys))
    return {job.name: keys.index(key(job)) * used // len(keys) for job in jobs}


def urgency(job: Job) -> Fraction:
    """Return the weight over the longest burst: short bursts that go first delay others little.

    References
    ----------
    W. E. Smith, "Various optimizers for single-stage production", Naval Research Logistics
    Quarterly 3, 1956.
    """
    return Fraction(job.weight, max(phase.length for phase in job.phases))


def _intensity(instance: Instance, job: Job) -> Fraction:
    """Return the computing time over the time that traffic needs.

    References
    ----------
    J. Cao et al., "Crux: GPU-efficient communication scheduling for deep learning training",
    SIGCOMM 2024.
    """
    isolated = isolated_iteration(instance, job)
    computing = sum(isolated.pauses, Fraction(0))
    return computing / (isolated.duration - computing)
