"""The figures of the paper: as wide as a column or the page, in its letters, without titles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from metronome_opt.bench.cases import FLOOR_S
from metronome_opt.bench.figures import (
    gaps_over_time,
    performance_profile,
    proving_solvers,
    solver_styles,
)
from metronome_opt.bench.studies import IDEAL, RIVAL, SUBJECT
from metronome_opt.plot import style
from metronome_opt.plot.picture import new_figure
from paper.mixes import GAINS, gains
from paper.solvers import Campaign
from paper.studies import StudyRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis

COLUMN = 3.31  # inches, of the paper's columns
TEXT, SMALL = 8.0, 7.0  # points
_LINES: dict[str, tuple[str, Any]] = {
    RIVAL: ("#D55E00", (0, (5, 1.5, 1, 1.5))),
    SUBJECT: (style.BLUE, "-"),
    IDEAL: (style.INK, (0, (1, 1.4))),
}
"""Colour and dashes of policies."""
_SHAPES = {"two": "o", "three": "^", "four": "s"}
_MOMENTS = 200
_MARGIN = 0.02  # inches


@contextmanager
def letters() -> Iterator[None]:
    """Draw and save in letters like the paper's.

    They come with matplotlib, so that a file does not hang on the fonts of a machine.
    """
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcParams["font.family"] = "STIXGeneral"
        matplotlib.rcParams["mathtext.fontset"] = "stix"
        matplotlib.rcParams["axes.linewidth"] = 0.6
        yield


def profile(campaign: Campaign) -> Figure | None:
    """Draw the performance profile of times to a proof on all instances."""
    section = campaign.section
    if section is None or not (solvers := proving_solvers(section)):
        return None
    profiles = performance_profile(section.proof_times[list(solvers)], FLOOR_S)
    right = 1.1 * max(2.0, *(ratios.max() for ratios, _ in profiles.values()))
    figure, axes = _single(2.3)
    look = solver_styles(section.solvers)
    for solver, (ratios, shares) in profiles.items():
        axes.plot(
            [1.0, *ratios, right],
            [0.0, *shares, shares[-1]],
            drawstyle="steps-post",
            label=solver,
            **_thinner(look[solver]),
        )
    axes.set_xlim(1.0, right)
    _logarithmic(axes.xaxis)
    axes.set_ylim(-0.02, 1.02)
    _labels(axes, "ratio to the fastest solver's time", f"share of {len(section.problems)} proved")
    return _finished(figure, axes, columns=3)


def growth(campaign: Campaign) -> Figure | None:
    """Draw the time of `auto` to a proof by number of jobs on `fabric`, with its power law."""
    found = campaign.growth
    if found is None:
        return None
    figure, axes = _single(2.1)
    colour = _LINES[SUBJECT][0]
    dots: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 3.5, "color": colour}
    axes.plot(*_apart(found.solved), **dots, label="proved")
    if found.unsolved:
        axes.plot(*_apart(found.unsolved), **dots, markerfacecolor="none", label="not proved")
    if found.fit is not None:
        ends = [found.solved[0][0], found.solved[-1][0]]
        label = f"jobs to the power of {found.fit.exponent:.1f}"
        axes.plot(ends, [found.fit.at(size) for size in ends], color=colour, label=label)
    _logarithmic(axes.xaxis)
    _logarithmic(axes.yaxis)
    _labels(axes, "jobs", "seconds")
    return _finished(figure, axes, columns=3)


def gaps(campaign: Campaign) -> Figure | None:
    """Draw the mean gap to the best known value over time on `dense`, by solver."""
    section = campaign.part("Dense")
    if section is None:
        return None
    limit = max(problem.setting.time_limit_s for problem in section.problems)
    moments = [FLOOR_S * (limit / FLOOR_S) ** (step / _MOMENTS) for step in range(_MOMENTS + 1)]
    figure, axes = _single(2.3)
    look = solver_styles(section.solvers if campaign.section is None else campaign.section.solvers)
    for solver in section.solvers:
        means = [100 * gap for gap in gaps_over_time(section, solver, moments)]
        line = _thinner(look[solver])
        axes.plot(moments, means, drawstyle="steps-post", label=solver, **line)
    axes.set_xlim(FLOOR_S, limit)
    axes.set_ylim(0, 100)
    _logarithmic(axes.xaxis)
    _labels(axes, "seconds", "mean gap to the best known (%)")
    return _finished(figure, axes, columns=3)


def snapshot(runs: StudyRuns | None) -> Figure | None:
    """Draw by how much completion is shorter on one link against the best score of its jobs."""
    if runs is None:
        return None
    found = gains(runs)
    figure, axes = _single(2.3)
    axes.axhline(0, color=style.INK, linewidth=0.6)
    for policy in GAINS:
        colour, dashes = _LINES[policy]
        line: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 0.8}
        for jobs, shape in _SHAPES.items():
            known = {
                score: by_policy[policy]
                for (count, score), by_policy in found.items()
                if count == jobs
            }
            points = [(score, -100 * each.mean) for score, each in sorted(known.items()) if each]
            axes.plot(
                *_apart(points),
                **line,
                marker=shape,
                markersize=3.5,
                markeredgewidth=0.8,
                markerfacecolor=line["color"] if policy == SUBJECT else "none",
                label=f"{policy}, {jobs}",
            )
    _labels(axes, "best score that shifts can reach", "completion shorter by (%)")
    return _finished(figure, axes, columns=3)


# ------------------------------------------------------------------ parts


def _single(height: float) -> tuple[Figure, Axes]:
    figure = new_figure(COLUMN, height)
    axes = figure.add_subplot()
    _dress(axes)
    return figure, axes


def _dress(axes: Axes) -> None:
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.tick_params(labelsize=SMALL, width=0.6, length=2.5)


def _labels(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, fontsize=TEXT)
    axes.set_ylabel(y, fontsize=TEXT)


def _logarithmic(axis: XAxis | YAxis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())


def _thinner(line: dict[str, Any]) -> dict[str, Any]:
    return line | {"linewidth": 1.0, "marker": ""}


def _apart(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _finished(figure: Figure, axes: Axes, *, columns: int) -> Figure:
    entries, labels = axes.get_legend_handles_labels()
    figure.legend(
        entries,
        labels,
        loc="outside lower center",
        ncols=min(columns, len(entries)),
        fontsize=SMALL,
        frameon=False,
        handlelength=2.0,
        columnspacing=1.0,
        labelspacing=0.3,
    )
    figure.set_layout_engine("constrained", w_pad=_MARGIN, h_pad=_MARGIN)
    return figure
