"""What can be optimised, and what each objective leaves as it is.

Presolve and solvers ask here what they may do; the rest of the code does not tell objectives apart
by their names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from metronome_opt.errors import InputError, show
from metronome_opt.multiobjective.weighting import is_layered
from metronome_opt.schedule import OBJECTIVES


@dataclass(frozen=True)
class Objective:
    """An objective of docs/model.md.

    Attributes
    ----------
    name
        As in files.
    unit
        For people.
    turns
        Whether rotating jobs that meet on links, all by the same amount, leaves it as it is: then
        blocks can be solved apart, and of rotations of one another one will do.
    adds_up
        Whether that of the whole is the sum over its parts; otherwise it is the least of them.
    maximised
        Whether more is better.
    at_given_periods
        Whether it says something about offsets; if not, it is a matter of periods alone.
    """

    name: str
    unit: str
    turns: bool = True
    adds_up: bool = True
    maximised: bool = False
    at_given_periods: bool = True


_ALL = (
    Objective("contention", "weight x Mbit/s"),
    Objective("latency", "share of all traffic"),
    Objective("stretch", "weight x share of period", at_given_periods=False),
    Objective("wait", "weight x slots", turns=False),
    Objective("moves", "weight", turns=False),
    Objective("cushion", "slots", adds_up=False, maximised=True),
)
BY_NAME = {objective.name: objective for objective in _ALL}
DEFAULT_ORDER = ("contention", "stretch", "latency", "cushion", "wait", "moves")


def check_names(names: Sequence[str], place: str = "objectives") -> tuple[str, ...]:
    """Return the names if they are of objectives, each once.

    Raises
    ------
    InputError
        If there is none, or one that is not known or said twice.
    """
    if isinstance(names, str):
        raise InputError(f"{place}: must be a list of names, got {show(names)}")
    if not names:
        raise InputError(f"{place}: none given; choose from {', '.join(OBJECTIVES)}")
    for index, name in enumerate(names):
        if name not in BY_NAME:
            raise InputError(
                f"{place}: {show(name)} is not known; choose from {', '.join(OBJECTIVES)}"
            )
        if name in names[:index]:
            raise InputError(f"{place}: {name} is given twice; name each once")
    return tuple(names)


def can_turn(names: Collection[str]) -> bool:
    """Return whether rotating what meets on links changes none of some objectives."""
    return all(is_layered(name) or BY_NAME[name].turns for name in names)
