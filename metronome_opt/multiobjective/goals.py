"""Goals: objectives in order or as a sum, tolerances, limits, reserves; and requests for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance
from metronome_opt.objectives import CUSHION, DEFAULT_ORDER, STRETCH, check_names
from metronome_opt.result import Block, Event, Level, Stop
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import Solver
from metronome_opt.solvers.search import Callback

Exact = str | int | Fraction
_MAX_DIGITS = 40


@dataclass(frozen=True)
class Goal:
    """Objectives of a schedule.

    Attributes
    ----------
    objectives
        One after the other, or, with `prices`, all at once.
    tolerance
        By what share of it an objective may become worse for the sake of later ones.
    prices
        Of a weighted sum of the values of objectives, divided by what `normal` says.
    epsilon
        The maximum of an objective, the minimum of a cushion.
    strict
        Whether contention is counted class by class, the heaviest first, however much less there
        would be in all.
    """

    objectives: tuple[str, ...]
    tolerance: Mapping[str, Fraction]
    prices: Mapping[str, Fraction]
    epsilon: Mapping[str, Fraction]
    strict: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every objective that matters."""
        return tuple(dict.fromkeys((*self.objectives, *self.epsilon)))


def make_goal(
    objectives: Sequence[str],
    tolerance: Mapping[str, Exact] | None = None,
    weights: Mapping[str, Exact] | None = None,
    epsilon: Mapping[str, Exact] | None = None,
    *,
    strict: bool = False,
) -> Goal:
    """Check what is asked for.

    Raises
    ------
    InputError
        If it makes no sense.
    """
    prices = _numbers("weights", weights)
    if prices and not any(prices.values()):
        raise InputError("weights: all are 0; give a positive one to what matters")
    if odd := [name for name in (CUSHION, STRETCH) if name in prices]:
        raise InputError(
            f"weights: {odd[0]} has no place in a sum; give objectives in an order instead"
        )
    if prices:
        objectives = list(prices)
        if tolerance:
            raise InputError("tolerance: a weighted sum has no levels; leave it or weights out")
    names = DEFAULT_ORDER if list(objectives) == ["all"] else check_names(objectives)
    loose = _numbers("tolerance", tolerance)
    for name in loose:
        if name not in names[:-1]:
            raise InputError(
                f"tolerance: {name} is not followed by another objective; "
                f"the objectives are {', '.join(names)}"
            )
    limits = _numbers("epsilon", epsilon)
    if strict and (names[0] != "contention" or prices or loose or limits or "stretch" in names):
        raise InputError(
            "strict: orders contention by classes, the first objective at given periods; "
            "leave out weights, tolerance, epsilon and stretch"
        )
    return Goal(names, loose, prices, limits, strict)


def _numbers(place: str, given: Mapping[str, Exact] | None) -> dict[str, Fraction]:
    """Return exact numbers by objective, none negative."""
    numbers = {}
    for name, value in (given or {}).items():
        check_names([name], place)
        numbers[name] = exact(f"{place}.{name}", value)
        if numbers[name] < 0:
            raise InputError(f"{place}.{name}: must not be negative, got {quote(str(value))}")
    return numbers


def exact(place: str, value: Exact) -> Fraction:
    """Return a number as it is given: ``3``, ``"1/3"``, ``"0.05"`` or ``"5%"``.

    Raises
    ------
    InputError
        If it is none, or a float, which is not exact.
    """
    number: Fraction | None = None
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _MAX_DIGITS or len(text.lower().partition("e")[2]) > 3:
            raise InputError(
                f"{place}: {quote(text)} is too long; write a number of {_MAX_DIGITS} digits "
                "or fewer"
            )
        with suppress(ValueError, ZeroDivisionError):
            share = 100 if text.endswith("%") else 1
            number = Fraction(text.removesuffix("%").strip()) / share
    elif isinstance(value, Rational) and not isinstance(value, bool):
        number = Fraction(value)
    if number is None:
        raise InputError(
            f"{place}: must be an exact number such as 3, '1/3', '0.05' or '5%', got {quote(value)}"
        )
    if max(abs(number.numerator), number.denominator) >= 10**_MAX_DIGITS:
        raise InputError(
            f"{place}: must have {_MAX_DIGITS} digits or fewer above and below the line"
        )
    return number


def check_reserve(instance: Instance, cushion_slots: int) -> None:
    """Refuse what is no reserve for the bursts of an instance.

    Raises
    ------
    InputError
        If it is negative, not an integer, or longer than any burst can grow.
    """
    if isinstance(cushion_slots, bool) or not isinstance(cushion_slots, int) or cushion_slots < 0:
        raise InputError(
            f"cushion_slots: must be a number of slots from 0 on, got {quote(cushion_slots)}"
        )
    longest = max(job.period + job.max_stretch for job in instance.jobs)
    if cushion_slots > longest:
        raise InputError(
            f"cushion_slots: {quote(cushion_slots)} is more than any burst can grow; the longest "
            f"period is {longest} slots"
        )


@dataclass(frozen=True)
class Request:
    """A goal, with the solver and the budget for it.

    Attributes
    ----------
    callback
        Told of events; the budget ends when it returns True.
    """

    goal: Goal
    solver: str | Solver
    budget: Budget
    seed: int
    workers: int
    callback: Callback | None = None


@dataclass
class Solution:
    """A schedule and its levels, before verification.

    Attributes
    ----------
    offsets, stretch
        By job name, in slots.
    levels
        The optimised objectives, in order.
    bound
        Of the first objective, None if there is none.
    """

    offsets: dict[str, int]
    stretch: dict[str, int] = field(default_factory=dict)
    levels: list[Level] = field(default_factory=list)
    bound: Fraction | None = None
    stop: Stop = Stop.FINISHED
    build_s: float = 0.0
    trajectory: tuple[Event, ...] = ()
    notes: list[str] = field(default_factory=list)
    blocks: tuple[Block, ...] = ()
