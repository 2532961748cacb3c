"""All links at once, demand as a share of capacity, and the overview of several schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from metronome_opt.allocation.arguments import Problem
from metronome_opt.errors import pluralise
from metronome_opt.output.figures import style
from metronome_opt.output.figures.demand import (
    Drawing,
    draw_schedule,
    find_instance,
    find_link,
    find_runs,
    format_ms,
    link_title,
)
from metronome_opt.output.figures.picture import legend_below, new_axes, new_figure
from metronome_opt.output.figures.timeline import plot_timeline, timeline_entries
from metronome_opt.problem.instance import Instance, Link
from metronome_opt.problem.result import Result

_WIDTH, _COLUMN = 8.0, 7.0  # inches, of a heat map and of a schedule in an overview
_ROW, _MAX_HEIGHT = 0.2, 9.0  # inches
_LINK_HEIGHT = 2.6  # inches, of a timeline in an overview
_MAX_SLOTS = 4000
_MAX_PERIODS = 40  # of the shortest job, at least one of the longest
_MAX_COLUMNS = 400  # fewer than the pixels of a figure, so that none is lost
_LABEL = 0.125  # inches that a row's name needs


class Rows(NamedTuple):
    """Rows of a heat map, one of each group of equal links, and its time axis.

    Attributes
    ----------
    links, counts
        From top to bottom, and the sizes of the groups.
    slots
        Length of the time axis.
    notes
        What is not shown.
    """

    links: tuple[Link, ...]
    counts: tuple[int, ...]
    slots: int
    notes: tuple[str, ...]


@rc_context(style.SHEET)
def plot_heatmap(
    problem: Problem,
    offsets: Mapping[str, int] | None = None,
    *,
    stretch: Mapping[str, int] | None = None,
    title: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the demand on all links as a share of their capacity.

    Dark is full, also where a job asks for more than its link by itself; black under white crosses
    is overloaded by several jobs. Links repeat until the axis ends, at the least common multiple of
    all hyperperiods or earlier. Links of the same capacity and the same flows of the same jobs are
    one row, in the order of the instance.

    Parameters
    ----------
    problem
        The problem, see `metronome_opt.load`, or a result.
    offsets, stretch
        Offset and idle slots of the jobs, by name; None for those of a result, or for jobs that
        start when ready.
    title
        Text above the axes; instance and contention if None.
    legend
        Whether the scale of the colours stands beside the axes.
    ax
        Axes to draw on; new ones if None.

    Raises
    ------
    InputError
        If an offset is missing, unknown or out of range.
    """
    drawing = draw_schedule(problem, offsets, stretch)
    rows = select_rows(drawing.instance)
    count = max(1, len(rows.links))
    ax = ax or new_axes(_WIDTH, 1.6 + min(_MAX_HEIGHT, _ROW * count))
    per_column = math.ceil(rows.slots / _MAX_COLUMNS)
    begins = np.arange(0, rows.slots, per_column)
    slot_ms = drawing.instance.slot_ms
    shares = np.zeros((count, len(begins)))
    late = []
    for row, link in enumerate(rows.links):
        demand = drawing.demand(link, rows.slots)
        total = demand.sum(axis=0)
        shared = (demand > 0).sum(axis=0) > 1
        shares[row] = np.maximum.reduceat(total, begins) / link.capacity
        for start, length in find_runs(shared & (total > link.capacity)):
            left, right = start * slot_ms, (start + length) * slot_ms
            corners = ((left, -0.5), (right, -0.5), (right, 0.5), (left, 0.5))
            late.append([(x, row + y) for x, y in corners])
    image = ax.imshow(
        np.minimum(shares, 1.0),
        # From idle (light) to full (dark), well before black, which is left to overload.
        cmap=ListedColormap(matplotlib.colormaps["Blues"](np.linspace(0.0, 0.85, 256))),
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
        extent=(0, len(begins) * per_column * slot_ms, count - 0.5, -0.5),
    )
    patches = PolyCollection(late, **style.OVERLOAD, gid="heatmap-overload")
    ax.add_collection(patches, autolim=False)
    notes = list(rows.notes)
    if per_column > 1:
        notes.append(f"each column is the peak of {per_column} slots")
    ax.set(xlim=(0, rows.slots * slot_ms), xlabel="\n".join(["time (ms)", *notes]))
    ax.set_title(_title(drawing, rows) if title is None else title)
    _name_rows(ax, rows)
    if legend:
        ax.figure.colorbar(image, ax=ax, fraction=0.03, pad=0.015).set_label("demand / capacity")
    return ax


def _title(drawing: Drawing, rows: Rows) -> str:
    pairs = zip(rows.links, rows.counts, strict=True)
    contention = sum((drawing.contention[link.name] * n for link, n in pairs), Fraction(0))
    name = style.shorten(drawing.instance.name, 60)
    many = pluralise(sum(rows.counts), "link")
    return f"{name}: demand on {many}; {style.contention_text(contention)}"


