"""Links over time: stacked demand against capacity, as planned and as it happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance, Link
from metronome_opt.plot import style
from metronome_opt.plot.demand import (
    LinkDemand,
    Side,
    compare,
    drawn_slots,
    find_link,
    job_labels,
    link_title,
)
from metronome_opt.plot.picture import Canvas, Picture, add_legend, job_entries, legend_height

_WIDTH, _HEIGHT = 9.0, 4.8  # inches, without the legend
_PANEL = 1.7  # inches, the height of one half, nearly
_LINK_WIDTH, _LINK_PANEL = 10.0, 1.9  # inches, of a link as it happened
_CAPACITY: dict[str, Any] = {"color": style.INK, "linewidth": 1.8, "linestyle": (0, (5, 2))}
_EXCESS: dict[str, Any] = {
    "facecolor": "none",  # a translucent one would thin the hatch in SVG and PDF
    "edgecolor": "black",
    "hatch": "xxxxx",
    "linewidth": 1.4,
}

Floats = NDArray[np.float64]


# ------------------------------------------------------------------ as planned


@rc_context(style.SHEET)
def plot_timeline(
    instance: Instance, before: Mapping[str, int], after: Mapping[str, int], link: str
) -> Picture:
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
    sides = compare(instance, before, after)
    entries = timeline_entries(instance, shown)
    height = _HEIGHT + legend_height(entries, _WIDTH)
    figure = Picture(_WIDTH, height, link_title(instance, shown))
    draw_timelines(figure, sides, shown, _WIDTH)
    add_legend(figure, entries, _WIDTH)
    figure.settle()
    return figure


def timeline_entries(instance: Instance, link: Link) -> list[Artist]:
    """Return the legend of the timeline of a link."""
    return [
        *job_entries(job_labels(instance, link), "no job uses this link"),
        _capacity_entry(link.capacity),
        Patch(**_EXCESS, label="demand above capacity"),
    ]


def _capacity_entry(megabits: float) -> Line2D:
    return Line2D([], [], **_CAPACITY, label=f"capacity {style.gigabits(megabits)}")


def draw_timelines(canvas: Canvas, sides: Sequence[Side], link: Link, width: float) -> None:
    """Draw both timelines, one above the other, on a canvas that is `width` inches wide."""
    instance = sides[0].instance
    slots = drawn_slots(instance, link)
    demands = [side.demand(link, slots) for side in sides]
    panels = canvas.subplots(2, 1, sharex=True, sharey=True)
    highest = max(link.capacity, *(int(demand.total.max()) for demand in demands))
    _prepare(panels, (0, slots * instance.slot_ms), highest, link.capacity)
    for axes, side, demand in zip(panels, sides, demands, strict=True):
        title = style.contention_title(side.name, side.contention[link.name])
        axes.set_title(title, fontweight="bold")
        _draw_side(axes, demand, side.name, instance.slot_ms, 0.88 * width)


def _prepare(
    panels: Sequence[Axes], times: tuple[float, float], highest: float, capacity: float
) -> None:
    """Give panels over one another the same axes (ms and Mbit/s), and a line at the capacity."""
    for axes in panels:
        axes.set(xlim=times, ylim=(0, 1.06 * highest / 1000), ylabel="Gbit/s")
        axes.axhline(capacity / 1000, **_CAPACITY)
    panels[-1].xaxis.set_major_formatter(lambda time, _: f"{time:,.10g}")
    panels[-1].set_xlabel("time (ms)")


def _draw_side(axes: Axes, demand: LinkDemand, side: str, slot_ms: int, width: float) -> None:
    # Slots in which nothing changes are drawn together.
    changes = np.flatnonzero((np.diff(demand.rates, axis=1) != 0).any(axis=0)) + 1
    slots = np.concatenate(([0], changes, demand.rates.shape[1:]))
    times, rates = slots * float(slot_ms), demand.rates[:, slots[:-1]]
    names = [f"timeline-{side}-job-{number}" for number, _ in enumerate(demand.jobs, start=1)]
    _stack(axes, times, rates, names)
    tops = np.cumsum(rates, axis=0)
    for position, job in enumerate(demand.jobs):
        lower, upper = tops[position] - rates[position], tops[position]
        _label(axes, position, job.name, times, lower, upper, width)
    total, capacity = rates.sum(axis=0), demand.link.capacity
    late = total > capacity
    excess = _EXCESS | {"linewidth": _EXCESS["linewidth"] * style.thinner(int(late.sum()))}
    floor = np.full(len(total), capacity)
    _draw_area(axes, times, floor, total, late, gid=f"timeline-{side}-overload", **excess)


def _stack(axes: Axes, times: Floats, rates: NDArray[Any], names: Sequence[str]) -> None:
    """Draw rates, a row for each job, above one another."""
    tops = np.cumsum(rates, axis=0)
    for position, (name, own, upper) in enumerate(zip(names, rates, tops, strict=True)):
        # Where a job begins to send counts as a burst, for the width of the outlines.
        count = int(np.count_nonzero(np.diff(own > 0, prepend=False) & (own > 0)))
        looks = style.look(position).patch(count, len(names))
        _draw_area(axes, times, upper - own, upper, own > 0, gid=name, **looks)


def _draw_area(
    axes: Axes,
    times: Floats,
    lower: NDArray[Any],
    upper: NDArray[Any],
    where: NDArray[np.bool_],
    **looks: Any,
) -> None:
    """Draw what lies between two step functions (Mbit/s); `times` has one entry more."""
    tops = np.where(where, upper / 1000, np.nan)
    axes.stairs(tops, times, baseline=lower / 1000, fill=True, **looks)


def _label(
    axes: Axes,
    position: int,
    name: str,
    times: Floats,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    width: float,
) -> None:
    """Write the job's name, else its number, into the longest even piece of its area."""
    changes = np.flatnonzero((np.diff(lower) != 0) | (np.diff(upper) != 0)) + 1
    begins = np.concatenate(([0], changes))
    lengths = np.diff(np.append(times[begins], times[-1])) * (upper > lower)[begins]
    longest = int(np.argmax(lengths))
    at = begins[longest]
    room = width * lengths[longest] / times[-1]  # inches
    letter = 0.65 * style.SMALL / 72
    texts = [f"{position + 1}  {style.shorten(name)}", str(position + 1)]
    fitting = [text for text in texts if letter * (len(text) + 1) <= room]
    thick = (upper[at] - lower[at]) / 1000 / axes.get_ylim()[1] * _PANEL
    if not fitting or thick < 1.05 * style.SMALL / 72:
        return
    axes.text(
        times[at] + lengths[longest] / 2,
        (lower[at] + upper[at]) / 2000,
        fitting[0],
        ha="center",
        va="center",
        color=style.INK,
        clip_on=True,
        zorder=5,
        bbox=style.PLATE,
    )


