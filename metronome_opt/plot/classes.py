"""Who pays and who gains: each job's predicted iteration before and after, by priority class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

from metronome_opt.instance import Instance, Job
from metronome_opt.plot import style
from metronome_opt.plot.comparison import judge
from metronome_opt.plot.heatmap import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTH = 8.0  # inches
_MARGINS = 1.4  # inches: title, axis, legend
_HEADING = 0.24  # inches for the line above a class
_ROW, _THINNEST = 0.22, 0.02  # inches for a job
_ROWS = 12.0  # inches that all jobs together may take before their rows become thinner
_LABEL = 0.115  # inches that a job's name needs

# Where the arrow points and how the line is broken say it without the colours.
_LOOKS: dict[str, dict[str, Any]] = {
    "gains": {"color": "#0072B2", "marker": "<", "linestyle": "-"},
    "pays": {"color": "#D55E00", "marker": ">", "linestyle": ":"},
    "stays": {"color": "#595959", "marker": "D", "linestyle": "none"},
}
_WORDS = {
    "gains": "after: shorter, gains",
    "pays": "after: longer, pays",
    "stays": "after: as long",
}
_BEFORE: dict[str, Any] = {"color": style.INK, "marker": "o", "markerfacecolor": "white"}


@dataclass(frozen=True)
class _Iteration:
    """What an iteration of a job takes before, if that is known, and after, over its period."""

    job: Job
    before: Fraction | None
    after: Fraction

    @property
    def change(self) -> Fraction:
        return Fraction(0) if self.before is None else self.after - self.before

    @property
    def kind(self) -> str:
        return "gains" if self.change < 0 else "pays" if self.change > 0 else "stays"


_Placed = Sequence[tuple[float, _Iteration]]


def plot_classes(
    instance: Instance,
    before: Mapping[str, int] | None,
    after: Mapping[str, int],
    *,
    stretch: Mapping[str, int] | None = None,
    stretch_limit: Fraction | None = None,
) -> Figure:
    """Draw how long an iteration of each job is predicted to take, the heaviest jobs on top.

    Circles are before. Blue arrows to the left are jobs that gain; red arrows to the right, on
    dotted lines, are jobs that pay. Within a class those that gain most come first.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Offset in slots of every job, by name; None where nothing is known of before.
    stretch
        Idle slots per job name in the schedule after; a job that is not named is not stretched.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, unknown or out of range.
    """
    iterations = _iterations(instance, before, after, stretch, stretch_limit)
    classes = [list(group) for _, group in groupby(iterations, lambda each: each.job.weight)]
    row = max(_THINNEST, min(_ROW, _ROWS / len(iterations)))
    height = _HEADING * len(classes) + row * len(iterations)
    figure = style.new_figure(WIDTH, height + _MARGINS)
    figure.suptitle(
        f"{style.shorten(instance.name, 50)}: who pays and who gains",
        fontsize=style.TITLE,
        parse_math=False,
    )
    axes = figure.subplots()
    axes.set_ylim(height, 0)  # inches from the top
    axes.set_xlim(*_limits(iterations))
    placed = list(_place(axes, classes, row))
    _draw_iterations(axes, placed, size=min(6.0, 72 * 0.8 * row))
    _name_jobs(axes, placed, row)
    axes.axvline(1, color=style.INK, linewidth=0.8, zorder=0)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.6g}×")
    axes.set_xlabel("predicted iteration / period", fontsize=style.TEXT)
    axes.tick_params(axis="x", labelsize=style.SMALL)
    axes.grid(axis="x", color="#d8d8d8", linewidth=0.5)
    axes.set_axisbelow(True)
    style.add_legend(figure, _entries(iterations), WIDTH)
    figure.settle()
    return figure


def _iterations(
    instance: Instance,
    before: Mapping[str, int] | None,
    after: Mapping[str, int],
    stretch: Mapping[str, int] | None,
    stretch_limit: Fraction | None,
) -> list[_Iteration]:
    """Return the iterations of all jobs, by class and then by change, as they are drawn."""
    new = judge(instance, "after", after, stretch, stretch_limit).evaluation.elongation
    old = None if before is None else judge(instance, "before", before).evaluation.elongation
    iterations = [
        _Iteration(
            job,
            before=None if old is None else 1 + old[job.name] / job.period,
            after=1 + new[job.name] / job.period,
        )
        for job in instance.jobs
    ]
    return sorted(
        iterations, key=lambda each: (-each.job.weight, each.change, -each.after, each.job.name)
    )


def _limits(iterations: Iterable[_Iteration]) -> tuple[float, float]:
    """Return an axis that begins just before the period, which no iteration is shorter than."""
    longest = max(max(each.after, each.before or each.after) for each in iterations)
    span = max(0.02, float(longest) - 1)
    return 1 - 0.04 * span, 1 + 1.06 * span


def _place(
    axes: Axes, classes: Iterable[list[_Iteration]], row: float
) -> Iterator[tuple[float, _Iteration]]:
    """Write the line above each class and yield the jobs with where they are drawn."""
    top = 0.0
    for members in classes:
        axes.axhspan(top, top + _HEADING, color=style.PAPER, linewidth=0, zorder=1)
        axes.text(
            0.01,
            top + _HEADING / 2,
            _heading(members),
            transform=axes.get_yaxis_transform(),
            verticalalignment="center",
            fontsize=style.SMALL,
            fontweight="bold",
        )
        top += _HEADING
        for each in members:
            yield top + row / 2, each
            top += row


def _heading(members: Sequence[_Iteration]) -> str:
    jobs = style.counted(len(members), "job")
    before = [each.before for each in members if each.before is not None]
    means = [_mean(shares) for shares in (before, [each.after for each in members]) if shares]
    return f"weight {members[0].job.weight}: {jobs}, mean {' → '.join(means)}"


def _mean(shares: Sequence[Fraction]) -> str:
    return f"{float(sum(shares) / len(shares)):.3f}×"


def _draw_iterations(axes: Axes, placed: _Placed, size: float) -> None:
    for kind, looks in _LOOKS.items():
        mine = [(place, each) for place, each in placed if each.kind == kind]
        for place, each in mine:
            if each.before is not None:
                axes.plot(
                    [float(each.before), float(each.after)],
                    [place, place],
                    color=looks["color"],
                    linestyle=looks["linestyle"],
                    linewidth=size / 4,
                )
        axes.plot(
            [float(each.after) for _, each in mine],
            [place for place, _ in mine],
            **{**looks, "linestyle": "none"},
            markersize=size,
            zorder=4,
            gid=f"classes-{kind}",
        )
    known = [(place, each.before) for place, each in placed if each.before is not None]
    axes.plot(
        [float(share) for _, share in known],
        [place for place, _ in known],
        **_BEFORE,
        linestyle="none",
        markersize=size,
        zorder=3,
        gid="classes-before",
    )


def _name_jobs(axes: Axes, placed: _Placed, row: float) -> None:
    """Name the jobs; where not all names fit, those that change most come first."""
    urgent = sorted(range(len(placed)), key=lambda index: -abs(placed[index][1].change))
    named = [placed[index] for index in spread(urgent, math.ceil(_LABEL / row))]
    axes.set_yticks(
        [place for place, _ in named],
        [style.shorten(each.job.name, 24) for _, each in named],
        fontsize=style.SMALL,
    )
    for label in axes.get_yticklabels():
        label.set_parse_math(False)


def _entries(iterations: Sequence[_Iteration]) -> list[Line2D]:
    """Return the legend: what is in the picture, and nothing else."""
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], **looks, linewidth=1.5, label=_WORDS[kind])
        for kind, looks in _LOOKS.items()
        if any(each.kind == kind for each in iterations)
    ]
    if iterations[0].before is None:
        return [Line2D([], [], **_LOOKS["stays"], label="after")]
    return [Line2D([], [], **_BEFORE, linestyle="none", label="before"), *entries]
