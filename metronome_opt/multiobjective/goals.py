"""Goals: objectives in order or as a sum, tolerances, limits, reserves; and what a run may take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Rational

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.objectives import BY_NAME, DEFAULT_ORDER, check_names
from metronome_opt.result import Block, Event, Level, Stop
from metronome_opt.solvers.registry import SOLVERS, Solver
from metronome_opt.solvers.search import Callback

Exact = str | int | Fraction
_MOST_DIGITS = 40


@dataclass(frozen=True)
class Goal:
    """What a schedule is to be good at.

    Attributes
    ----------
    objectives
        One after the other, or, with `prices`, all at once.
    tolerance
        By what share of it an objective may become worse for the sake of later ones.
    prices
        Of a weighted sum of the values of objectives, divided by what `normal` says.
    epsilon
        The most that an objective may come to; of a cushion the least.
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
    found = {}
    for name, value in (given or {}).items():
        check_names([name], place)
        found[name] = exact(f"{place}.{name}", value)
        if found[name] < 0:
            raise InputError(f"{place}.{name}: must not be negative, got {show(str(value))}")
    return found


def exact(place: str, value: Exact) -> Fraction:
    """Return a number as it is given: ``3``, ``"1/3"``, ``"0.05"`` or ``"5%"``.

    Raises
    ------
    InputError
        If it is none, or a float, of which nobody knows what it stands for.
    """
    try:
        if isinstance(value, str):
            text = value.strip()
            if len(text) > _MOST_DIGITS or len(text.lower().partition("e")[2]) > 3:
                raise InputError(
                    f"{place}: {show(text)} is too long; write a number of {_MOST_DIGITS} digits "
                    "or fewer"
                )
            share = text.endswith("%")
            return _short(place, Fraction(text.removesuffix("%").strip()) / (100 if share else 1))
        if isinstance(value, Integral | Rational) and not isinstance(value, bool):
            return _short(place, Fraction(value))
    except InputError:
        raise
    except (ValueError, ZeroDivisionError):
        pass
    raise InputError(
        f"{place}: must be an exact number such as 3, '1/3', '0.05' or '5%', got {show(value)}"
    )


def _short(place: str, value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) >= 10**_MOST_DIGITS:
        raise InputError(
            f"{place}: must have {_MOST_DIGITS} digits or fewer above and below the line"
        )
    return value


def check_able(solver: Solver, goal: Goal, *, stretching: bool = False) -> None:
    """Refuse a goal that a solver cannot reach for, and name those that can.

    Parameters
    ----------
    stretching
        Whether jobs have to be stretched, asked for or not.

    Raises
    ------
    InputError
        If the solver does not optimise one of the objectives, or cannot hold an earlier one.
    """
    if _can(solver, goal, stretching):
        return
    able = [each.name for each in SOLVERS.values() if _can(each, goal, stretching)]
    wish = ", ".join(dict.fromkeys((*goal.names, *(["stretch"] if stretching else []))))
    extra = [
        word
        for word, given in (
            ("tolerance", goal.tolerance),
            ("epsilon", goal.epsilon),
            ("strict", goal.strict),
        )
        if given
    ]
    raise InputError(
        f"objectives: {wish}{' with ' + ' and '.join(extra) if extra else ''}: solver "
        f"{solver.name} cannot; it optimises {', '.join(solver.objectives)}"
        f"{' and holds ' + ', '.join(solver.holds) if solver.holds else ' alone'}; "
        f"those that can: {', '.join(able) or 'none'}"
    )


def check_reserve(instance: Instance, cushion_slots: int) -> None:
    """Refuse what is no reserve for the bursts of an instance.

    Raises
    ------
    InputError
        If it is negative, not an integer, or longer than any burst can grow.
    """
    if isinstance(cushion_slots, bool) or not isinstance(cushion_slots, int) or cushion_slots < 0:
        raise InputError(
            f"cushion_slots: must be a number of slots from 0 on, got {show(cushion_slots)}"
        )
    longest = max(job.period + job.max_stretch for job in instance.jobs)
    if cushion_slots > longest:
        raise InputError(
            f"cushion_slots: {show(cushion_slots)} is more than any burst can grow; the longest "
            f"period is {longest} slots"
        )


def _can(solver: Solver, goal: Goal, stretching: bool) -> bool:
    held = () if goal.prices else goal.objectives if goal.strict else goal.objectives[:-1]
    added = [name for name in goal.names if name not in BY_NAME]
    return (
        set(goal.names) <= {*solver.objectives, *added}
        and ("stretch" in solver.objectives or not stretching)
        and set(held) <= {*solver.holds, *added}
        # What holds costs at any value knows costs of any kind.
        and (solver.limits or not (goal.tolerance or goal.epsilon or added))
    )


# ------------------------------------------------------------------ runs


@dataclass
class Run:
    """A goal, what the search for it may take, and when it stops.

    That is at the time limit, at Ctrl-C, or when a callback says so.

    Attributes
    ----------
    time_limit
        Seconds since `started`, None for no limit.
    """

    goal: Goal
    solver: str | Solver
    time_limit: float | None
    seed: int
    workers: int
    callback: Callback | None = None
    started: float = field(default_factory=time.perf_counter)
    _stop: Stop | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self.elapsed)

    def share(self, part: Fraction) -> float | None:
        """Return a part of the seconds that are left."""
        return None if self.remaining is None else self.remaining * float(part)

    @property
    def stopped(self) -> bool:
        """Whether to return what there is."""
        if self._stop is None and self.remaining == 0.0:
            self._stop = Stop.TIME_LIMIT
        return self._stop is not None

    @property
    def stop(self) -> Stop:
        """Why the search ended."""
        return self._stop if self.stopped and self._stop else Stop.FINISHED

    def interrupt(self) -> None:
        """Return what there is."""
        self._stop = Stop.INTERRUPTED

    def call_off(self) -> None:
        """Return what there is because the callback said so."""
        self._stop = self._stop or Stop.CALLBACK


@dataclass
class Found:
    """A schedule and how it was found, before the judge has seen it.

    Attributes
    ----------
    offsets, stretch
        By job name, in slots.
    levels
        What was optimised, in order.
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
