"""The picture of a front: points, the steps between them, and other schedules beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import cycle
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import InputError
from metronome_opt.multiobjective.front import Front
from metronome_opt.multiobjective.goals import Exact, exact
from metronome_opt.multiobjective.objectives import BY_NAME
from metronome_opt.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

Values = Mapping[str, Fraction | None]
Place = tuple[float, ...]

WIDTH, HEIGHT = 6.4, 4.6  # inches of one panel
_SMALL = 0.2  # a front that takes less of an axis is shown closely as well
_AIR = 0.08  # beside what is drawn, of its extent
_BEYOND = 0.15  # of the extent of the values: how far to the right "no limit" is drawn
_BLUE = "#0072B2"
_MOST_NUMBERS = 30

# Shapes say it without the colours.
_LOOKS = {"greedy": ("^", "#D55E00"), "cassini": ("s", "#009E73"), "unshifted": ("X", "#595959")}
_FURTHER = (("D", "#CC79A7"), ("v", "#E69F00"), ("P", "#56B4E9"), ("p", "#1a1a1a"))
_REFERENCE = "reference"


@dataclass(frozen=True)
class _Mark:
    """A schedule that is not on the front, at its values on the axes."""

    name: str
    at: Place
    marker: str
    colour: str


@dataclass(frozen=True)
class _Axis:
    """What one objective is drawn along.

    Attributes
    ----------
    most
        The largest value there is.
    beyond
        Where a cushion without limit is drawn; None if there is none.
    """

    name: str
    most: float
    beyond: float | None

    @property
    def label(self) -> str:
        """What stands beside the axis: the objective and its unit."""
        unit = "% of all traffic" if self.name == "latency" else BY_NAME[self.name].unit
        return f"{self.name} ({unit.replace(' x ', ' × ')})"

    def place(self, value: Fraction | None) -> float:
        """Return where a value is drawn."""
        if value is None:
            assert self.beyond is not None  # noqa: S101 (made from the same values)
            return self.beyond
        return _shown(self.name, value)

    def ticks(self, low: float, high: float) -> tuple[list[float], list[str]]:
        """Return places between two others and what is written there."""
        from matplotlib.ticker import MaxNLocator

        whole = BY_NAME[self.name].unit == "slots"
        places = map(float, MaxNLocator(6, integer=whole).tick_values(low, high))
        numbers = [place for place in places if low <= place <= high]
        if self.beyond is None:
            return numbers, [f"{place:,.10g}" for place in numbers]
        numbers = [place for place in numbers if place <= self.most]
        end = [self.beyond] if low <= self.beyond <= high else []
        return [*numbers, *end], [
            *(f"{place:,.10g}" for place in numbers),
            *("no limit" for _ in end),
        ]


def plot_front(
    front: Front,
    *,
    others: Mapping[str, Values] | None = None,
    reference: Mapping[str, Exact] | None = None,
) -> Figure:
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
    axes = [_axis(front, name, named) for name in front.objectives]
    points = [_placed(axes, point.objectives) for point in front.points]
    marks = list(_marks(axes, named))
    close = len(points) > 1 and _is_small(points, marks)
    figure = style.new_figure(WIDTH * (1 + close), HEIGHT)
    figure.suptitle(_title(front), fontsize=style.TITLE, parse_math=False)
    panels: Sequence[Axes] = figure.subplots(1, 1 + close, squeeze=False)[0]
    _prepare(panels[0], axes, [*points, *(mark.at for mark in marks)])
    if close:
        _prepare(panels[1], axes, points)
        panels[0].set_title("with other schedules", fontsize=style.TEXT, loc="left")
        panels[1].set_title("the front, closely", fontsize=style.TEXT, loc="left")
    for panel in panels:
        drawn = _draw_points(panel, axes, points)
        _draw_marks(panel, marks)
    _number(panels[-1], points)
    if marks:
        legend = panels[0].legend(fontsize=style.SMALL)
        for text in legend.get_texts():
            text.set_parse_math(False)
    if len(axes) > 2:
        _add_scale(figure, drawn, panels, axes[2])
    if not front.complete:
        panels[-1].set_title(
            "not proved complete: there may be further points",
            fontsize=style.SMALL,
            fontstyle="italic",
            loc="right",
        )
    figure.settle()
    return figure


def _title(front: Front) -> str:
    names = " and ".join((", ".join(front.objectives[:-1]), front.objectives[-1]))
    count = style.counted(len(front.points), "point")
    return f"{style.shorten(front.instance.name, 40)}: front of {names}, {count}"


# ------------------------------------------------------------------ what is drawn where


def _shown(name: str, value: Fraction) -> float:
    return float(100 * value if name == "latency" else value)


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


def _axis(front: Front, name: str, others: Mapping[str, Values]) -> _Axis:
    """Return the axis of an objective, with room for all of its values."""
    for other, objectives in others.items():
        if name not in objectives:
            raise InputError(f"others.{other}: {name} is missing; give all objectives of the front")
    values = [each[name] for each in (*(p.objectives for p in front.points), *others.values())]
    known = [_shown(name, value) for value in values if value is not None]
    most, least = max(known, default=0.0), min(known, default=0.0)
    far = most + max(1.0, _BEYOND * (most - least))
    return _Axis(name, most, None if len(known) == len(values) else far)


def _placed(axes: Sequence[_Axis], values: Values) -> Place:
    return tuple(axis.place(values[axis.name]) for axis in axes)


def _marks(axes: Sequence[_Axis], others: Mapping[str, Values]) -> Iterator[_Mark]:
    further = cycle(_FURTHER)
    for name, values in others.items():
        marker, colour = _LOOKS.get(name.split(",")[0]) or next(further)
        yield _Mark(name, _placed(axes, values), marker, colour)


def _is_small(points: Sequence[Place], marks: Sequence[_Mark]) -> bool:
    """Return whether the front takes little of an axis on which other schedules are as well."""
    everything = [*points, *(mark.at for mark in marks)]
    return any(_extent(points, axis) < _SMALL * _extent(everything, axis) for axis in (0, 1))


def _extent(points: Sequence[Place], axis: int) -> float:
    values = [point[axis] for point in points]
    return max(values) - min(values)


# ------------------------------------------------------------------ panels


def _prepare(panel: Axes, axes: Sequence[_Axis], points: Sequence[Place]) -> None:
    """Give a panel its axes, so that some points fill it."""
    x, y = axes[:2]
    left, right = _limits([point[0] for point in points])
    bottom, top = _limits([point[1] for point in points])
    panel.set(xlim=(left, right), ylim=(bottom, top))
    panel.set_xlabel(x.label, fontsize=style.TEXT)
    panel.set_ylabel(y.label, fontsize=style.TEXT)
    panel.set_xticks(*x.ticks(left, right))
    panel.set_yticks(*y.ticks(bottom, top))
    panel.tick_params(labelsize=style.SMALL)
    panel.grid(color="#e2e2e2", linewidth=0.5)
    panel.set_axisbelow(True)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Return an axis that leaves some air beside the values."""
    low, high = min(values), max(values)
    air = _AIR * (high - low) or 0.05 * abs(low) or 1.0
    return low - air, high + air


