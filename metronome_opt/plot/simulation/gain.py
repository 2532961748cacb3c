"""What a job gains against how compatible it is with those that it shares links with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metronome_opt.plot import style
from metronome_opt.plot.axes import WIDTH, single
from metronome_opt.plot.simulation import looks

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture

Floats = NDArray[np.float64]

BIN = 0.05  # of the score
_MEANS = f"mean over {BIN:g} of score, with the number of jobs"
_COLOUR, _POINTS = "#0072B2", "#56B4E9"


def plot_gain(
    scores: ArrayLike,
    gains: ArrayLike,
    *,
    title: str,
    policy: str = "metronome",
    against: str = "default",
) -> Picture:
    """Draw a point for each job and the mean of the jobs of like scores.

    Parameters
    ----------
    scores
        Compatibility score of each job as planned; NaN where it shares no link. Shape (jobs,).
    gains
        By what share its mean iteration is shorter; below 0 it is longer, NaN where that is not
        known. Shape (jobs,).
    title
        What stands above the figure.
    policy, against
        Whose iterations are shorter than whose.
    """
    from matplotlib.lines import Line2D

    score, gain = np.asarray(scores, dtype=np.float64), np.asarray(gains, dtype=np.float64)
    known = np.isfinite(score) & np.isfinite(gain)
    middles, means, counts = binned(score[known], gain[known])
    figure, axes = single(f"Gain by compatibility, {title}")
    axes.axhline(0, color=style.INK, linewidth=0.8)
    axes.plot(
        score[known],
        100 * gain[known],
        linestyle="none",
        marker="o",
        markersize=3.0,
        markeredgewidth=0.0,
        color=_POINTS,
        rasterized=bool(known.sum() > looks.MANY),
        alpha=0.5,
        gid="gain-jobs",
    )
    axes.plot(middles, 100 * means, "o-", color=_COLOUR, markersize=5, gid="gain-means")
    for middle, mean, count in zip(middles, means, counts, strict=True):
        axes.annotate(
            f"{count:,}",
            (middle, 100 * mean),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=style.SMALL,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.8, "linewidth": 0},
        )
    axes.set_xlabel(f"compatibility score of the job under {policy}", fontsize=style.TEXT)
    axes.set_ylabel(f"iteration shorter than under {against} (%)", fontsize=style.TEXT)
    entries = [
        Line2D([], [], color=_POINTS, marker="o", linestyle="none", markersize=4, label="a job"),
        Line2D(
            [],
            [],
            color=_COLOUR,
            marker="o",
            label=f"mean over {BIN:g} of score, with the number of jobs",
        ),
        style.note_entry(_left_out(len(score), int(known.sum()))),
    ]
    style.add_legend(figure, entries, WIDTH)
    figure.settle()
    return figure


def binned(
    scores: Floats,
    gains: Floats,
) -> tuple[list[float], Floats, list[int]]:
    """Return middles, mean gains and numbers of jobs of the bins of scores that have jobs.

    A bin holds its upper end, so that a score of 1 is among the scores just below it.
    """
    bins = np.ceil(np.round(scores / BIN, 9)).astype(int)
    taken = np.unique(bins)
    means = np.array([gains[bins == each].mean() for each in taken], dtype=np.float64)
    counts = [int((bins == each).sum()) for each in taken]
    return [float((each - 0.5) * BIN) for each in taken], means, counts


def _left_out(jobs: int, known: int) -> str:
    if known == jobs:
        return style.counted(jobs, "job")
    return f"{known:,} of {jobs:,} jobs; the others share no link or were not compared"
