"""Utilisation over time, a panel for each policy, so that the bands do not hide one another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metronome_opt.plot import style
from metronome_opt.plot.axes import WIDTH, dress
from metronome_opt.plot.simulation import looks

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture

    Floats = NDArray[np.float64]

Samples = tuple[ArrayLike, ArrayLike]
"""Times in seconds, and the share of all capacity that was carried since the time before."""

_COLUMNS = 3
_STEPS = 100
_BAND = (10, 90)  # percentiles of the runs
_REFERENCE = "default"


def plot_utilisation(runs: Mapping[str, Sequence[Samples]], *, title: str) -> Picture:
    """Draw the mean over runs of the utilisation of all links, and the band of most runs.

    A run that is over counts as idle, so that every mean is over all runs. A thin line repeats the
    mean of `default` in the other panels.

    Parameters
    ----------
    runs
        The samples of each run, by policy; the first sample counts from time 0.
    title
        What stands above the figure.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    policies = looks.in_order(runs)
    lines = looks.lines(policies)
    edges = _edges(runs)
    shares = {policy: _resampled(runs[policy], edges) for policy in policies}
    middles = (edges[:-1] + edges[1:]) / 2

    columns = min(_COLUMNS, len(policies))
    rows = math.ceil(len(policies) / columns)
    width = max(WIDTH, 2.7 * columns)
    figure = style.new_figure(width, 1.9 * rows + 1.2)
    figure.suptitle(f"Utilisation over time, {title}", fontsize=style.TITLE, parse_math=False)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, policy in zip(grid.flat, policies, strict=False):
        dress(axes)
        axes.set_title(policy, fontsize=style.TEXT, loc="left", parse_math=False)
        low, high = np.percentile(shares[policy], _BAND, axis=0)
        colour = lines[policy]["color"]
        axes.fill_between(middles, 100 * low, 100 * high, color=colour, alpha=0.25, linewidth=0)
        if _REFERENCE in shares and policy != _REFERENCE:
            mean = 100 * shares[_REFERENCE].mean(axis=0)
            axes.plot(middles, mean, color=lines[_REFERENCE]["color"], linewidth=0.8)
        mean = 100 * shares[policy].mean(axis=0)
        axes.plot(middles, mean, color=colour, linewidth=1.6, gid=f"utilisation-{policy}")
    for axes in grid.flat[len(policies) :]:
        axes.set_visible(False)
    for axes in grid.flat[max(0, len(policies) - columns) : len(policies)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("time (s)", fontsize=style.TEXT)
    grid[0, 0].set_xlim(0, edges[-1])
    grid[0, 0].set_ylim(bottom=0)
    figure.supylabel("share of all capacity carried (%)", fontsize=style.TEXT)
    many = style.counted(max(map(len, runs.values())), "run")
    entries = [
        Line2D([], [], color=style.INK, linewidth=1.6, label=f"mean over {many}"),
        Patch(color=style.INK, alpha=0.25, linewidth=0, label="10th to 90th percentile of runs"),
    ]
    if _REFERENCE in shares and len(policies) > 1:
        reference = {"color": lines[_REFERENCE]["color"], "linewidth": 0.8}
        entries.append(Line2D([], [], **reference, label=f"mean of {_REFERENCE}"))
    style.add_legend(figure, entries, width)
    figure.settle()
    return figure


def _edges(runs: Mapping[str, Sequence[Samples]]) -> Floats:
    """Return the steps of the time axis, none finer than the samples are."""
    times = [np.asarray(time, dtype=np.float64) for each in runs.values() for time, _ in each]
    longest = max((float(time.max()) for time in times if time.size), default=1.0)
    most = max((time.size for time in times), default=1)
    return np.linspace(0, longest, min(_STEPS, max(1, most)) + 1)


def _resampled(runs: Sequence[Samples], edges: Floats) -> Floats:
    """Return the mean utilisation in each step of each run, shape (runs, steps); volume is kept."""
    rows = []
    for times, shares in runs:
        ends = np.concatenate(([0.0], np.asarray(times, dtype=np.float64)))
        carried = np.cumsum(np.diff(ends) * np.asarray(shares, dtype=np.float64))
        volume = np.interp(edges, ends, np.concatenate(([0.0], carried)))
        rows.append(np.diff(volume) / np.diff(edges))
    return np.array(rows).reshape(len(runs), len(edges) - 1)