def _name_rows(axes: Axes, rows: Rows) -> None:
    """Name as many rows as fit."""
    height = axes.get_position().height * axes.figure.get_figure(root=True).get_figheight()
    gap = max(1, math.ceil(_LABEL * len(rows.links) / height))
    named = range(0, len(rows.links), gap)
    texts = []
    for row in named:
        more = f" and {rows.counts[row] - 1:,} equal" if rows.counts[row] > 1 else ""
        texts.append(style.shorten(rows.links[row].name, 24) + more)
    axes.set_yticks(list(named), texts)


def select_rows(instance: Instance) -> Rows:
    """Choose the links and the time that a heat map shows; equal links are one row."""
    groups: dict[object, list[Link]] = {}
    for link in instance.links:
        flows = tuple(
            (job, instance.jobs[job].links[link.name]) for job in instance.jobs_on[link.name]
        )
        groups.setdefault((link.capacity, flows) if flows else None, []).append(link)
    unused = len(groups.pop(None, ()))
    chosen = tuple(group[0] for group in groups.values())
    periods = [instance.hyperperiods[link.name] for link in chosen]
    common = math.lcm(*periods)
    longest = max(periods, default=1)
    own = [job.period for job in instance.jobs if job.links] or [1]
    readable = min(_MAX_SLOTS, max(*own, _MAX_PERIODS * min(own)))
    slots = next(slots for slots in (common, longest, readable) if slots <= readable)
    notes = []
    if unused:
        notes.append(f"{pluralise(unused, 'unused link')} not shown")
    if slots < common:
        notes.append(f"the first {format_ms(instance, slots)} of a longer common hyperperiod")
    return Rows(chosen, tuple(map(len, groups.values())), slots, tuple(notes))


@rc_context(style.SHEET)
def plot_overview(
    problem: Problem,
    schedules: Mapping[str, Mapping[str, int]] | None = None,
    *,
    stretch: Mapping[str, int] | None = None,
    stretch_limit: Fraction | None = None,
) -> Figure:
    """Compare schedules: all links, and the timeline of the most contended one.

    Where jobs are stretched, all schedules are drawn at the stretched periods, and the title says
    so: links that repeat after different times cannot be compared slot by slot.

    Parameters
    ----------
    problem
        The problem, see `metronome_opt.load`, or a result.
    schedules
        Offsets in slots by job, a column for each, by the name above it; the first chooses the
        link that is drawn closely. None for jobs that start when ready, beside those of a result.
    stretch
        Idle slots per job name of the last schedule; None for those of a result.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, unknown or out of range.
    """
    given = find_instance(problem)
    if schedules is None:
        schedules = {"unshifted": given.unshifted}
        if isinstance(problem, Result):
            schedules[problem.schedule.solver] = problem.offsets
    names = list(schedules)
    instance = draw_schedule(problem, schedules[names[-1]], stretch, stretch_limit).instance
    at_periods = "" if instance is given else ", at the stretched periods"
    drawings = {name: draw_schedule(instance, offsets) for name, offsets in schedules.items()}
    contended = drawings[names[0]].contention
    users = {name: len(jobs) for name, jobs in instance.jobs_on.items() if jobs}
    # A link of one job has no contention of jobs, whatever its demand.
    link = min(users, key=lambda name: (users[name] == 1, -contended[name], name), default=None)
    rows = select_rows(instance)
    heights = [1.2 + min(_MAX_HEIGHT, _ROW * max(1, len(rows.links)))]
    if link is not None:
        heights.append(_LINK_HEIGHT)
    size = (_COLUMN * len(names), sum(heights) + 0.8)
    counts = f"{pluralise(len(instance.jobs), 'job')} on {pluralise(sum(rows.counts), 'link')}"
    figure = new_figure(*size, f"{style.shorten(instance.name, 60)}: {counts}{at_periods}")
    grid = figure.add_gridspec(len(heights), len(names), height_ratios=heights)
    timelines: list[Axes] = []
    for column, (name, drawing) in enumerate(drawings.items()):
        contention = style.contention_text(sum(drawing.contention.values(), Fraction(0)))
        plot_heatmap(
            instance,
            drawing.offsets,
            title=f"{name}: {contention}",
            legend=column == len(names) - 1,
            ax=figure.add_subplot(grid[0, column]),
        )
        if link is not None:
            axes = figure.add_subplot(grid[1, column])
            title = "" if timelines else link_title(instance, find_link(instance, link))
            plot_timeline(instance, link, drawing.offsets, title=title, legend=False, ax=axes)
            timelines.append(axes)
    if link is not None:
        for axes in timelines:
            axes.set_ylim(top=max(other.get_ylim()[1] for other in timelines))
        legend_below(figure, timeline_entries(instance, find_link(instance, link)))
    return figure