# ------------------------------------------------------------------ as it happened


@dataclass(frozen=True, eq=False)
class LinkTrace:
    """What was sent over a link in a while.

    Attributes
    ----------
    link
        Its name.
    capacity_mbps
        What it carries.
    traces
        By policy: a table with the columns ``time_ms``, ``link``, ``job`` and ``rate_mbps``, a row
        for each change of what a job sends; rows of other links are left out.
    start_ms, end_ms
        The time that is shown.
    """

    link: str
    capacity_mbps: float
    traces: Mapping[str, pd.DataFrame]
    start_ms: float
    end_ms: float


@rc_context(style.SHEET)
def plot_link(trace: LinkTrace) -> Picture:
    """Draw the rates on a link stacked over time against its capacity, a panel for each policy.

    A job has the same colour and hatch in all panels.

    Raises
    ------
    InputError
        If there is no policy, or no time is shown.
    """
    if not trace.traces:
        raise InputError("traces: there are none; name at least one policy")
    if not trace.start_ms < trace.end_ms:
        raise InputError(
            f"end_ms: {quote(trace.end_ms)} is not after start_ms {quote(trace.start_ms)}"
        )
    policies = style.in_order(trace.traces)
    rates = {policy: _rates(trace, trace.traces[policy]) for policy in policies}
    jobs = sorted({str(job) for each in rates.values() for job in each.columns})
    labels = [style.shorten(job) for job in jobs]
    entries = [*job_entries(labels, "nothing was sent"), _capacity_entry(trace.capacity_mbps)]
    height = _LINK_PANEL * len(policies) + 0.9 + legend_height(entries, _LINK_WIDTH)
    title = f"Link {style.shorten(trace.link, 60)} as it happened"
    figure = Picture(_LINK_WIDTH, height, title)
    grid = figure.subplots(len(policies), 1, sharex=True, sharey=True, squeeze=False)
    panels = list(grid[:, 0])
    highest = max(trace.capacity_mbps, *(each.sum(axis=1).max() for each in rates.values()))
    _prepare(panels, (trace.start_ms, trace.end_ms), highest, trace.capacity_mbps)
    for axes, (policy, table) in zip(panels, rates.items(), strict=True):
        axes.set_title(policy, fontweight="bold")
        sent = table.reindex(columns=jobs, fill_value=0.0).to_numpy().T
        names = [f"link-{policy}-{job}" for job in jobs]
        times = np.append(table.index.to_numpy(), trace.end_ms)
        _stack(axes, times, sent, names)
    add_legend(figure, entries, _LINK_WIDTH)
    figure.settle()
    return figure


def _rates(trace: LinkTrace, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rates of the jobs that send, from each time at which something changes on."""
    mine = frame[(frame["link"] == trace.link) & (frame["time_ms"] < trace.end_ms)]
    # Of several changes at one moment the last one holds.
    table = mine.groupby(["time_ms", "job"])["rate_mbps"].last().unstack().ffill().fillna(0.0)
    inside = table.index[table.index > trace.start_ms]
    times = pd.Index([trace.start_ms, *inside], dtype=float)
    table = table.reindex(times, method="ffill", fill_value=0.0).astype(float)
    return table.loc[:, table.any()]
