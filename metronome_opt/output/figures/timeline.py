"""Links over time: stacked demand against capacity, as planned, by spine, and as simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from metronome_opt.allocation.arguments import Problem
from metronome_opt.errors import InputError, quote
from metronome_opt.output.figures import style
from metronome_opt.output.figures.demand import (
    draw_schedule,
    drawn_slots,
    find_link,
    job_labels,
    jobs_of,
    link_title,
)
from metronome_opt.output.figures.picture import (
    job_entries,
    legend_below,
    legend_beside,
    new_axes,
    new_figure,
)
from metronome_opt.problem.instance import Instance, Link
from metronome_opt.problem.result import Result
from metronome_opt.scenario.scenario_file import Scenario

_WIDTH, _HEIGHT = 9.0, 3.0  # inches
_SPINE_WIDTH, _SPINE_ROW = 4.6, 0.75  # inches, of a panel
_MAX_UPLINKS = 24  # in one figure
_LINK_WIDTH, _LINK_PANEL = 10.0, 1.9  # inches, of a link as simulated
_CAPACITY: dict[str, Any] = {"color": style.INK, "linewidth": 1.8, "linestyle": (0, (5, 2))}
_EXCESS: dict[str, Any] = {
    "facecolor": "none",  # a translucent one would thin the hatch in SVG and PDF
    "edgecolor": "black",
    "hatch": "xxxxx",
    "linewidth": 1.0,
}

Floats = NDArray[np.float64]


@rc_context(style.SHEET)
def plot_timeline(
    problem: Problem,
    link: str,
    offsets: Mapping[str, int] | None = None,
    *,
    stretch: Mapping[str, int] | None = None,
    title: str | None = None,
    legend: bool = True,
    max_periods: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the demand on a link over its hyperperiod.

    Demands are stacked with the job of the highest weight at the bottom, because the link serves it
    first. Demand above the capacity is hatched: it is late.

    Parameters
    ----------
    problem
        The problem, see `metronome_opt.load`, or a result.
    link
        Name of the link.
    offsets, stretch
        Offset and idle slots of the jobs, by name; None for those of a result, or for jobs that
        start when ready.
    title
        Text above the axes; link, capacity and contention if None.
    legend
        Whether the jobs are named beside the axes.
    max_periods
        Length of the time axis in periods of the longest job; None for as much as can be read.
    ax
        Axes to draw on; new ones if None.

    Raises
    ------
    InputError
        If there is no such link, or an offset is missing, unknown or out of range.
    """
    drawing = draw_schedule(problem, offsets, stretch)
    chosen = find_link(drawing.instance, link)
    ax = ax or new_axes(_WIDTH, _HEIGHT)
    slots = drawn_slots(drawing.instance, chosen)
    if max_periods is not None:
        longest = max(job.period for job in jobs_of(drawing.instance, chosen))
        slots = min(drawing.instance.hyperperiods[link] * max_periods, longest * max_periods)
    demand = drawing.demand(chosen, slots)
    # Equal slots in a row are drawn together.
    changes = np.flatnonzero((np.diff(demand, axis=1) != 0).any(axis=0)) + 1
    edges = np.concatenate(([0], changes, [slots]))
    times, rates = edges * float(drawing.instance.slot_ms), demand[:, edges[:-1]]
    total = rates.sum(axis=0)
    highest = max(chosen.capacity, int(total.max()))
    _prepare_axes(ax, (0.0, float(times[-1])), highest, chosen.capacity)
    ax.set_xlabel("time (ms)")
    _stack(ax, times, rates, [f"timeline-job-{n}" for n in range(1, len(rates) + 1)])
    floor = np.full(len(total), chosen.capacity)
    _draw_area(ax, times, floor, total, total > floor, gid="timeline-overload", **_EXCESS)
    if title is None:
        contention = style.contention_text(drawing.contention[link])
        title = f"{link_title(drawing.instance, chosen)}; {contention}"
    ax.set_title(title)
    if legend:
        legend_beside(ax, timeline_entries(drawing.instance, chosen))
    return ax


