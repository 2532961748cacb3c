"""Figures of simulations: distributions, gains, predictions, a link as it happened.

Every function returns a matplotlib figure; `metronome_opt.plot.save_figure` writes it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metronome_opt.errors import InputError, show
from metronome_opt.plot import style
from metronome_opt.plot.axes import WIDTH, dress, single
from metronome_opt.simulate.policies import REGISTERED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

    from metronome_opt.plot.picture import Picture

Floats = NDArray[np.float64]
Samples = tuple[ArrayLike, ArrayLike]
"""Times in seconds, and the share of all capacity that was carried since the time before."""

_LINES = {name: policy.line for name, policy in REGISTERED.items() if policy.line is not None}
_FURTHER = ("#56B4E9", "#F0E442")
_BLUE, _SKY = "#0072B2", "#56B4E9"
_DOTS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markeredgewidth": 0}

_PANEL = 2.9  # inches
_COLUMNS = 3
_MOST_POINTS = 2000  # more of them would make a file large and no picture clearer


def in_order(policies: Collection[str]) -> tuple[str, ...]:
    """Return policies in the order in which they are shown, unknown ones last."""
    known = list(_LINES)
    return tuple(sorted(policies, key=lambda p: (known.index(p) if p in known else 99, p)))


def line_styles(policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the properties of the line of each policy, the same in all figures."""
    others = [policy for policy in policies if policy not in _LINES]
    styles = _LINES | {
        policy: (_FURTHER[position % len(_FURTHER)], (0, (9, 2, 1 + position, 2)), 1.6)
        for position, policy in enumerate(others)
    }
    return {
        policy: dict(zip(("color", "linestyle", "linewidth"), styles[policy], strict=True))
        for policy in policies
    }


