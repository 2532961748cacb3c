"""What each job may do: keep slots of a period, or run freely; and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance, Job

_MOST_CHOICES = 200_000  # in all


@dataclass(frozen=True)
class Choice:
    """One thing that a job may do.

    Attributes
    ----------
    period
        Of the slots that it keeps; None for running freely.
    cost
        What it adds to the value.
    """

    period: int | None
    cost: Fraction


Choices = Mapping[str, tuple[Choice, ...]]
"""For each job what it may do, the cheapest first."""


def largest_set(instance: Instance, worth: Mapping[str, Fraction] | None = None) -> Choices:
    """Problem (b): jobs keep their own periods, or are left out at the cost of their worth.

    Parameters
    ----------
    worth
        Of each job; its weight if left out.
    """
    return {
        job.name: (
            Choice(job.period, Fraction(0)),
            Choice(None, Fraction(job.weight) if worth is None else worth[job.name]),
        )
        for job in instance.jobs
    }


def least_stretch(instance: Instance, limit: Fraction | None = None) -> Choices:
    """Problem (c): every job keeps slots, at the cost of weight x stretch / period.

    Parameters
    ----------
    limit
        By what share of it each period may be stretched, even if the instance allows its job less;
        if left out, what the instance says of each job counts alone.
    """
    slots = {job.name: most_stretch(instance, job, limit) for job in instance.jobs}
    if sum(slots.values()) > _MOST_CHOICES:
        raise InputError(
            f"stretch_limit: leaves {show(sum(slots.values()))} periods to choose from, more than "
            f"{_MOST_CHOICES}; lower it, or coarsen the slots"
        )
    return {
        job.name: tuple(
            Choice(period, Fraction(job.weight * (period - job.period), job.period))
            for period in range(job.period, job.period + slots[job.name] + 1)
        )
        for job in instance.jobs
    }


def most_stretch(instance: Instance, job: Job, limit: Fraction | None) -> int:
    """Return by how many slots a job may be stretched: by what it says itself, or by the limit.

    Raises
    ------
    InputError
        If the limit is negative.
    """
    if limit is None:
        return job.max_stretch
    if limit < 0:
        raise InputError(f"stretch_limit: must be at least 0, got {show(str(limit))}")
    share = min(int(limit * job.period), instance.hyperperiod_limit - job.period)
    return max(job.max_stretch, share)


def cheapest_first(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return choices by cost; of equal cost slots before running freely, shorter periods first.

    Of choices of one period the cheapest is kept.
    """
    first: dict[int | None, Choice] = {}
    for choice in sorted(choices, key=lambda c: (c.cost, c.period is None, c.period or 0)):
        first.setdefault(choice.period, choice)
    return tuple(first.values())


def costs_of(choices: Choices) -> dict[str, dict[int | None, Fraction]]:
    """Return for each job what each period costs, and None, running freely."""
    return {name: {choice.period: choice.cost for choice in each} for name, each in choices.items()}


def least_cost(choices: Choices) -> Fraction:
    """Return what the cheapest choices cost, whether they fit or not."""
    return sum((min(choice.cost for choice in each) for each in choices.values()), Fraction(0))


def checked(instance: Instance, choices: Choices) -> Choices:
    """Return the choices of every job of an instance, the cheapest first.

    Raises
    ------
    InputError
        If a job is unknown or has no choices, a cost is negative, or a period is not one that the
        job can be stretched to within the hyperperiod limit.
    """
    refuse_unknown(instance, choices)
    for job in instance.jobs:
        if not choices.get(job.name):
            raise InputError(f"choices.{job.name}: empty; every job needs a choice")
        for choice in choices[job.name]:
            if choice.cost < 0:
                raise InputError(
                    f"choices.{job.name}: costs must be at least 0, got {show(str(choice.cost))}"
                )
            if choice.period is not None:
                check_period(instance, job, choice.period, "choices")
    return {job.name: cheapest_first(choices[job.name]) for job in instance.jobs}


def refuse_unknown(instance: Instance, named: Iterable[str]) -> None:
    """Refuse names of no job.

    Raises
    ------
    InputError
        With the first of them.
    """
    known = {job.name for job in instance.jobs}
    for name in named:
        if name not in known:
            raise InputError(f"jobs: there is no {show(name)} in {instance.name}")


def check_period(instance: Instance, job: Job, period: int, field: str) -> None:
    """Refuse a period that a job cannot keep.

    Raises
    ------
    InputError
        With the job and what its period may be.
    """
    if not job.period <= period <= instance.hyperperiod_limit:
        raise InputError(
            f"{field}.{job.name}: periods must be from {job.period} to "
            f"{instance.hyperperiod_limit}, got {show(period)}"
        )
