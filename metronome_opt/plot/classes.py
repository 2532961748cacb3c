"""Iteration times before and after, by priority class."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes

from metronome_opt.errors import counted
from metronome_opt.instance import Instance
from metronome_opt.plot import style
from metronome_opt.plot.picture import new_axes
from metronome_opt.report.classes import NOTICEABLE, jobs_frame
from metronome_opt.slowdown.times import Times

_WIDTH = 8.0  # inches
_ROW, _MAX_HEIGHT = 0.22, 12.0  # inches for a job, and for all of them
_LABEL = 0.125  # inches that a job's name needs

# Markers say it without the colours.
_STYLES = {
    "shorter": (style.BLUE, "<"),
    "longer": ("#D55E00", ">"),
    "as long": ("#595959", "D"),
}


@rc_context(style.SHEET)
def plot_classes(instance: Instance, times: Times, *, ax: Axes | None = None) -> Axes:
    """Draw how long an iteration of each job takes, the heaviest jobs on top.

    Circles are before, arrows after; a change of no more than 1 % is none. Within a class the jobs
    with the largest gain come first.

    Parameters
    ----------
    instance
        The problem.
    times
        Iteration times before and after.
    ax
        Axes to draw on; new ones if None.
    """
    jobs = _iterations(jobs_frame(instance, times))
    weights = jobs["weight"]
    # Each class has a row above its jobs.
    headings = (weights != weights.shift()).cumsum()
    jobs["row"] = np.arange(len(jobs)) + headings
    height = min(_MAX_HEIGHT, _ROW * (len(jobs) + int(headings.iloc[-1])))
    ax = ax or new_axes(_WIDTH, height + 1.4)
    ax.scatter(jobs["before"], jobs["row"], marker="o", c=style.INK, label="before", s=18)
    for kind, (colour, marker) in _STYLES.items():
        mine = jobs[jobs["kind"] == kind]
        if len(mine):
            ax.hlines(mine["row"], mine["before"], mine["after"], colors=colour)
            label = f"after: {kind}"
            ax.scatter(mine["after"], mine["row"], marker=marker, c=colour, label=label, zorder=3)
    for weight, members in jobs.groupby("weight", sort=False):
        means = " → ".join(f"{mean:.3f}×" for mean in members[["before", "after"]].mean())
        text = f"weight {weight}: {counted(len(members), 'job')}, mean {means}"
        row = members["row"].min() - 1
        ax.axhspan(row - 0.5, row + 0.5, color=style.PAPER, zorder=0)
        ax.text(0.01, row, text, transform=ax.get_yaxis_transform(), verticalalignment="center")
    every = math.ceil(_LABEL * (jobs["row"].max() + 1) / height)
    named = jobs.iloc[::every]
    ax.set_yticks(named["row"], [style.shorten(name, 24) for name in named.index])
    ax.set_ylim(jobs["row"].max() + 0.7, -0.5)
    ax.axvline(1, color=style.INK, linewidth=0.8, zorder=0)
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.6g}×")
    ax.set_xlabel("iteration / period, as simulated")
    ax.set_title(f"{style.shorten(instance.name, 50)}: iteration times by priority class")
    ax.grid(axis="x")
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return ax


def _iterations(frame: pd.DataFrame) -> pd.DataFrame:
    """Return iterations as shares of periods, by class and then by change, as they are drawn."""
    shares = frame[["before_ms", "after_ms", "change_ms"]]
    jobs = shares.div(frame["period_ms"], axis=0).set_axis(["before", "after", "change"], axis=1)
    jobs["weight"] = frame["weight"]
    change = frame["change_percent"]
    noticeable = change.abs() > 100 * NOTICEABLE
    kinds = {-1: "shorter", 0: "as long", 1: "longer"}
    jobs["kind"] = np.sign(change.where(noticeable, 0)).map(kinds)
    order = jobs.reset_index().assign(late=-jobs["after"].to_numpy())
    order = order.sort_values(["weight", "change", "late", "job"], ascending=[False, *[True] * 3])
    return order.set_index("job")
