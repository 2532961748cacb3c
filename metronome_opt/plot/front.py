"""The picture of a front: points, the steps between them, and other schedules beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.ticker import MaxNLocator

from metronome_opt.errors import InputError, counted
from metronome_opt.multiobjective.front import Front
from metronome_opt.multiobjective.goals import Exact, exact
from metronome_opt.objectives import find_objective
from metronome_opt.plot import style
from metronome_opt.plot.picture import Picture

Values = Mapping[str, Fraction | None]

_WIDTH, _HEIGHT = 6.4, 4.6  # inches of one panel
_SMALL = 0.2  # a front that takes less of an axis is shown closely as well
_AIR = 0.08  # beside what is drawn, of its extent
_BEYOND = 0.15  # of the extent of the values: how far to the right "no limit" is drawn
_MOST_NUMBERS = 30

# Shapes say it without the colours.
_LOOKS = {"greedy": ("^", "#D55E00"), "cassini": ("s", "#009E73"), "unshifted": ("X", "#595959")}
_FURTHER = (("D", "#CC79A7"), ("v", "#E69F00"), ("P", "#56B4E9"), ("p", style.INK))
_REFERENCE = "reference"


@rc_context(style.SHEET)
def plot_front(
    front: Front,
    *,
    others: Mapping[str, Values] | None = None,
    reference: Mapping[str, Exact] | None = None,
) -> Picture:
    """Draw a front: each point a schedule, below the steps between them nothing is possible.

    Where other schedules are so far away that the front would be a dot, it is drawn twice: with
    them, and closely. Of three objectives the third is the colour of the points, without steps. A
    cushion without limit is drawn at the far end of its axis.

    Parameters
    ----------
    front
        At least one point.
    others
        Objectives of further schedules, by the name that they are to have in the picture.
    reference
        The reference point of a hypervolume, a value for each objective.

    Raises
    ------
    InputError
        If the front has no point, or others or the reference lack an objective.
    """
    if not front.points:
        raise InputError("front: has no points; there is nothing to draw")
    named = dict(others or {})
    if reference is not None:
        named = _with_reference(front, named, reference)
    everything, ends = _numbers(front, named)
    points, marks = everything.loc[: len(front.points)], everything.iloc[len(front.points) :]
    extents = (np.ptp(points, axis=0), np.ptp(everything, axis=0))
    close = len(points) > 1 and bool((extents[0] < _SMALL * extents[1])[:2].any())
    names = " and ".join((", ".join(front.objectives[:-1]), front.objectives[-1]))
    count = counted(len(points), "point")
    title = f"{style.shorten(front.instance.name, 40)}: front of {names}, {count}"
    figure = Picture(_WIDTH * (1 + close), _HEIGHT, title)
    panels = list(figure.subplots(1, 1 + close, squeeze=False)[0])
    if close:
        panels[0].set_title("with other schedules")
        panels[1].set_title("the front, closely")
    for panel, shown in zip(panels, (everything, points), strict=False):
        _prepare(panel, shown, ends)
        drawn = _draw_points(panel, points)
        _draw_marks(panel, marks)
    _number(panels[-1], points)
    if named:
        panels[0].legend()
    if len(front.objectives) > 2:
        third = front.objectives[2]
        scale = figure.colorbar(drawn, ax=panels, pad=0.015, fraction=0.05)
        scale.set_label(_label(third))
        places, texts = _ticks(third, *drawn.get_clim(), ends.get(third))
        scale.set_ticks(places, labels=texts)
    if not front.complete:
        panels[-1].set_title(
            "not proved complete: there may be further points",
            fontsize=style.SMALL,
            fontstyle="italic",
            loc="right",
        )
    figure.settle()
    return figure


# ------------------------------------------------------------------ what is drawn where


def _with_reference(
    front: Front, others: Mapping[str, Values], reference: Mapping[str, Exact]
) -> dict[str, Values]:
    """Return the schedules with the reference among them, or as one of them."""
    for name in front.objectives:
        if name not in reference:
            raise InputError(f"reference: {name} is missing; give it a value")
    at = {name: exact(f"reference.{name}", reference[name]) for name in front.objectives}
    same = [
        name
        for name, values in others.items()
        if all(values.get(objective) == value for objective, value in at.items())
    ]
    if not same:
        return {**others, _REFERENCE: at}
    return {f"{n}, {_REFERENCE}" if n == same[0] else n: values for n, values in others.items()}


def _numbers(
    front: Front, others: Mapping[str, Values]
) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    """Return where all schedules are drawn, the points, numbered from 1, first.

    With it, by objective that has no limit somewhere, the largest value and where "no limit" is.
    """
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
    table, ends = {}, {}
    for name in front.objectives:
        unit = 100 if find_objective(name).percent else 1
        values = [each[name] for each in rows.values()]
        known = [float(unit * value) for value in values if value is not None]
        most, least = max(known, default=0.0), min(known, default=0.0)
        far = most + max(1.0, _BEYOND * (most - least))
        table[name] = [far if value is None else float(unit * value) for value in values]
        if None in values:
            ends[name] = (most, far)
    return pd.DataFrame(table, index=list(rows), dtype=float), ends


def _label(name: str) -> str:
    """Return what stands beside an axis: the objective and its unit."""
    objective = find_objective(name)
    unit = f"% {objective.unit}" if objective.percent else objective.unit
    return f"{name} ({unit.replace(' x ', ' × ')})"


def _ticks(
    name: str, low: float, high: float, end: tuple[float, float] | None
) -> tuple[list[float], list[str]]:
    """Return places between two others and what is written there."""
    most, far = end or (math.inf, math.inf)
    locator = MaxNLocator(6, integer=find_objective(name).unit == "slots")
    places = [float(at) for at in locator.tick_values(low, high) if low <= at <= min(high, most)]
    texts = [f"{place:,.10g}" for place in places]
    if low <= far <= high:
        return [*places, far], [*texts, "no limit"]
    return places, texts


# ------------------------------------------------------------------ panels


def _prepare(panel: Axes, shown: pd.DataFrame, ends: Mapping[str, tuple[float, float]]) -> None:
    """Give a panel its axes, so that some schedules fill it with some air beside them."""
    for axis, name in zip("xy", map(str, shown), strict=False):
        low, high = float(shown[name].min()), float(shown[name].max())
        air = _AIR * (high - low) or 0.05 * abs(low) or 1.0
        limits = (low - air, high + air)
        places, texts = _ticks(name, *limits, ends.get(name))
        panel.set(**{f"{axis}lim": limits, f"{axis}label": _label(name)})
        getattr(panel, f"set_{axis}ticks")(places, texts)
    panel.grid(color="#e2e2e2")


def _draw_points(panel: Axes, points: pd.DataFrame) -> PathCollection:
    """Draw the front; return what a scale of its colours is made from."""
    x, y = points.columns[:2]
    looks: dict[str, Any] = {"color": style.BLUE}
    if len(points.columns) > 2:
        # The luminance of these colours rises all the way.
        looks = {"c": points.iloc[:, 2], "cmap": "cividis"}
    else:
        # The edge of what is possible: between two points the worse value of each.
        limits = {x: panel.get_xlim(), y: panel.get_ylim()}
        worst = {name: limits[name][not find_objective(name).maximised] for name in (x, y)}
        panel.step(
            [points[x].iloc[0], *points[x], worst[x]],
            [worst[y], *points[y], points[y].iloc[-1]],
            where="post",
            color=style.BLUE,
            linewidth=1.2,
            alpha=0.6,
            zorder=2,
            gid="front-steps",
        )
    return panel.scatter(
        points[x],
        points[y],
        s=24,
        edgecolors=style.INK,
        linewidths=0.6,
        zorder=4,
        gid="front-points",
        **looks,
    )


def _draw_marks(panel: Axes, marks: pd.DataFrame) -> None:
    """Draw other schedules, hollow: one may be where another or a point of the front is."""
    further = cycle(_FURTHER)
    for name, at in marks.iterrows():
        marker, colour = _LOOKS.get(str(name).split(",")[0]) or next(further)
        panel.plot(
            at.iloc[0],
            at.iloc[1],
            marker=marker,
            markersize=10,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=1.6,
            linestyle="none",
            zorder=3,
            label=name,
            gid=f"front-{name}",
        )


def _number(panel: Axes, points: pd.DataFrame) -> None:
    """Write its number beside each point; of many points, beside some."""
    every = math.ceil(len(points) / _MOST_NUMBERS)
    for number, at in points.iloc[::every].iterrows():
        place = (at.iloc[0], at.iloc[1])
        panel.annotate(str(number), place, (4, 4), textcoords="offset points")