def _draw_points(panel: Axes, axes: Sequence[_Axis], points: Sequence[Place]) -> PathCollection:
    """Draw the front; return what a scale of its colours is made from."""
    import matplotlib

    looks: dict[str, Any] = {"color": _BLUE}
    if len(axes) > 2:
        # The luminance of these colours rises all the way.
        looks = {"c": [point[2] for point in points], "cmap": matplotlib.colormaps["cividis"]}
    else:
        _draw_steps(panel, axes, points)
    return panel.scatter(
        [point[0] for point in points],
        [point[1] for point in points],
        s=24,
        edgecolors=style.INK,
        linewidths=0.6,
        zorder=4,
        gid="front-points",
        **looks,
    )


def _draw_steps(panel: Axes, axes: Sequence[_Axis], points: Sequence[Place]) -> None:
    """Draw the edge of what is possible: between two points the worse value of each."""
    worst_x, worst_y = (
        limits[0] if BY_NAME[axis.name].maximised else limits[1]
        for axis, limits in zip(axes, (panel.get_xlim(), panel.get_ylim()), strict=True)
    )
    corners = [(points[0][0], worst_y)]
    for point, following in zip(points, (*points[1:], (worst_x,)), strict=True):
        corners += [(point[0], point[1]), (following[0], point[1])]
    panel.plot(
        [x for x, _ in corners],
        [y for _, y in corners],
        color=_BLUE,
        linewidth=1.2,
        alpha=0.6,
        zorder=2,
        gid="front-steps",
    )


def _draw_marks(panel: Axes, marks: Sequence[_Mark]) -> None:
    """Draw other schedules, hollow: one may be where another or a point of the front is."""
    for mark in marks:
        panel.plot(
            *([at] for at in mark.at[:2]),
            marker=mark.marker,
            markersize=10,
            markerfacecolor="none",
            markeredgecolor=mark.colour,
            markeredgewidth=1.6,
            linestyle="none",
            zorder=3,
            label=mark.name,
            gid=f"front-{mark.name}",
        )


def _add_scale(figure: Figure, drawn: PathCollection, panels: Sequence[Axes], axis: _Axis) -> None:
    """Say beside the panels which colour is which value of the third objective."""
    scale = figure.colorbar(drawn, ax=list(panels), pad=0.015, fraction=0.05)
    scale.set_label(axis.label, fontsize=style.TEXT)
    low, high = drawn.get_clim()
    places, texts = axis.ticks(float(low or 0), float(high or 0))
    scale.set_ticks(places, labels=texts)
    scale.ax.tick_params(labelsize=style.SMALL)


def _number(panel: Axes, points: Sequence[Place]) -> None:
    """Write its number beside each point; of many points, beside some."""
    every = math.ceil(len(points) / _MOST_NUMBERS)
    for number, point in list(enumerate(points, start=1))[::every]:
        panel.annotate(
            str(number),
            (point[0], point[1]),
            (4, 4),
            textcoords="offset points",
            fontsize=style.SMALL,
        )
