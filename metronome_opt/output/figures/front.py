"""The figure of a front: points, the steps between them, and other schedules beside it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import cycle

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes

from metronome_opt.errors import InputError, pluralise
from metronome_opt.output.figures import style
from metronome_opt.output.figures.picture import new_axes
from metronome_opt.problem.objectives import find_objective
from metronome_opt.solvers.multiobjective.front import Front

Values = Mapping[str, Fraction | None]

_WIDTH, _HEIGHT = 6.4, 4.6  # inches
_AIR = 0.08  # beside the points, of their extent
_BEYOND = 0.15  # of the extent of the values: how far to the right "no limit" is drawn
_APART = 0.03  # of an axis, between points that are numbered

# Shapes say it without the colours.
_MARKERS = {"greedy": ("^", "#D55E00"), "cassini": ("s", "#009E73"), "unshifted": ("X", "#595959")}
_FURTHER = (("D", "#CC79A7"), ("v", "#E69F00"), ("P", "#56B4E9"), ("p", style.INK))


@rc_context(style.SHEET)
def plot_front(
    front: Front, *, others: Mapping[str, Values] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a front: a point is a schedule, and nothing is possible below the steps between points.

    A cushion without limit is drawn at the far end of its axis.

    Parameters
    ----------
    front
        At least one point.
    others
        Objectives of further schedules, by their name in the figure.
    ax
        Axes to draw on; new ones if None.

    Raises
    ------
    InputError
        If the front has no point, or others lack an objective.
    """
    if not front.points:
        raise InputError("front: has no points; there is nothing to draw")
    ax = ax or new_axes(_WIDTH, _HEIGHT)
    table = _numbers(front, dict(others or {}))
    _prepare(ax, front, table)
    points, schedules = table.iloc[: len(front.points)], table.iloc[len(front.points) :]
    x, y = points.columns
    # The edge of the possible: between two points the worse values of both.
    limits = {x: ax.get_xlim(), y: ax.get_ylim()}
    worst = {name: limits[name][not find_objective(name).maximised] for name in (x, y)}
    ax.step(
        [points[x].iloc[0], *points[x], worst[x]],
        [worst[y], *points[y], points[y].iloc[-1]],
        where="post",
        color=style.BLUE,
        alpha=0.6,
        gid="front-steps",
    )
    ax.scatter(points[x], points[y], s=24, c=style.BLUE, zorder=4, gid="front-points")
    further = cycle(_FURTHER)
    for name, at in schedules.iterrows():
        marker, colour = _MARKERS.get(str(name)) or next(further)
        # Hollow: a schedule may be where another or a point of the front is.
        ax.scatter(
            at[x], at[y], s=90, marker=marker, facecolors="none", edgecolors=colour, label=str(name)
        )
    extent = {name: abs(high - low) for name, (low, high) in limits.items()}
    last: pd.Series[float] | None = None
    for number, at in points.iterrows():
        if last is None or any(abs(at[n] - last[n]) > _APART * extent[n] for n in (x, y)):
            ax.annotate(str(number), (at[x], at[y]), (4, 4), textcoords="offset points")
            last = at
    if len(schedules):
        ax.legend()
    return ax


def _numbers(front: Front, others: Mapping[str, Values]) -> pd.DataFrame:
    """Return coordinates of all schedules, first the points, numbered from 1."""
    rows: dict[int | str, Values] = {
        number: point.objectives for number, point in enumerate(front.points, start=1)
    }
    for other, objectives in others.items():
        for name in front.objectives:
            if name not in objectives:
                raise InputError(
                    f"others.{other}: {name} is missing; give all objectives of the front"
                )
        rows[other] = objectives
    table = {}
    for name in front.objectives:
        unit = 100 if find_objective(name).percent else 1
        values = [objectives[name] for objectives in rows.values()]
        known = [float(unit * value) for value in values if value is not None]
        high, low = max(known, default=0.0), min(known, default=0.0)
        far = high + max(1.0, _BEYOND * (high - low))
        table[name] = [far if value is None else float(unit * value) for value in values]
    return pd.DataFrame(table, index=list(rows), dtype=float)


def _prepare(axes: Axes, front: Front, table: pd.DataFrame) -> None:
    """Set limits, labels and title, so that the schedules fill the axes with some air around."""
    values = [point.objectives for point in front.points]
    for axis, name in zip("xy", front.objectives, strict=True):
        low, high = float(table[name].min()), float(table[name].max())
        air = _AIR * (high - low) or 0.05 * abs(low) or 1.0
        objective = find_objective(name)
        unit = f"% {objective.unit}" if objective.percent else objective.unit
        label = f"{name} ({unit.replace(' x ', ' × ')})"
        if any(objectives[name] is None for objectives in values):
            label += f"; no limit at {high:,.6g}"
        axes.set(**{f"{axis}lim": (low - air, high + air), f"{axis}label": label})
    names = " and ".join(front.objectives)
    complete = "" if front.complete else "\nnot proved complete: there may be further points"
    count = pluralise(len(front.points), "point")
    name = style.shorten(front.instance.name, 40)
    axes.set_title(f"{name}: front of {names}, {count}{complete}")
    axes.grid()
