"""The heat map: every used link a row, time from left to right, demand as a share of capacity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance, Link
from metronome_opt.plot import style
from metronome_opt.plot.comparison import Comparison, Side, compare
from metronome_opt.plot.demand import find_link, link_demand, runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

WIDTH = 10.0  # inches
_MARGINS = 1.9  # inches: titles, axis, legend
_MOST_SLOTS = 4000
_MOST_COLUMNS = 400  # fewer than the pixels of a panel, so that none is lost
_LABEL = 0.115  # inches that a row's name needs


@dataclass(frozen=True)
class Rows:
    """What a heat map shows.

    Attributes
    ----------
    links
        From top to bottom.
    slots
        How much time is shown.
    notes
        What is left out, in words.
    """

    links: tuple[Link, ...]
    slots: int
    notes: tuple[str, ...]

    def height(self, highest: float) -> float:
        """Return the height in inches that the rows deserve, at most `highest`."""
        return min(highest, max(1.2, 0.2 * len(self.links)))


def plot_heatmap(
    instance: Instance,
    before: Mapping[str, int],
    after: Mapping[str, int],
    *,
    links: Iterable[str] | None = None,
) -> Figure:
    """Draw the demand on all links as a share of their capacity, before and after.

    Dark is full; black under white crosses is overloaded. A link repeats itself until the axis
    ends, which is the least common multiple of all hyperperiods, or a part of it.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Offset in slots of every job, by name.
    links
        Names of the links to show, from top to bottom; those that some job uses if None.

    Raises
    ------
    InputError
        If a link does not exist, or an offset is missing, unknown or out of range.
    """
    rows = select_rows(instance, links)
    comparison = compare(instance, before, after)
    height = rows.height(11.0)
    figure = style.new_figure(WIDTH, height + _MARGINS)
    figure.suptitle(
        f"{style.shorten(instance.name, 60)}: demand on {style.counted(len(rows.links), 'link')}",
        fontsize=style.TITLE,
        parse_math=False,
    )
    draw_heatmaps(figure, comparison, rows, height)
    figure.settle()
    return figure


def select_rows(instance: Instance, links: Iterable[str] | None = None) -> Rows:
    """Choose the links and the time that a heat map shows."""
    if isinstance(links, str):
        raise InputError(f"links: must be a list of names, got the text {links!r}")
    if links is None:
        chosen = tuple(link for link in instance.links if instance.jobs_on[link.name])
    else:
        chosen = tuple(find_link(instance, name) for name in dict.fromkeys(links))
    periods = [instance.hyperperiods[link.name] for link in chosen]
    common = math.lcm(*periods)
    longest = max(periods, default=1)
    slots = next(slots for slots in (common, longest, _MOST_SLOTS) if slots <= _MOST_SLOTS)
    notes = []
    unused = len(instance.links) - len(chosen)
    if links is None and unused:
        notes.append(f"{style.counted(unused, 'unused link')} left out")
    if slots < common:
        shown = style.milliseconds(instance, slots)
        notes.append(f"the first {shown} of a longer common hyperperiod")
    return Rows(chosen, slots, tuple(notes))


def draw_heatmaps(canvas: style.Canvas, comparison: Comparison, rows: Rows, height: float) -> None:
    """Draw both heat maps side by side, `height` inches high, with scale, notes and legend."""
    panels: Sequence[Axes] = canvas.subplots(1, 2, sharex=True, sharey=True)
    notes = list(rows.notes)
    per_column = math.ceil(rows.slots / _MOST_COLUMNS)
    if per_column > 1:
        notes.append(f"each column is the peak of {per_column} slots")
    for axes, side in zip(panels, comparison.sides, strict=True):
        image = _draw_side(axes, comparison.instance, side, rows, per_column)
    _name_rows(panels[0], comparison.before, rows, height)
    panels[1].tick_params(axis="y", left=False)
    scale = canvas.colorbar(image, ax=panels, fraction=0.03, pad=0.015, aspect=12 * height / 2.5)
    scale.set_label("demand / capacity", fontsize=style.SMALL)
    scale.ax.tick_params(labelsize=style.SMALL)
    style.add_legend(canvas, [style.overload_entry(), *map(style.note_entry, notes)], WIDTH)


def shades() -> Colormap:
    """Return the colours from idle (light) to full (dark), their luminance falling all the way.

    The dark end stops well before black, which is left to overload.
    """
    import matplotlib
    from matplotlib.colors import ListedColormap

    blues = matplotlib.colormaps["Blues"]
    return ListedColormap(blues(np.linspace(0.0, 0.85, 256)), name="load")


def _draw_side(
    axes: Axes, instance: Instance, side: Side, rows: Rows, per_column: int
) -> AxesImage:
    from matplotlib.collections import PolyCollection

    contention = sum((side.report(link.name).contention for link in rows.links), Fraction(0))
    columns = math.ceil(rows.slots / per_column)
    shares = np.zeros((max(1, len(rows.links)), columns))
    marks = []
    for row, link in enumerate(rows.links):
        demand = link_demand(instance, side.offsets, link, rows.slots)
        shares[row] = _peaks(demand.total, per_column) / link.capacity
        marks += [
            _rectangle(start, length, row, instance.slot_ms)
            for start, length in runs(demand.overloaded)
        ]
    image = axes.imshow(
        np.minimum(shares, 1.0),
        cmap=shades(),
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
        extent=(0, columns * per_column * instance.slot_ms, len(shares) - 0.5, -0.5),
    )
    axes.add_collection(
        PolyCollection(
            marks, **style.OVERLOAD, label="overload", gid=f"heatmap-{side.name}-overload"
        ),
        autolim=False,
    )
    axes.set_xlim(0, rows.slots * instance.slot_ms)
    axes.set_title(
        style.side_title(side.name, contention),
        fontsize=style.TEXT,
        fontweight="bold",
        loc="left",
    )
    axes.set_xlabel("time (ms)", fontsize=style.TEXT)
    axes.tick_params(labelsize=style.SMALL)
    for edge in range(1, len(rows.links) if len(rows.links) <= 60 else 0):
        axes.axhline(edge - 0.5, color="#c4c4c4", linewidth=0.5)
    return image


def _peaks(total: NDArray[np.int64], per_column: int) -> NDArray[np.int64]:
    """Return the largest of each `per_column` slots; the last column may have fewer."""
    return np.asarray(np.maximum.reduceat(total, np.arange(0, len(total), per_column)))


def _rectangle(start: int, length: int, row: int, slot_ms: int) -> list[tuple[float, float]]:
    left, right = start * slot_ms, (start + length) * slot_ms
    top, bottom = row - 0.5, row + 0.5
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _name_rows(axes: Axes, side: Side, rows: Rows, height: float) -> None:
    """Name the rows; where not all names fit, the most contended links before come first."""
    count = len(rows.links)
    gap = max(1, math.ceil(_LABEL * count / height))
    contention = {report.name: report.contention for report in side.evaluation.links}
    urgent = sorted(range(count), key=lambda row: -contention[rows.links[row].name])
    named = spread(urgent, gap) if gap > 1 else range(count)
    size = min(style.SMALL, 72 * 0.85 * gap * height / max(1, count))
    axes.set_yticks(
        list(named), [style.shorten(rows.links[row].name, 24) for row in named], fontsize=size
    )
    for label in axes.get_yticklabels():
        label.set_parse_math(False)


def spread(urgent: Sequence[int], gap: int) -> list[int]:
    """Return as many rows as stand at least `gap` apart, the first of `urgent` for certain."""
    taken: list[int] = []
    blocked: set[int] = set()
    for row in urgent:
        if row not in blocked:
            taken.append(row)
            blocked.update(range(row - gap + 1, row + gap))
    return sorted(taken)
