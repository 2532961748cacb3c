"""One link as it happened: who sent how much and when, under two policies or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, show
from metronome_opt.plot import style
from metronome_opt.plot.simulation import looks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

    from metronome_opt.plot.picture import Picture

    Floats = NDArray[np.float64]

_WIDTH = 10.0  # inches
_PANEL = 1.9  # inches
_CAPACITY: dict[str, Any] = {"color": style.INK, "linewidth": 1.4, "linestyle": "--"}
_MOST_ENTRIES = 40


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


def plot_link(trace: LinkTrace) -> Picture:
    """Draw the rates on a link stacked over time against its capacity, a panel for each policy.

    A job has the same colour and hatch in all panels.

    Raises
    ------
    InputError
        If there is no policy, or no time is shown.
    """
    from matplotlib.lines import Line2D

    if not trace.traces:
        raise InputError("traces: there are none; name at least one policy")
    if not trace.start_ms < trace.end_ms:
        raise InputError(
            f"end_ms: {show(trace.end_ms)} is not after start_ms {show(trace.start_ms)}"
        )
    policies = looks.in_order(trace.traces)
    rates = {policy: _rates(trace, trace.traces[policy]) for policy in policies}
    jobs = sorted({job for _, mine in rates.values() for job in mine})
    capacity = f"capacity {style.gigabits(trace.capacity_mbps)}"
    entries = [*_entries(jobs), Line2D([], [], **_CAPACITY, label=capacity)]
    height = _PANEL * len(policies) + 0.9 + style.legend_height(entries, _WIDTH)
    figure = style.new_figure(_WIDTH, height)
    figure.suptitle(
        f"Link {style.shorten(trace.link, 60)} as it happened",
        fontsize=style.TITLE,
        parse_math=False,
    )
    panels = figure.subplots(len(policies), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    highest = trace.capacity_mbps
    for axes, policy in zip(panels, policies, strict=True):
        times, mine = rates[policy]
        top = _stack(axes, times, mine, jobs, policy)
        highest = max(highest, float(top.max(initial=0)))
        axes.axhline(trace.capacity_mbps / 1000, **_CAPACITY)
        axes.set_title(policy, fontsize=style.TEXT, fontweight="bold", loc="left", parse_math=False)
        axes.set_ylabel("Gbit/s", fontsize=style.TEXT)
        axes.tick_params(labelsize=style.SMALL)
        axes.set_xlim(trace.start_ms, trace.end_ms)
    panels[0].set_ylim(0, 1.06 * highest / 1000)
    panels[-1].xaxis.set_major_formatter(lambda time, _: f"{time:,.10g}")
    panels[-1].set_xlabel("time (ms)", fontsize=style.TEXT)
    style.add_legend(figure, entries, _WIDTH)
    figure.settle()
    return figure


def _rates(trace: LinkTrace, frame: pd.DataFrame) -> tuple[Floats, dict[str, Floats]]:
    """Return the times at which something changes and the rates from then on, by job.

    The first time is the start of what is shown, the last its end; a job that sends nothing in
    between is left out.
    """
    mine = frame[(frame["link"] == trace.link) & (frame["time_ms"] < trace.end_ms)]
    # Of several changes at one moment the last one holds.
    table = (
        mine.groupby(["time_ms", "job"], sort=True)["rate_mbps"].last().unstack().ffill().fillna(0)
    )
    moments = table.index.to_numpy(dtype=np.float64)
    times = np.unique(
        np.concatenate(
            ([trace.start_ms], moments[moments > trace.start_ms], [trace.end_ms]),
        )
    )
    rows = np.searchsorted(moments, times, side="right") - 1
    rates = {}
    for job in table.columns:
        column = np.concatenate((table[job].to_numpy(dtype=np.float64), [0.0]))
        rates[str(job)] = column[rows]  # row -1, before the first change, is the 0 at the end
    return times, {job: each for job, each in rates.items() if each.any()}


def _stack(
    axes: Axes, times: Floats, rates: Mapping[str, Floats], jobs: Sequence[str], policy: str
) -> Floats:
    """Draw the rates above one another and return their sum."""
    top = np.zeros(len(times))
    bursts = len(times)
    for position, job in enumerate(jobs):
        if job not in rates:
            continue
        lower, top = top, top + rates[job]
        axes.fill_between(
            times,
            lower / 1000,
            top / 1000,
            where=np.append((top > lower)[:-1], [False]) | np.append([False], (top > lower)[:-1]),
            step="post",
            gid=f"link-{policy}-{job}",
            **style.look(position).patch(bursts, len(jobs)),
        )
    return top


def _entries(jobs: Sequence[str]) -> list[Patch]:
    from matplotlib.patches import Patch

    if not jobs:
        return [style.note_entry("nothing was sent")]
    entries = [
        Patch(**style.look(position).patch(), label=style.shorten(job))
        for position, job in enumerate(jobs[:_MOST_ENTRIES])
    ]
    if len(jobs) > _MOST_ENTRIES:
        entries.append(style.note_entry(f"and {len(jobs) - _MOST_ENTRIES} more"))
    return entries
