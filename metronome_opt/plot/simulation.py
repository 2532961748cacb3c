"""Measurements: distributions, gains and predictions of simulations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from metronome_opt.errors import counted
from metronome_opt.plot import style
from metronome_opt.plot.picture import WIDTH, Picture, add_legend, dress, note_entry, single

Floats = NDArray[np.float64]
Utilisation = tuple[ArrayLike, ArrayLike]
"""Times in seconds, and the share of all capacity that was carried since the time before."""

_SKY = "#56B4E9"
_DOTS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markeredgewidth": 0}

_PANEL = 2.9  # inches
_COLUMNS = 3
_MOST_POINTS = 2000  # more of them would make a file large and no picture clearer


def _panels(
    title: str, names: Sequence[str], height: float, x: str, y: str
) -> tuple[Picture, float, list[Axes]]:
    """Return a figure of panels that share their axes, its width, and a panel for each name."""
    columns = min(_COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    width = max(WIDTH, _PANEL * columns + 0.4)
    figure = Picture(width, height * rows + 1.2)
    figure.suptitle(title, wrap=True)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    panels = list(grid.flat[: len(names)])
    for axes, name in zip(panels, names, strict=True):
        dress(axes)
        axes.set_title(name)
    for axes in panels[-columns:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(x)
    figure.supylabel(y)
    return figure, width, panels


# ------------------------------------------------------------------ completion times


@rc_context(style.SHEET)
def plot_completion(times: Mapping[str, ArrayLike], *, title: str) -> Picture:
    """Draw the share of jobs that are complete within a time, a curve for each policy.

    Parameters
    ----------
    times
        Seconds from arrival to end of every job of all runs, by policy; NaN for a job that did not
        finish. Such a job counts among all jobs, so its curve ends below 1.
    title
        What stands above the figure.
    """
    figure, axes = single(
        f"Completion times, {title}",
        "completion time, arrival to end (s)",
        "share of jobs complete",
    )
    lines = style.line_styles(style.in_order(times))
    finished = {policy: np.sort(_finite(times[policy])) for policy in lines}
    longest = max((float(done[-1]) for done in finished.values() if done.size), default=1.0)
    entries = []
    for policy, looks in lines.items():
        done, every = finished[policy], max(1, np.size(times[policy]))
        steps = np.unique(np.linspace(1, len(done), min(len(done), _MOST_POINTS)).astype(int))
        axes.step(
            [0.0, *done[steps - 1], 1.02 * longest],
            np.array([0, *steps, len(done)]) / every,
            where="post",
            gid=f"completion-{policy}",
            **looks,
        )
        missing = every - len(done)
        more = f" ({missing:,} of {every:,} jobs did not finish)" if missing else ""
        entries.append(Line2D([], [], label=policy + more, **looks))
    axes.set(xlim=(0, 1.02 * longest), ylim=(0, 1.02))
    add_legend(figure, entries, WIDTH)
    figure.settle()
    return figure


def _finite(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    return numbers[np.isfinite(numbers)]


# ------------------------------------------------------------------ utilisation

_STEPS = 100
_BAND = (10, 90)  # percentiles of the runs


@rc_context(style.SHEET)
def plot_utilisation(runs: Mapping[str, Sequence[Utilisation]], *, title: str) -> Picture:
    """Draw the mean over runs of the utilisation of all links, and the band of most runs.

    A run that is over counts as idle, so that every mean is over all runs.

    Parameters
    ----------
    runs
        The samples of each run, by policy; the first sample counts from time 0.
    title
        What stands above the figure.
    """
    policies = style.in_order(runs)
    lines = style.line_styles(policies)
    times = [np.asarray(time, dtype=np.float64) for each in runs.values() for time, _ in each]
    longest = max((float(time.max()) for time in times if time.size), default=1.0)
    most = max((time.size for time in times), default=1)
    # No step is finer than the samples are.
    edges = np.linspace(0, longest, min(_STEPS, max(1, most)) + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    figure, width, panels = _panels(
        f"Utilisation over time, {title}",
        policies,
        1.9,
        "time (s)",
        "share of all capacity carried (%)",
    )
    for axes, policy in zip(panels, policies, strict=True):
        shares = np.array([100 * _resampled(*run, edges) for run in runs[policy]])
        low, high = np.percentile(shares, _BAND, axis=0)
        colour = lines[policy]["color"]
        axes.fill_between(middles, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(middles, shares.mean(axis=0), color=colour, gid=f"utilisation-{policy}")
    panels[0].set_xlim(0, edges[-1])
    panels[0].set_ylim(bottom=0)
    many = counted(max(map(len, runs.values())), "run")
    entries = [
        Line2D([], [], color=style.INK, label=f"mean over {many}"),
        Patch(color=style.INK, alpha=0.25, linewidth=0, label="10th to 90th percentile of runs"),
    ]
    add_legend(figure, entries, width)
    figure.settle()
    return figure


def _resampled(times: ArrayLike, shares: ArrayLike, edges: Floats) -> Floats:
    """Return the mean utilisation of a run in each step; volume is kept."""
    ends = np.concatenate(([0.0], np.asarray(times, dtype=np.float64)))
    carried = np.cumsum(np.diff(ends) * np.asarray(shares, dtype=np.float64))
    volume = np.interp(edges, ends, np.concatenate(([0.0], carried)))
    return np.asarray(np.diff(volume) / np.diff(edges))


# ------------------------------------------------------------------ gains

_BIN = 0.05  # of the score


@rc_context(style.SHEET)
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
    jobs = pd.DataFrame(
        {"score": np.asarray(scores, float), "gain": 100 * np.asarray(gains, float)}
    )
    known = jobs.dropna()
    # A bin holds its upper end, so that a score of 1 is among the scores just below it.
    bins = np.ceil(np.round(known["score"] / _BIN, 9))
    means = known["gain"].groupby(bins).agg(["mean", "size"])
    figure, axes = single(
        f"Gain by compatibility, {title}",
        f"compatibility score of the job under {policy}",
        f"iteration shorter than under {against} (%)",
    )
    axes.axhline(0, color=style.INK, linewidth=0.8)
    axes.plot(
        known["score"],
        known["gain"],
        **_DOTS,
        markersize=3,
        color=_SKY,
        rasterized=len(known) > _MOST_POINTS,
        alpha=0.5,
        label="a job",
        gid="gain-jobs",
    )
    middles = (means.index.to_numpy() - 0.5) * _BIN
    label = f"mean over {_BIN:g} of score, with the number of jobs"
    axes.plot(middles, means["mean"], "o-", color=style.BLUE, label=label, gid="gain-means")
    for middle, mean, count in zip(middles, means["mean"], means["size"], strict=True):
        at = (middle, mean)
        axes.annotate(f"{count:,}", at, (0, 7), textcoords="offset points", ha="center")
    note = counted(len(jobs), "job")
    if len(known) < len(jobs):
        note = f"{len(known):,} of {note}; the others share no link or were not compared"
    add_legend(figure, [*axes.get_legend_handles_labels()[0], note_entry(note)], WIDTH)
    figure.settle()
    return figure


# ------------------------------------------------------------------ changes by cell and policy

_LEAST, _MOST = 0.01, 0.3  # a narrower scale would paint noise, a wider one hide small changes
_DARK = 0.55  # of the scale, from where on black letters cannot be read


@rc_context(style.SHEET)
def plot_grid(
    changes: Floats,
    *,
    cells: Sequence[str],
    policies: Sequence[str],
    title: str,
    what: str,
    certain: NDArray[np.bool_] | None = None,
) -> Picture:
    """Draw a table of changes in which blue is better, red is worse and white is no change.

    Parameters
    ----------
    changes
        Relative change by cell and policy, below 0 is better; NaN where it is not known. Shape
        (cells, policies).
    cells, policies
        Rows from top to bottom, columns from left to right.
    title
        What stands above the figure.
    what
        Of which measure, against what.
    certain
        Where the interval does not hold 0; other numbers are in brackets. Same shape.
    """
    colours = LinearSegmentedColormap.from_list(
        "gain", ["#00456E", style.BLUE, "white", "#D55E00", "#8A3300"]
    )
    known = np.abs(_finite(changes))
    reach = min(_MOST, max(_LEAST, *known))
    sure = np.ones(changes.shape, dtype=bool) if certain is None else certain
    names = [style.shorten(cell, 44) for cell in cells]
    width = max(WIDTH, 0.075 * max(map(len, names)) + 1.15 * len(policies) + 1.3)
    figure = Picture(width, max(0.8, 0.26 * len(cells)) + 1.55, title)
    axes = figure.add_subplot(facecolor=style.PAPER)
    image = axes.imshow(
        100 * changes, cmap=colours, vmin=-100 * reach, vmax=100 * reach, aspect="auto"
    )
    for (row, column), value in np.ndenumerate(changes):
        text = f"{100 * value:+.1f}" if np.isfinite(value) else "-"
        axes.text(
            column,
            row,
            text if sure[row, column] or text == "-" else f"({text})",
            ha="center",
            va="center",
            color="white" if abs(value) > _DARK * reach else style.INK,
            gid=f"grid-{row}-{column}",
        )
    axes.set_xticks(range(len(policies)), list(policies))
    axes.set_yticks(range(len(cells)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    beyond = "both" if (known > reach).any() else "neither"
    scale = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, extend=beyond)
    scale.set_label("change (%)", fontsize=style.SMALL)
    notes = [f"{what}; below 0 (blue) is better"]
    if not sure[np.isfinite(changes)].all():
        notes.append("(in brackets: may be no change)")
    if len(known) < changes.size:
        notes.append("-: not known")
    add_legend(figure, [note_entry(note) for note in notes], width)
    figure.settle()
    return figure


# ------------------------------------------------------------------ predictions


class Correlation(NamedTuple):
    """How well a prediction orders and scales what came; None where one of them is constant."""

    pearson: float | None
    spearman: float | None
    jobs: int

    def __str__(self) -> str:
        """Return it in words."""
        both = (("Pearson", self.pearson), ("Spearman", self.spearman))
        told = (f"{name} {'-' if value is None else f'{value:.2f}'}" for name, value in both)
        return f"{', '.join(told)} ({counted(self.jobs, 'job')})"


def correlation(predicted: ArrayLike, simulated: ArrayLike) -> Correlation:
    """Return the correlations of two values of jobs; NaN leaves a job out."""
    from scipy.stats import pearsonr, spearmanr

    one, other = _both(predicted, simulated)
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return Correlation(None, None, len(one))
    pearson, spearman = (float(test(one, other).statistic) for test in (pearsonr, spearmanr))
    if not (math.isfinite(pearson) and math.isfinite(spearman)):
        return Correlation(None, None, len(one))
    return Correlation(pearson, spearman, len(one))


@rc_context(style.SHEET)
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
    policies = style.in_order(elongations)
    lines = style.line_styles(policies)
    titles = [f"{p}\n{correlation(*elongations[p])}".replace(" (", "\n(") for p in policies]
    figure, width, panels = _panels(
        f"Elongation of iterations as predicted and simulated, {title}",
        titles,
        _PANEL + 0.7,
        "predicted (% of ideal iteration)",
        "simulated (% of ideal iteration)",
    )
    points = {policy: [100 * each for each in _both(*elongations[policy])] for policy in policies}
    values = np.concatenate([np.zeros(1), *(each for both in points.values() for each in both)])
    low, high = float(values.min()), max(1.0, float(values.max()))
    limits = (low - 0.04 * (high - low), high + 0.04 * (high - low))
    for axes, policy in zip(panels, policies, strict=True):
        axes.plot(limits, limits, color=style.INK, linewidth=0.8)
        axes.plot(
            *points[policy],
            **_DOTS,
            markersize=3.5,
            alpha=0.5,
            rasterized=len(points[policy][0]) > _MOST_POINTS,
            color=lines[policy]["color"],
            gid=f"prediction-{policy}",
        )
        axes.set(xlim=limits, ylim=limits, aspect="equal")
    entry = Line2D([], [], color=style.INK, linewidth=0.8, label="simulated as predicted")
    add_legend(figure, [entry], width)
    figure.settle()
    return figure


def _both(predicted: ArrayLike, simulated: ArrayLike) -> tuple[Floats, Floats]:
    """Return the values of jobs of which both are known."""
    one, other = (np.asarray(each, dtype=np.float64) for each in (predicted, simulated))
    known = np.isfinite(one) & np.isfinite(other)
    return one[known], other[known]
