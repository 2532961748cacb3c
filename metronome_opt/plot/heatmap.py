"""All links at once, demand as a share of capacity; the overview adds the most contended one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.image import AxesImage

from metronome_opt.errors import InputError, counted
from metronome_opt.instance import Instance, Link
from metronome_opt.multiobjective.periods import stretched
from metronome_opt.plot import style
from metronome_opt.plot.circle import draw_circles
from metronome_opt.plot.demand import (
    Side,
    compare,
    find_link,
    judge,
    link_title,
    milliseconds,
    most_contended,
    runs,
)
from metronome_opt.plot.picture import (
    Canvas,
    Picture,
    add_legend,
    legend_height,
    note_entry,
    overload_entry,
)
from metronome_opt.plot.timeline import draw_timelines, timeline_entries
from metronome_opt.result import Result

_WIDTH, _WIDE = 10.0, 12.0  # inches, of the heat map and of the overview
_MARGINS = 1.9  # inches: titles, axis, legend
_CLOSE_UP = 4.3  # inches of circles and timelines, without the legend
_CIRCLES = 0.56  # of the width
_MOST_SLOTS = 4000
_MOST_COLUMNS = 400  # fewer than the pixels of a panel, so that none is lost
_LABEL = 0.115  # inches that a row's name needs


@dataclass(frozen=True)
class Rows:
    """What a heat map shows.

    Attributes
    ----------
    links
        From top to bottom; each stands for all that are alike.
    alike
        How many each stands for.
    slots
        How much time is shown.
    notes
        What is left out, in words.
    """

    links: tuple[Link, ...]
    alike: tuple[int, ...]
    slots: int
    notes: tuple[str, ...]

    @property
    def slots_per_column(self) -> int:
        """How many slots are drawn as one."""
        return math.ceil(self.slots / _MOST_COLUMNS)

    def height(self, highest: float) -> float:
        """Return the height in inches that the rows deserve, at most `highest`."""
        return min(highest, max(1.2, 0.2 * len(self.links)))


@rc_context(style.SHEET)
def plot_heatmap(
    instance: Instance,
    before: Mapping[str, int],
    after: Mapping[str, int],
    *,
    links: Iterable[str] | None = None,
) -> Picture:
    """Draw the demand on all links as a share of their capacity, before and after.

    Dark is full; black under white crosses is overloaded. A link repeats itself until the axis
    ends, which is the least common multiple of all hyperperiods, or a part of it. Links of the same
    capacity and the same flows of the same jobs are one row; the most contended before are on top.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Offset in slots of every job, by name.
    links
        Names of the links to show, from top to bottom, a row each; those that some job uses if
        None.

    Raises
    ------
    InputError
        If a link does not exist, or an offset is missing, unknown or out of range.
    """
    sides = compare(instance, before, after)
    rows = select_rows(instance, links, sides[0].contention)
    height = rows.height(11.0)
    many = counted(sum(rows.alike), "link")
    title = f"{style.shorten(instance.name, 60)}: demand on {many}"
    figure = Picture(_WIDTH, height + _MARGINS, title)
    _draw_heatmaps(figure, sides, rows, height)
    figure.settle()
    return figure


def plot_result(result: Result) -> Picture:
    """Draw the links of a result, unshifted and scheduled; see `plot_overview`."""
    return plot_overview(
        result.instance,
        result.instance.unshifted,
        result.offsets,
        stretch=result.stretch,
        stretch_limit=result.schedule.stretch_limit,
    )


@rc_context(style.SHEET)
def plot_overview(
    instance: Instance,
    before: Mapping[str, int],
    after: Mapping[str, int],
    *,
    stretch: Mapping[str, int] | None = None,
    stretch_limit: Fraction | None = None,
) -> Picture:
    """Draw the heat map of all links, and circle and timeline of the most contended one.

    Where jobs are stretched, both sides are drawn at the stretched periods, and the title says so:
    links whose patterns repeat after different times cannot be compared slot by slot.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Offset in slots of every job, by name.
    stretch
        Idle slots per job name; a job that is not named is not stretched.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, unknown or out of range.
    """
    at_periods = ""
    if stretch and any(stretch.values()):
        judge(instance, "after", after, stretch, stretch_limit)
        instance = stretched(instance, {**dict.fromkeys(instance.unshifted, 0), **stretch})
        at_periods = ", before and after at the stretched periods"
    sides = compare(instance, before, after)
    rows = select_rows(instance, contention=sides[0].contention)
    height = rows.height(6.0)
    heights = [height + _MARGINS]
    link = most_contended(sides[0])
    if link is not None:
        entries = timeline_entries(instance, link)
        heights.append(_CLOSE_UP + legend_height(entries, _WIDE))
    counts = (counted(len(instance.jobs), "job"), counted(sum(rows.alike), "link"))
    figure = Picture(_WIDE, sum(heights))
    figure.suptitle(
        f"{style.shorten(instance.name, 60)}: {' on '.join(counts)}{at_periods}",
        fontsize=style.TITLE + 2,
        fontweight="bold",
    )
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_heatmaps(parts[0], sides, rows, height)
    if link is not None:
        parts[1].suptitle(link_title(instance, link))
        left, right = parts[1].subfigures(1, 2, width_ratios=[_CIRCLES, 1 - _CIRCLES])
        draw_circles(left, sides, link, _CIRCLES * _WIDE)
        draw_timelines(right, sides, link, (1 - _CIRCLES) * _WIDE)
        add_legend(parts[1], entries, _WIDE)
    figure.settle()
    return figure


def select_rows(
    instance: Instance,
    links: Iterable[str] | None = None,
    contention: Mapping[str, Fraction] | None = None,
) -> Rows:
    """Choose the links and the time that a heat map shows.

    Parameters
    ----------
    links
        Names, a row each; if None, links that are alike are put together.
    contention
        Of each link; the rows are sorted by it, the most contended first, if `links` is None.
    """
    if isinstance(links, str):
        raise InputError(f"links: must be a list of names, got the text {links!r}")
    if links is None:
        groups: dict[object, list[Link]] = {}
        for link in instance.links:
            flows = tuple(
                (job, instance.jobs[job].links[link.name]) for job in instance.jobs_on[link.name]
            )
            groups.setdefault((link.capacity, flows) if flows else None, []).append(link)
        groups.pop(None, None)
        found = sorted(groups.values(), key=lambda alike: -(contention or {}).get(alike[0].name, 0))
        chosen, alike = tuple(group[0] for group in found), tuple(map(len, found))
    else:
        chosen = tuple(find_link(instance, name) for name in dict.fromkeys(links))
        alike = (1,) * len(chosen)
    periods = [instance.hyperperiods[link.name] for link in chosen]
    common = math.lcm(*periods)
    longest = max(periods, default=1)
    slots = next(slots for slots in (common, longest, _MOST_SLOTS) if slots <= _MOST_SLOTS)
    notes = []
    unused = len(instance.links) - sum(alike)
    if links is None and unused:
        notes.append(f"{counted(unused, 'unused link')} left out")
    if slots < common:
        shown = milliseconds(instance, slots)
        notes.append(f"the first {shown} of a longer common hyperperiod")
    return Rows(chosen, alike, slots, tuple(notes))


def _draw_heatmaps(canvas: Canvas, sides: Sequence[Side], rows: Rows, height: float) -> None:
    """Draw both heat maps side by side, `height` inches high, with scale, notes and legend."""
    panels: Sequence[Axes] = canvas.subplots(1, 2, sharex=True, sharey=True)
    for axes, side in zip(panels, sides, strict=True):
        image = _draw_side(axes, side, rows)
    _name_rows(panels[0], sides[0], rows, height)
    panels[1].tick_params(axis="y", left=False)
    scale = canvas.colorbar(image, ax=panels, fraction=0.03, pad=0.015, aspect=12 * height / 2.5)
    scale.set_label("demand / capacity", fontsize=style.SMALL)
    notes = list(rows.notes)
    if rows.slots_per_column > 1:
        notes.append(f"each column is the peak of {rows.slots_per_column} slots")
    add_legend(canvas, [overload_entry(), *map(note_entry, notes)], _WIDTH)


def shades() -> Colormap:
    """Return the colours from idle (light) to full (dark), their luminance falling all the way.

    The dark end stops well before black, which is left to overload.
    """
    blues = matplotlib.colormaps["Blues"]
    return ListedColormap(blues(np.linspace(0.0, 0.85, 256)), name="load")


def _draw_side(axes: Axes, side: Side, rows: Rows) -> AxesImage:
    slot_ms = side.instance.slot_ms
    each = zip(rows.links, rows.alike, strict=True)
    contention = sum((side.contention[link.name] * count for link, count in each), Fraction(0))
    begins = np.arange(0, rows.slots, rows.slots_per_column)
    shares = np.zeros((max(1, len(rows.links)), len(begins)))
    marks = []
    for row, link in enumerate(rows.links):
        demand = side.demand(link, rows.slots)
        shares[row] = np.maximum.reduceat(demand.total, begins) / link.capacity
        for start, length in runs(demand.overloaded):
            left, right = start * slot_ms, (start + length) * slot_ms
            corners = ((left, -0.5), (right, -0.5), (right, 0.5), (left, 0.5))
            marks.append([(x, row + y) for x, y in corners])
    image = axes.imshow(
        np.minimum(shares, 1.0),
        cmap=shades(),
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
        extent=(0, len(begins) * rows.slots_per_column * slot_ms, len(shares) - 0.5, -0.5),
    )
    gid = f"heatmap-{side.name}-overload"
    axes.add_collection(PolyCollection(marks, **style.OVERLOAD, gid=gid), autolim=False)
    axes.set(xlim=(0, rows.slots * slot_ms), xlabel="time (ms)")
    axes.set_title(style.contention_title(side.name, contention), fontweight="bold")
    for edge in range(1, len(rows.links) if len(rows.links) <= 60 else 0):
        axes.axhline(edge - 0.5, color="#c4c4c4", linewidth=0.5)
    return image


def _name_rows(axes: Axes, side: Side, rows: Rows, height: float) -> None:
    """Name the rows; where not all names fit, the most contended links come first."""
    count = max(1, len(rows.links))
    gap = max(1, math.ceil(_LABEL * count / height))
    urgent = sorted(range(len(rows.links)), key=lambda row: -side.contention[rows.links[row].name])
    named = spread(urgent, gap)
    size = min(style.SMALL, 72 * 0.85 * gap * height / count)
    names = [_row_name(rows.links[row].name, rows.alike[row]) for row in named]
    axes.set_yticks(named, names, fontsize=size)


def _row_name(name: str, alike: int) -> str:
    return style.shorten(name, 24) + (f" and {alike - 1:,} alike" if alike > 1 else "")


def spread(urgent: Sequence[int], gap: int) -> list[int]:
    """Return as many rows as stand at least `gap` apart, the first of `urgent` for certain."""
    taken: list[int] = []
    blocked: set[int] = set()
    for row in urgent:
        if row not in blocked:
            taken.append(row)
            blocked.update(range(row - gap + 1, row + gap))
    return sorted(taken)