def _panels(
    title: str, names: Sequence[str], height: float, x: str, y: str
) -> tuple[Picture, float, list[Axes]]:
    """Return a figure of panels that share their axes, its width, and a panel for each name."""
    columns = min(_COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    width = max(WIDTH, _PANEL * columns + 0.4)
    figure = style.new_figure(width, height * rows + 1.2)
    figure.suptitle(title, fontsize=style.TITLE, parse_math=False, wrap=True)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    panels = list(grid.flat[: len(names)])
    for axes, name in zip(panels, names, strict=True):
        dress(axes)
        axes.set_title(name, fontsize=style.TEXT, loc="left", parse_math=False)
    for axes in panels[-columns:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(x, fontsize=style.TEXT)
    figure.supylabel(y, fontsize=style.TEXT)
    return figure, width, panels


# ------------------------------------------------------------------ completion times


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
    from matplotlib.lines import Line2D

    figure, axes = single(f"Completion times, {title}")
    axes.set_xlabel("completion time, arrival to end (s)", fontsize=style.TEXT)
    axes.set_ylabel("share of jobs complete", fontsize=style.TEXT)
    lines = line_styles(in_order(times))
    finished = {policy: np.sort(_finite(times[policy])) for policy in lines}
    everything = np.concatenate([np.empty(0), *finished.values()])
    longest = float(everything.max()) if everything.size else 1.0
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
    axes.set_xlim(0, 1.02 * longest)
    axes.set_ylim(0, 1.02)
    style.add_legend(figure, entries, WIDTH)
    figure.settle()
    return figure


def _finite(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    return numbers[np.isfinite(numbers)]


# ------------------------------------------------------------------ utilisation

_STEPS = 100
_BAND = (10, 90)  # percentiles of the runs


def plot_utilisation(runs: Mapping[str, Sequence[Samples]], *, title: str) -> Picture:
    """Draw the mean over runs of the utilisation of all links, and the band of most runs.

    A run that is over counts as idle, so that every mean is over all runs.

    Parameters
    ----------
    runs
        The samples of each run, by policy; the first sample counts from time 0.
    title
        What stands above the figure.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    policies = in_order(runs)
    lines = line_styles(policies)
    edges = _edges(runs)
    middles = (edges[:-1] + edges[1:]) / 2
    figure, width, panels = _panels(
        f"Utilisation over time, {title}",
        policies,
        1.9,
        "time (s)",
        "share of all capacity carried (%)",
    )
    for axes, policy in zip(panels, policies, strict=True):
        shares = 100 * _resampled(runs[policy], edges)
        low, high = np.percentile(shares, _BAND, axis=0)
        colour = lines[policy]["color"]
        axes.fill_between(middles, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(middles, shares.mean(axis=0), color=colour, gid=f"utilisation-{policy}")
    panels[0].set_xlim(0, edges[-1])
    panels[0].set_ylim(bottom=0)
    many = style.counted(max(map(len, runs.values())), "run")
    entries = [
        Line2D([], [], color=style.INK, label=f"mean over {many}"),
        Patch(color=style.INK, alpha=0.25, linewidth=0, label="10th to 90th percentile of runs"),
    ]
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


# ------------------------------------------------------------------ gains

_BIN = 0.05  # of the score


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
    import pandas as pd

    jobs = pd.DataFrame(
        {"score": np.asarray(scores, float), "gain": 100 * np.asarray(gains, float)}
    )
    known = jobs.dropna()
    # A bin holds its upper end, so that a score of 1 is among the scores just below it.
    bins = np.ceil(np.round(known["score"] / _BIN, 9))
    means = known["gain"].groupby(bins).agg(["mean", "size"])
    figure, axes = single(f"Gain by compatibility, {title}")
    axes.set_xlabel(f"compatibility score of the job under {policy}", fontsize=style.TEXT)
    axes.set_ylabel(f"iteration shorter than under {against} (%)", fontsize=style.TEXT)
    axes.axhline(0, color=style.INK, linewidth=0.8)
    many = len(known) > _MOST_POINTS
    axes.plot(
        known["score"],
        known["gain"],
        **_DOTS,
        markersize=3,
        color=_SKY,
        rasterized=many,
        alpha=0.5,
        label="a job",
        gid="gain-jobs",
    )
    middles = (means.index.to_numpy() - 0.5) * _BIN
    label = f"mean over {_BIN:g} of score, with the number of jobs"
    axes.plot(middles, means["mean"], "o-", color=_BLUE, label=label, gid="gain-means")
    for middle, mean, count in zip(middles, means["mean"], means["size"], strict=True):
        axes.annotate(
            f"{count:,}",
            (middle, mean),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=style.SMALL,
        )
    left_out = (
        f"{len(known):,} of {len(jobs):,} jobs; the others share no link or were not compared"
    )
    note = left_out if len(known) < len(jobs) else style.counted(len(jobs), "job")
    style.add_legend(figure, [*axes.get_legend_handles_labels()[0], style.note_entry(note)], WIDTH)
    figure.settle()
    return figure


# ------------------------------------------------------------------ changes by cell and policy

_LEAST, _MOST = 0.01, 0.3  # a narrower scale would paint noise, a wider one hide small changes
_DARK = 0.55  # of the scale, from where on black letters cannot be read


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
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list(
        "gain", ["#00456E", _BLUE, "white", "#D55E00", "#8A3300"]
    )
    known = np.abs(_finite(changes))
    reach = min(_MOST, max(_LEAST, *known))
    sure = np.ones(changes.shape, dtype=bool) if certain is None else certain
    names = [style.shorten(cell, 44) for cell in cells]
    width = max(WIDTH, 0.075 * max(map(len, names)) + 1.15 * len(policies) + 1.3)
    figure = style.new_figure(width, max(0.8, 0.26 * len(cells)) + 1.55)
    figure.suptitle(title, fontsize=style.TITLE, parse_math=False)
    axes = figure.add_subplot()
    axes.set_facecolor(style.PAPER)
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
            fontsize=style.SMALL,
            color="white" if abs(value) > _DARK * reach else style.INK,
            gid=f"grid-{row}-{column}",
        )
    axes.set_xticks(range(len(policies)), list(policies), fontsize=style.SMALL)
    axes.set_yticks(range(len(cells)), names, fontsize=style.SMALL)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)
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
    style.add_legend(figure, [style.note_entry(note) for note in notes], width)
    figure.settle()
    return figure


# ------------------------------------------------------------------ predictions


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

    one, other = _both(predicted, simulated)
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

    policies = in_order(elongations)
    lines = line_styles(policies)
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
    style.add_legend(figure, [entry], width)
    figure.settle()
    return figure


def _both(predicted: ArrayLike, simulated: ArrayLike) -> tuple[Floats, Floats]:
    """Return the values of jobs of which both are known."""
    one, other = (np.asarray(each, dtype=np.float64) for each in (predicted, simulated))
    known = np.isfinite(one) & np.isfinite(other)
    return one[known], other[known]


# ------------------------------------------------------------------ a link as it happened

_CAPACITY: dict[str, Any] = {"color": style.INK, "linewidth": 1.4, "linestyle": "--"}
_LINK_WIDTH, _LINK_PANEL = 10.0, 1.9  # inches
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
    policies = in_order(trace.traces)
    rates = {policy: _rates(trace, trace.traces[policy]) for policy in policies}
    jobs = sorted({job for _, mine in rates.values() for job in mine})
    capacity = f"capacity {style.gigabits(trace.capacity_mbps)}"
    entries = [*_job_entries(jobs), Line2D([], [], **_CAPACITY, label=capacity)]
    height = _LINK_PANEL * len(policies) + 0.9 + style.legend_height(entries, _LINK_WIDTH)
    figure = style.new_figure(_LINK_WIDTH, height)
    figure.suptitle(
        f"Link {style.shorten(trace.link, 60)} as it happened",
        fontsize=style.TITLE,
        parse_math=False,
    )
    panels = figure.subplots(len(policies), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    highest = trace.capacity_mbps
    for axes, policy in zip(panels, policies, strict=True):
        top = _stack(axes, *rates[policy], jobs, policy)
        highest = max(highest, float(top.max(initial=0)))
        axes.axhline(trace.capacity_mbps / 1000, **_CAPACITY)
        axes.set_title(policy, fontsize=style.TEXT, fontweight="bold", loc="left", parse_math=False)
        axes.set_ylabel("Gbit/s", fontsize=style.TEXT)
        axes.tick_params(labelsize=style.SMALL)
    panels[0].set_xlim(trace.start_ms, trace.end_ms)
    panels[0].set_ylim(0, 1.06 * highest / 1000)
    panels[-1].xaxis.set_major_formatter(lambda time, _: f"{time:,.10g}")
    panels[-1].set_xlabel("time (ms)", fontsize=style.TEXT)
    style.add_legend(figure, entries, _LINK_WIDTH)
    figure.settle()
    return figure


def _rates(trace: LinkTrace, frame: pd.DataFrame) -> tuple[Floats, dict[str, Floats]]:
    """Return the times at which something changes and the rates from then on, by job.

    The first time is the start of what is shown, the last its end; a job that sends nothing in
    between is left out.
    """
    mine = frame[(frame["link"] == trace.link) & (frame["time_ms"] < trace.end_ms)]
    # Of several changes at one moment the last one holds.
    table = mine.groupby(["time_ms", "job"])["rate_mbps"].last().unstack().ffill().fillna(0)
    moments = table.index.to_numpy(dtype=np.float64)
    inside = moments[moments > trace.start_ms]
    times = np.unique([trace.start_ms, *inside, trace.end_ms])
    rows = np.searchsorted(moments, times, side="right") - 1
    rates = {}
    for job in table.columns:
        column = np.append(table[job].to_numpy(dtype=np.float64), 0.0)
        rates[str(job)] = column[rows]  # row -1, before the first change, is the 0 at the end
    return times, {job: each for job, each in rates.items() if each.any()}


def _stack(
    axes: Axes, times: Floats, rates: Mapping[str, Floats], jobs: Sequence[str], policy: str
) -> Floats:
    """Draw the rates above one another and return their sum."""
    top = np.zeros(len(times))
    for position, job in enumerate(jobs):
        if job not in rates:
            continue
        lower, top = top, top + rates[job]
        sends = (top > lower)[:-1]
        axes.fill_between(
            times,
            lower / 1000,
            top / 1000,
            where=np.append(sends, [False]) | np.append([False], sends),
            step="post",
            gid=f"link-{policy}-{job}",
            **style.look(position).patch(len(times), len(jobs)),
        )
    return top


def _job_entries(jobs: Sequence[str]) -> list[Patch]:
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
