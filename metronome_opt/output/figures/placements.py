"""Iteration times of jobs at several placements, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes

from metronome_opt.output.figures import style
from metronome_opt.output.figures.picture import new_axes

_HEIGHT, _PER_JOB, _MIN_WIDTH = 3.6, 1.1, 5.0  # inches
_COLOURS = ("#595959", "#E69F00", style.BLUE, "#009E73")
_SHARE = 0.8  # of the distance between jobs that their bars take


@rc_context(style.SHEET)
def plot_placements(
    times: Mapping[str, Mapping[str, float]],
    *,
    labels: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the iteration times of jobs, a bar for each placement.

    Parameters
    ----------
    times
        By placement and job, in ms; the jobs of the first placement are drawn.
    labels
        Text below each job, such as its nodes; its name if None.
    ax
        Axes to draw on; new ones if None.
    """
    jobs = list(next(iter(times.values())))
    ax = ax or new_axes(max(_MIN_WIDTH, _PER_JOB * len(jobs)), _HEIGHT)
    width = _SHARE / len(times)
    for number, (label, by_job) in enumerate(times.items()):
        left = np.arange(len(jobs)) + (number - (len(times) - 1) / 2) * width
        heights = [by_job.get(job, np.nan) for job in jobs]
        colour = _COLOURS[number % len(_COLOURS)]
        bars = ax.bar(left, heights, width, label=label, color=colour)
        ax.bar_label(bars, fmt="%.0f", fontsize="x-small")
    texts = [style.shorten(job, 16) if labels is None else labels[job] for job in jobs]
    ax.set_xticks(range(len(jobs)), texts)
    ax.set_ylabel("iteration (ms)")
    ax.legend(ncols=len(times), loc="upper left", frameon=False)
    ax.margins(y=0.2)
    return ax