def timeline_entries(instance: Instance, link: Link) -> list[Artist]:
    """Return the legend of the timeline of a link."""
    return [
        *job_entries(job_labels(instance, link), "no job uses this link"),
        _capacity_entry(link.capacity),
        Patch(**_EXCESS, label="demand above capacity"),
    ]


def _capacity_entry(megabits: float) -> Line2D:
    return Line2D([], [], **_CAPACITY, label=f"capacity {style.format_gbps(megabits)}")


def _prepare_axes(axes: Axes, times: Sequence[float], highest: float, capacity: float) -> None:
    """Set the limits of axes (ms and Mbit/s), and draw a line at the capacity."""
    axes.set(xlim=tuple(times), ylim=(0, 1.06 * highest / 1000), ylabel="Gbit/s")
    axes.axhline(capacity / 1000, **_CAPACITY)
    axes.xaxis.set_major_formatter(lambda time, _: f"{time:,.10g}")


def _stack(
    axes: Axes,
    times: Floats,
    rates: NDArray[Any],
    names: Sequence[str],
    positions: Sequence[int] | None = None,
) -> None:
    """Draw rates (Mbit/s), a row for each job, above one another.

    `names` are the identifiers of the areas; a job is drawn in the style of its position.
    """
    tops = np.cumsum(rates, axis=0)
    places = range(len(rates)) if positions is None else positions
    for position, name, own, upper in zip(places, names, rates, tops, strict=True):
        # Where a job begins to send counts as a burst, for the width of the outlines.
        count = int(np.count_nonzero(np.diff(own > 0, prepend=False) & (own > 0)))
        patch = style.job_style(position, count)
        _draw_area(axes, times, upper - own, upper, own > 0, gid=name, **patch)


def _draw_area(
    axes: Axes,
    times: Floats,
    lower: NDArray[Any],
    upper: NDArray[Any],
    where: NDArray[np.bool_],
    **patch: Any,
) -> None:
    """Draw the area between two step functions (Mbit/s); `times` has one entry more."""
    tops = np.where(where, upper / 1000, np.nan)
    axes.stairs(tops, times, baseline=lower / 1000, fill=True, **patch)


# ------------------------------------------------------------------ by spine


@rc_context(style.SHEET)
def plot_spines(scenario: Scenario, choices: Mapping[str, Result]) -> Figure:
    """Draw the demand on each uplink of a rack, a row for each spine and a column for each result.

    Traffic that comes down from the spines is not drawn. A line marks the capacity.

    Parameters
    ----------
    scenario
        A scenario whose cluster has several spines.
    choices
        Results of the scenario, by the titles of their columns.

    Returns
    -------
    Figure
        With at most 24 uplinks.

    Raises
    ------
    InputError
        If there is no result, or no flow of any crosses a spine.
    """
    drawings = {title: draw_schedule(result) for title, result in choices.items()}
    used = {
        link for drawing in drawings.values() for link, on in drawing.instance.jobs_on.items() if on
    }
    names = [up for ups in scenario.cluster.uplinks.values() for up in ups]
    rows = [name for name in names if scenario.cluster.spines > 1 and name in used][:_MAX_UPLINKS]
    if not rows:
        raise InputError("choices: no flow crosses a spine; give results of a fabric of several")
    positions = {job.name: position for position, job in enumerate(scenario.jobs)}
    size = _SPINE_WIDTH * len(drawings), _SPINE_ROW * len(rows) + 1.6
    figure = new_figure(*size, "Uplinks by spine")
    panels = figure.subplots(len(rows), len(drawings), sharex=True, sharey=True, squeeze=False)
    for column, (title, drawing) in zip(panels.T, drawings.items(), strict=True):
        links = [find_link(drawing.instance, name) for name in rows]
        column[0].set_title(title, fontweight="bold")
        column[-1].set_xlabel("time (ms)")
        slots = max(drawn_slots(drawing.instance, link) for link in links)
        times: Floats = np.arange(slots + 1, dtype=np.float64) * drawing.instance.slot_ms
        for axes, link in zip(column, links, strict=True):
            jobs = [job.name for job in jobs_of(drawing.instance, link)]
            gids = [f"spine-{link.name}-{job}" for job in jobs]
            places = [positions[job] for job in jobs]
            _stack(axes, times, drawing.demand(link, slots), gids, places)
            axes.axhline(link.capacity / 1000, **_CAPACITY)
            axes.set(xlim=(0, times[-1]), yticks=[])
    for axes, name in zip(panels[:, 0], rows, strict=True):
        axes.set_ylabel(style.shorten(name, 18), rotation=0, ha="right", va="center")
    entries = job_entries([style.shorten(job) for job in positions], "no jobs")
    legend_below(figure, [*entries, Line2D([], [], **_CAPACITY, label="capacity")])
    return figure


