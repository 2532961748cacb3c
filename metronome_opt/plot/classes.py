"""Costs and gains: each job's iteration before and after, by priority class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from metronome_opt.errors import counted
from metronome_opt.instance import Instance
from metronome_opt.plot import style
from metronome_opt.plot.heatmap import spread
from metronome_opt.plot.picture import Picture, add_legend
from metronome_opt.report.classes import NOTICEABLE, jobs_frame
from metronome_opt.slowdown.times import Times

_WIDTH = 8.0  # inches
_MARGINS = 1.4  # inches: title, axis, legend
_HEADING = 0.24  # inches for the line above a class
_ROW, _THINNEST = 0.22, 0.02  # inches for a job
_ROWS = 12.0  # inches that all jobs together may take before their rows become thinner
_LABEL = 0.115  # inches that a job's name needs

# Where the arrow points and how the line is broken say it without the colours.
_LOOKS: dict[str, dict[str, Any]] = {
    "gains": {"color": style.BLUE, "marker": "<", "linestyle": "-"},
    "pays": {"color": "#D55E00", "marker": ">", "linestyle": ":"},
    "stays": {"color": "#595959", "marker": "D", "linestyle": "none"},
}
_WORDS = {
    "gains": "after: shorter, gains",
    "pays": "after: longer, pays",
    "stays": "after: as long",
}
_BEFORE: dict[str, Any] = {
    "color": style.INK,
    "marker": "o",
    "markerfacecolor": "white",
    "linestyle": "none",
}


@rc_context(style.SHEET)
def plot_classes(instance: Instance, times: Times) -> Picture:
    """Draw how long an iteration of each job takes, the heaviest jobs on top.

    Circles are before. Blue arrows to the left are jobs that gain; red arrows to the right, on
    dotted lines, are jobs that pay; who changes by no more than 1 % does neither. Within a class
    those that gain most come first.

    Parameters
    ----------
    instance
        The problem.
    times
        Iteration times before and after.
    """
    jobs = _iterations(jobs_frame(instance, times))
    row = max(_THINNEST, min(_ROW, _ROWS / len(jobs)))
    # Each class has a line above its jobs; places are inches from the top.
    headings = (jobs["weight"] != jobs["weight"].shift()).cumsum()
    jobs["place"] = _HEADING * headings + row * (np.arange(len(jobs)) + 0.5)
    height = _HEADING * int(headings.iloc[-1]) + row * len(jobs)
    title = f"{style.shorten(instance.name, 50)}: who pays and who gains"
    figure = Picture(_WIDTH, height + _MARGINS, title)
    axes = figure.subplots()
    axes.set_ylim(height, 0)
    # No iteration is shorter than its period.
    span = max(0.02, jobs[["before", "after"]].to_numpy().max() - 1)
    axes.set_xlim(1 - 0.04 * span, 1 + 1.06 * span)
    for weight, members in jobs.groupby("weight", sort=False):
        _write_heading(axes, weight, members, row)
    _draw_iterations(axes, jobs, size=min(6.0, 72 * 0.8 * row))
    # Where not all names fit, those of the jobs that change most come first.
    urgent = np.argsort(-jobs["change"].abs().to_numpy(), kind="stable")
    named = jobs.iloc[spread(urgent.tolist(), math.ceil(_LABEL / row))]
    axes.set_yticks(named["place"], [style.shorten(name, 24) for name in named.index])
    axes.axvline(1, color=style.INK, linewidth=0.8, zorder=0)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.6g}×")
    axes.set_xlabel("iteration / period, as simulated")
    axes.grid(axis="x")
    add_legend(figure, _entries(jobs), _WIDTH)
    figure.settle()
    return figure


def _iterations(frame: pd.DataFrame) -> pd.DataFrame:
    """Return iterations as shares of periods, by class and then by change, as they are drawn."""
    shares = frame[["before_ms", "after_ms", "change_ms"]]
    jobs = shares.div(frame["period_ms"], axis=0).set_axis(["before", "after", "change"], axis=1)
    jobs["weight"] = frame["weight"]
    change = frame["change_percent"]
    noticeable = change.abs() > 100 * float(NOTICEABLE)
    jobs["kind"] = np.sign(change.where(noticeable, 0)).map({-1: "gains", 0: "stays", 1: "pays"})
    order = jobs.reset_index().assign(late=-jobs["after"].to_numpy())
    order = order.sort_values(["weight", "change", "late", "job"], ascending=[False, *[True] * 3])
    return order.set_index("job")


def _write_heading(axes: Axes, weight: object, members: pd.DataFrame, row: float) -> None:
    """Write the line above a class."""
    bottom = members["place"].min() - row / 2
    axes.axhspan(bottom - _HEADING, bottom, color=style.PAPER, linewidth=0, zorder=1)
    means = " → ".join(f"{mean:.3f}×" for mean in members[["before", "after"]].mean())
    axes.text(
        0.01,
        bottom - _HEADING / 2,
        f"weight {weight}: {counted(len(members), 'job')}, mean {means}",
        transform=axes.get_yaxis_transform(),
        verticalalignment="center",
        fontweight="bold",
    )


def _draw_iterations(axes: Axes, jobs: pd.DataFrame, size: float) -> None:
    axes.plot(
        jobs["before"],
        jobs["place"],
        **_BEFORE,
        markersize=size,
        zorder=3,
        gid="classes-before",
    )
    for kind, looks in _LOOKS.items():
        mine = jobs[jobs["kind"] == kind]
        if looks["linestyle"] != "none":
            axes.hlines(
                mine["place"],
                mine["before"],
                mine["after"],
                colors=looks["color"],
                linestyles=looks["linestyle"],
                linewidth=size / 4,
                gid=f"classes-{kind}-lines",
            )
        axes.plot(
            mine["after"],
            mine["place"],
            **{**looks, "linestyle": "none"},
            markersize=size,
            zorder=4,
            gid=f"classes-{kind}",
        )


def _entries(jobs: pd.DataFrame) -> list[Line2D]:
    """Return the legend: what is in the picture, and nothing else."""
    return [
        Line2D([], [], **_BEFORE, label="before"),
        *(
            Line2D([], [], **looks, linewidth=1.5, label=_WORDS[kind])
            for kind, looks in _LOOKS.items()
            if (jobs["kind"] == kind).any()
        ),
    ]
