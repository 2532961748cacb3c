"""Goals: objectives in order or as a sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.objectives import CUSHION, DEFAULT_ORDER, SLOWDOWN, STRETCH, check_names
from metronome_opt.problem.result import Level, ProgressEvent, StopReason
from metronome_opt.solvers.arguments import Exact, exact
from metronome_opt.solvers.registry import SOLVERS, Solver


@dataclass(frozen=True)
class Goal:
    """Objectives of a schedule.

    Attributes
    ----------
    objectives
        One after the other, or, with `prices`, all at once.
    prices
        Of a weighted sum of the values of objectives, divided by what `normal` says.
    """

    objectives: tuple[str, ...]
    prices: Mapping[str, Fraction] = field(default_factory=dict)


def make_goal(objectives: Sequence[str], weights: Mapping[str, Exact] | None = None) -> Goal:
    """Return objectives in an order, or a weighted sum.

    Raises
    ------
    InputError
        If it makes no sense.
    """
    prices = {}
    for name, weight in (weights or {}).items():
        check_names([name], "weights")
        prices[name] = exact(f"weights.{name}", weight)
        if prices[name] < 0:
            raise InputError(f"weights.{name}: must not be negative, got {quote(str(weight))}")
    if prices and not any(prices.values()):
        raise InputError("weights: all are 0; give a positive one to what matters")
    if odd := [name for name in (CUSHION, STRETCH) if name in prices]:
        raise InputError(
            f"weights: {odd[0]} has no place in a sum; give objectives in an order instead"
        )
    if prices:
        return Goal(tuple(prices), prices)
    return Goal(DEFAULT_ORDER if list(objectives) == ["all"] else check_names(objectives))


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
    stop: StopReason = StopReason.FINISHED
    build_s: float = 0.0
    trajectory: tuple[ProgressEvent, ...] = ()
    notes: list[str] = field(default_factory=list)


def check_able(solver: Solver, goal: Goal, *, stretching: bool) -> None:
    """Refuse a goal that a solver cannot minimise, and name the solvers that can.

    `stretching` says whether jobs have to be stretched, asked for or not.
    """
    if _can(solver, goal, stretching):
        return
    able = [each.name for each in SOLVERS.values() if _can(each, goal, stretching)]
    wish = ", ".join(dict.fromkeys((*goal.objectives, *(["stretch"] if stretching else []))))
    raise InputError(
        f"objectives: {wish}: solver {solver.name} cannot; it optimises "
        f"{', '.join(solver.objectives)}"
        f"{' and holds ' + ', '.join(solver.holds) if solver.holds else ' alone'}; "
        f"those that can: {', '.join(able) or 'none'}"
    )


def _can(solver: Solver, goal: Goal, stretching: bool) -> bool:
    held = () if goal.prices else goal.objectives[:-1]
    if SLOWDOWN in solver.objectives:  # it minimises all there are, those of other packages too
        return True
    return (
        set(goal.objectives) <= set(solver.objectives)
        and set(held) <= set(solver.holds)
        and not stretching
    )
