"""How much longer iterations were predicted to be, and how much longer they were."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metronome_opt.plot import style
from metronome_opt.plot.axes import WIDTH, dress
from metronome_opt.plot.simulation import looks

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture

    Floats = NDArray[np.float64]

_PANEL, _WORDS = 2.9, 0.7  # inches: a panel, and what is written above and below it
_COLUMNS = 3


@dataclass(frozen=True)
class Correlation:
    """How well a prediction orders and scales what came; None where one of them is constant."""

    pearson: float | None
    spearman: float | None
    jobs: int

    def __str__(self) -> str:
        """Return it in words."""
        both = (("Pearson", self.pearson), ("Spearman", self.spearman))
        told = (f"{name} {'-' if value is None else f'{value:.2f}'}" for name, value in both)
        return f"{', '.join(told)} ({style.counted(self.jobs, 'job')})"


def correlation(predicted: ArrayLike, simulated: ArrayLike) -> Correlation:
    """Return the correlations of two values of jobs; NaN leaves a job out."""
    from scipy.stats import pearsonr, spearmanr

    one, other = _known(predicted, simulated)
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return Correlation(None, None, len(one))
    pearson, spearman = (float(test(one, other).statistic) for test in (pearsonr, spearmanr))
    if not (math.isfinite(pearson) and math.isfinite(spearman)):
        return Correlation(None, None, len(one))
    return Correlation(pearson, spearman, len(one))


def plot_prediction(
    elongations: Mapping[str, tuple[ArrayLike, ArrayLike]], *, title: str
) -> Picture:
    """Draw a point for each job, predicted from left to right, simulated upwards.

    Parameters
    ----------
    elongations
        By policy: predicted and simulated elongation of an iteration of each job, as a share of its
        ideal iteration; NaN where one is not known. Shapes (jobs,).
    title
        What stands above the figure.
    """
    from matplotlib.lines import Line2D

    policies = looks.in_order(elongations)
    lines = looks.lines(policies)
    columns = min(_COLUMNS, len(policies))
    rows = math.ceil(len(policies) / columns)
    width = max(WIDTH, _PANEL * columns + 0.4)
    figure = style.new_figure(width, (_PANEL + _WORDS) * rows + 1.0)
    figure.suptitle(
        f"Elongation of iterations as predicted and simulated, {title}",
        fontsize=style.TITLE,
        parse_math=False,
        wrap=True,
    )
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    known = {policy: _known(*elongations[policy]) for policy in policies}
    values = 100 * np.concatenate(
        [np.zeros(1), *(each for both in known.values() for each in both)]
    )
    low, high = float(values.min()), max(1.0, float(values.max()))
    limits = (low - 0.04 * (high - low), high + 0.04 * (high - low))
    for axes, policy in zip(grid.flat, policies, strict=False):
        dress(axes)
        axes.plot(limits, limits, color=style.INK, linewidth=0.8)
        axes.plot(
            *(100 * each for each in known[policy]),
            linestyle="none",
            marker="o",
            markersize=3.5,
            markeredgewidth=0,
            alpha=0.5,
            rasterized=len(known[policy][0]) > looks.MANY,
            color=lines[policy]["color"],
            gid=f"prediction-{policy}",
        )
        found = str(correlation(*elongations[policy])).replace(" (", "\n(")
        axes.set_title(f"{policy}\n{found}", fontsize=style.SMALL, loc="left", parse_math=False)
        axes.set_xlim(*limits)
        axes.set_ylim(*limits)
        axes.set_aspect("equal")
    for axes in grid[:, 0]:
        axes.set_ylabel("simulated (% of ideal iteration)", fontsize=style.TEXT)
    for axes in grid.flat[len(policies) :]:
        axes.set_visible(False)
    for axes in grid.flat[max(0, len(policies) - columns) : len(policies)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("predicted (% of ideal iteration)", fontsize=style.TEXT)
    entry = Line2D([], [], color=style.INK, linewidth=0.8, label="simulated as predicted")
    style.add_legend(figure, [entry], width)
    figure.settle()
    return figure


def _known(predicted: ArrayLike, simulated: ArrayLike) -> tuple[Floats, Floats]:
    one, other = (np.asarray(each, dtype=np.float64) for each in (predicted, simulated))
    both = np.isfinite(one) & np.isfinite(other)
    return one[both], other[both]
