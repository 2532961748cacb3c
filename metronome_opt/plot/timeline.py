"""The timeline of a link: stacked demand against capacity over one hyperperiod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.instance import Instance, Link
from metronome_opt.plot import style
from metronome_opt.plot.comparison import Comparison, compare
from metronome_opt.plot.demand import (
    LinkDemand,
    drawn_slots,
    find_link,
    jobs_of,
    link_demand,
    runs,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 9.0, 4.8  # inches, without the legend
_PANEL = 1.7  # inches, the height of one half, nearly
_CAPACITY: dict[str, Any] = {"color": style.INK, "linewidth": 1.8, "linestyle": (0, (5, 2))}
_EXCESS: dict[str, Any] = {
    "facecolor": "none",  # a translucent one would thin the hatch in SVG and PDF
    "edgecolor": "black",
    "hatch": "xxxxx",
    "linewidth": 1.4,
}


def plot_timeline(
    instance: Instance, before: Mapping[str, int], after: Mapping[str, int], link: str
) -> Figure:
    """Draw the demand on a link over its hyperperiod, before above and after below.

    The demands are stacked with the heaviest job at the bottom, because the link serves it first.
    What lies above the line of the capacity is marked: so much is late.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Offset in slots of every job, by name.
    link
        Name of the link.

    Raises
    ------
    InputError
        If there is no such link, or an offset is missing, unknown or out of range.
    """
    shown = find_link(instance, link)
    comparison = compare(instance, before, after)
    entries = [*style.job_entries(jobs_of(instance, shown), shown), *timeline_entries(shown)]
    figure = style.new_figure(WIDTH, HEIGHT + style.legend_height(entries, WIDTH))
    title = style.link_title(instance, shown, drawn_slots(instance, shown))
    figure.suptitle(title, fontsize=style.TITLE, parse_math=False)
    draw_timelines(figure, comparison, shown, WIDTH)
    style.add_legend(figure, entries, WIDTH)
    figure.settle()
    return figure


def timeline_entries(link: Link) -> list[Artist]:
    """Return the legend entries of what is not a job."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    capacity = Line2D([], [], **_CAPACITY, label=f"capacity {style.gigabits(link.capacity)}")
    return [capacity, Patch(**_EXCESS, label="demand above capacity")]


def draw_timelines(canvas: style.Canvas, comparison: Comparison, link: Link, width: float) -> None:
    """Draw both timelines, one above the other, on a canvas that is `width` inches wide."""
    instance = comparison.instance
    slots = drawn_slots(instance, link)
    demands = [link_demand(instance, side.offsets, link, slots) for side in comparison.sides]
    highest = max(link.capacity, *(int(demand.total.max()) for demand in demands))
    panels = canvas.subplots(2, 1, sharex=True, sharey=True)
    for axes, side, demand in zip(panels, comparison.sides, demands, strict=True):
        axes.set_xlim(0, slots * instance.slot_ms)
        axes.set_ylim(0, 1.06 * highest / 1000)
        axes.set_ylabel("Gbit/s", fontsize=style.TEXT)
        axes.tick_params(labelsize=style.SMALL)
        axes.set_title(
            style.side_title(side.name, side.report(link.name).contention),
            fontsize=style.TEXT,
            fontweight="bold",
            loc="left",
        )
        _draw_side(axes, demand, side.name, instance.slot_ms, 0.88 * width)
    panels[-1].set_xlabel("time (ms)", fontsize=style.TEXT)


def _draw_side(axes: Axes, demand: LinkDemand, side: str, slot_ms: int, width: float) -> None:
    from matplotlib.collections import PolyCollection

    tops = np.cumsum(demand.rates, axis=0)
    for position, job in enumerate(demand.jobs):
        lower = tops[position] - demand.rates[position]
        upper = tops[position]
        areas = [_area(*run, lower, upper, slot_ms) for run in runs(upper > lower)]
        axes.add_collection(
            PolyCollection(
                areas,
                **style.look(position).patch(len(areas), len(demand.jobs)),
                label=job.name,
                gid=f"timeline-{side}-job-{position + 1}",
            ),
            autolim=False,
        )
        _label(axes, position, job.name, lower, upper, slot_ms, width)
    capacity = np.full(demand.slots, demand.link.capacity, dtype=np.int64)
    late = [_area(*run, capacity, demand.total, slot_ms) for run in runs(demand.overloaded)]
    excess = _EXCESS | {"linewidth": _EXCESS["linewidth"] * style.thinner(len(late))}
    axes.add_collection(
        PolyCollection(late, **excess, label="overload", gid=f"timeline-{side}-overload"),
        autolim=False,
    )
    axes.axhline(demand.link.capacity / 1000, **_CAPACITY)


def _area(
    start: int, length: int, lower: NDArray[np.int64], upper: NDArray[np.int64], slot_ms: int
) -> NDArray[np.float64]:
    """Return the outline in (ms, Gbit/s) of the area between two step functions over a run.

    The outline has corners only where one of them changes; its shape is (corners, 2).
    """
    low, high = lower[start : start + length], upper[start : start + length]
    changes = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
    pieces = np.concatenate(([0], changes))
    edges = (start + np.concatenate((pieces, [length]))) * float(slot_ms)
    along = np.repeat(edges, 2)[1:-1]
    top = np.column_stack((along, np.repeat(high[pieces], 2) / 1000))
    floor = np.column_stack((along, np.repeat(low[pieces], 2) / 1000))
    return np.concatenate((top, floor[::-1]))


def _label(
    axes: Axes,
    position: int,
    name: str,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    slot_ms: int,
    width: float,
) -> None:
    """Write the job's name, else its number, into the longest even piece of its area."""
    height = upper - lower
    even = (np.diff(lower) == 0) & (np.diff(upper) == 0) & (height[1:] > 0)
    pieces = runs(even)
    if not pieces:
        return
    start, steps = max(pieces, key=lambda piece: piece[1])
    room = width * (steps + 1) / len(height)  # inches
    letter = 0.65 * style.SMALL / 72
    texts = [f"{position + 1}  {style.shorten(name)}", str(position + 1)]
    fitting = [text for text in texts if letter * (len(text) + 1) <= room]
    thick = height[start] / 1000 / axes.get_ylim()[1] * _PANEL
    if not fitting or thick < 1.05 * style.SMALL / 72:
        return
    axes.text(
        (start + (steps + 1) / 2) * slot_ms,
        (lower[start] + upper[start]) / 2000,
        fitting[0],
        fontsize=style.SMALL,
        ha="center",
        va="center",
        color=style.INK,
        parse_math=False,
        clip_on=True,
        zorder=5,
        bbox={
            "boxstyle": "round,pad=0.12",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.85,
        },
    )