# ------------------------------------------------------------------ as simulated


@rc_context(style.SHEET)
def plot_link(
    link: str,
    capacity_mbps: float,
    traces: Mapping[str, pd.DataFrame],
    start_ms: float,
    end_ms: float,
) -> Figure:
    """Draw the rates on a link stacked over time against its capacity, a panel for each policy.

    A job has the same colour and hatch in all panels.

    Parameters
    ----------
    link, capacity_mbps
        Its name and capacity.
    traces
        By policy: a table with the columns ``time_ms``, ``link``, ``job`` and ``rate_mbps``, a row
        for each change of what a job sends; rows of other links are ignored.
    start_ms, end_ms
        Begin and end of the time axis.

    Raises
    ------
    InputError
        If there is no policy, or the time axis is empty.
    """
    if not traces:
        raise InputError("traces: there are none; name at least one policy")
    if not start_ms < end_ms:
        raise InputError(f"end_ms: {quote(end_ms)} is not after start_ms {quote(start_ms)}")
    policies = style.sort_policies(traces)
    rates = {policy: _rates(traces[policy], link, start_ms, end_ms) for policy in policies}
    jobs = sorted({str(job) for table in rates.values() for job in table.columns})
    height = _LINK_PANEL * len(policies) + 1.4
    figure = new_figure(_LINK_WIDTH, height, f"Link {style.shorten(link, 60)} as simulated")
    panels = figure.subplots(len(policies), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    highest = max(capacity_mbps, *(table.sum(axis=1).max() for table in rates.values()))
    panels[-1].set_xlabel("time (ms)")
    for axes, (policy, table) in zip(panels, rates.items(), strict=True):
        _prepare_axes(axes, (start_ms, end_ms), highest, capacity_mbps)
        axes.set_title(policy, fontweight="bold")
        sent = table.reindex(columns=jobs, fill_value=0.0).to_numpy().T
        times = np.append(table.index.to_numpy(), end_ms)
        _stack(axes, times, sent, [f"link-{policy}-{job}" for job in jobs])
    entries = job_entries([style.shorten(job) for job in jobs], "nothing was sent")
    legend_below(figure, [*entries, _capacity_entry(capacity_mbps)])
    return figure


def _rates(frame: pd.DataFrame, link: str, start_ms: float, end_ms: float) -> pd.DataFrame:
    """Return the rates of the jobs that send, a row for each time at which a rate changes."""
    mine = frame[(frame["link"] == link) & (frame["time_ms"] < end_ms)]
    # Of several changes at one time the last one holds.
    table = mine.groupby(["time_ms", "job"])["rate_mbps"].last().unstack().ffill().fillna(0.0)
    inside = table.index[table.index > start_ms]
    times = pd.Index([start_ms, *inside], dtype=float)
    table = table.reindex(times, method="ffill", fill_value=0.0).astype(float)
    return table.loc[:, table.any()]
