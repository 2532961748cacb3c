"""The figures of a report. Solvers differ in colour, dashes and markers, for prints in grey too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from metronome_opt.bench.cases import (
    ABOVE_BEST,
    FLOOR_S,
    Growth,
    Problem,
    Section,
    TargetRuns,
)
from metronome_opt.errors import counted
from metronome_opt.plot import style
from metronome_opt.plot.picture import WIDTH, Picture, add_legend, dress, single

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from numpy.typing import NDArray

    Curve = tuple[NDArray[np.float64], NDArray[np.float64]]

MOST_PANELS = 9
_PANELS_IN_A_ROW = 3

# Positions in `style.look`: dark colours first, yellow, which a thin line cannot carry, last.
_COLOURS = (4, 6, 2, 0, 5, 1, 7, 3)
_DASHES: tuple[Any, ...] = (
    *("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5))),
    *((0, (9, 2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (2, 1))),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")


Strokes = Mapping[str, dict[str, Any]]


def strokes(solvers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the properties of the line of each solver, the same in all figures of a report.

    616 of them are all different.
    """
    return {
        solver: {
            "color": style.job_style(_COLOURS[position % len(_COLOURS)])["facecolor"],
            "linestyle": _DASHES[position % len(_DASHES)],
            "linewidth": 1.4,
            "marker": _MARKERS[position % len(_MARKERS)],
            "markersize": 4.5,
            "markerfacecolor": "white",
            "markeredgewidth": 1.1,
        }
        for position, solver in enumerate(solvers)
    }


def proving_solvers(section: Section) -> tuple[str, ...]:
    """Return the solvers that ran on all instances and solved one: those of the time figures."""
    times = section.proof_times
    return tuple(
        solver
        for solver in section.solvers
        if times[solver].notna().all() and np.isfinite(times[solver]).any()
    )


def performance_profile(times: pd.DataFrame, floor: float = 0.0) -> dict[str, Curve]:
    """Return for each solver the share of problems that it solves within a ratio of the best time.

    Parameters
    ----------
    times
        Seconds, a column for each solver and a row for each problem, infinite for a failure;
        problems that nobody solves count as well.
    floor
        Times below this many seconds count as this many, since their ratios would be noise.

    Returns
    -------
    dict
        Ratios, ascending, and the shares from there on; below the first it is 0.

    References
    ----------
    E. D. Dolan, J. J. More, "Benchmarking optimization software with performance profiles",
    Mathematical Programming 91, 2002.
    """
    floored = times.clip(lower=floor)
    ratios = floored.div(floored.min(axis=1), axis=0).where(np.isfinite(times), math.inf)
    return {str(solver): distribution(column) for solver, column in ratios.items()}


def distribution(values: Iterable[float], middle: float = 0.0) -> Curve:
    """Return the empirical distribution of values, infinite ones in the denominator only.

    Parameters
    ----------
    middle
        What is taken off each rank: 1/2 in plots of the time to target (R. M. Aiex, M. G. C.
        Resende, C. C. Ribeiro, "TTT plots: a perl program to create time-to-target plots",
        Optimization Letters 1, 2007).
    """
    ordered = np.sort(np.asarray(list(values), dtype=np.float64))
    shares = (np.arange(1, len(ordered) + 1) - middle) / len(ordered)
    reached = np.isfinite(ordered)
    return ordered[reached], shares[reached]


def plot_profile(section: Section, looks: Strokes) -> Picture:
    """Draw the Dolan-More performance profile of the times to a proof."""
    solvers = list(proving_solvers(section))
    curves = performance_profile(section.proof_times[solvers], FLOOR_S)
    # Where all are as fast, there is still an axis.
    right = 1.1 * max(2.0, *(ratios.max() for ratios, _ in curves.values()))
    figure, axes = single(f"Performance profile, {section.title}")
    # From below the first step, so that a solver that never wins is seen to begin at 0.
    _steps(axes, curves, (1.0, 1.0, right), looks)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("ratio to the fastest solver's time", fontsize=style.TEXT)
    axes.set_ylabel(f"share of {_instances(section)} solved", fontsize=style.TEXT)
    return _finished(figure, solvers, looks)


def plot_cactus(section: Section, looks: Strokes) -> Picture:
    """Draw how many instances are solved within a time."""
    from matplotlib.ticker import MaxNLocator

    solvers = list(proving_solvers(section))
    times = section.proof_times[solvers].clip(lower=FLOOR_S)
    longest = max(2 * FLOOR_S, *(each.setting.time_limit_s for each in section.problems))
    figure, axes = single(f"Instances solved over time, {section.title}")
    found = {solver: distribution(times[solver]) for solver in solvers}
    curves = {solver: (seconds, shares * len(times)) for solver, (seconds, shares) in found.items()}
    shortest = 0.8 * min(longest, float(times.to_numpy().min()))
    _steps(axes, curves, (FLOOR_S, shortest, longest), looks)
    axes.set_ylim(0, 1.03 * len(section.problems))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("seconds given to each instance", fontsize=style.TEXT)
    axes.set_ylabel(f"solved of {_instances(section)}", fontsize=style.TEXT)
    return _finished(figure, solvers, looks)


def plot_targets(section: Section, runs: Sequence[TargetRuns], looks: Strokes) -> Picture:
    """Draw the distributions of the time to target, a panel for each of the slowest instances."""
    slowest: dict[Problem, float] = {}
    for run in runs:
        slowest[run.problem] = max(run.within(5), slowest.get(run.problem, 0.0))
    hardest = sorted(slowest, key=lambda problem: -slowest[problem])[:MOST_PANELS]
    problems = [problem for problem in slowest if problem in hardest]
    columns = min(_PANELS_IN_A_ROW, len(problems))
    rows = math.ceil(len(problems) / columns)
    figure = Picture(max(WIDTH, 2.9 * columns), 2.3 * rows + 1.0)
    figure.suptitle(
        f"Time to within {100 * float(ABOVE_BEST):g} % of the best known value, {section.title}",
        fontsize=style.TITLE,
    )
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, problem in zip(grid.flat, problems, strict=False):
        for run in runs:
            if run.problem == problem:
                curve = distribution((max(FLOOR_S, time) for time in run.times), middle=0.5)
                axes.plot(*curve, **looks[run.solver], gid=run.solver)
        axes.set_title(style.shorten(problem.instance), fontsize=style.SMALL, parse_math=False)
        dress(axes)
    for axes in grid.flat[len(problems) :]:
        axes.set_visible(False)
    grid[0, 0].set_ylim(0, 1.02)
    _logarithmic(grid[0, 0].xaxis)
    for axes in grid.flat[max(0, len(problems) - columns) : len(problems)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("seconds", fontsize=style.TEXT)
    figure.supylabel("share of runs that reached it", fontsize=style.TEXT)
    return _finished(figure, tuple(dict.fromkeys(run.solver for run in runs)), looks)


def plot_growth(section: Section, growths: Sequence[Growth], looks: Strokes) -> Picture:
    """Draw time against number of jobs, both logarithmic, with the fitted power laws."""
    figure, axes = single(f"Time to a proof by number of jobs, {section.title}")
    for each in growths:
        look = looks[each.solver]
        dots = look | {"linestyle": "", "gid": each.solver}
        for points, face in ((each.solved, look["color"]), (each.unsolved, "none")):
            axes.plot(*np.reshape(points, (-1, 2)).T, **dots | {"markerfacecolor": face})
        if each.fit is not None:
            ends = [each.solved[0][0], each.solved[-1][0]]
            axes.plot(ends, [each.fit.at(size) for size in ends], **look | {"marker": ""})
    _logarithmic(axes.xaxis)
    _logarithmic(axes.yaxis)
    axes.set_xlabel("jobs", fontsize=style.TEXT)
    axes.set_ylabel("seconds (hollow: not solved at the limit)", fontsize=style.TEXT)
    exponents = {
        each.solver: "" if each.fit is None else f", exponent {each.fit.exponent:.2f}"
        for each in growths
    }
    return _finished(figure, tuple(exponents), looks, exponents)


# ------------------------------------------------------------------ parts


def _steps(
    axes: Axes, curves: Mapping[str, Curve], ends: tuple[float, float, float], looks: Strokes
) -> None:
    """Draw steps from 0 at the first end to the last level at the last; the second is the limit."""
    left, low, right = ends
    for solver, (values, levels) in curves.items():
        # Some ten markers are enough to tell the lines; the first and the last point are no data.
        axes.plot(
            [left, *values, right],
            [0.0, *levels, levels[-1]],
            drawstyle="steps-post",
            markevery=slice(1, len(values) + 1, max(1, len(values) // 10)),
            **looks[solver],
            gid=solver,
        )
    axes.set_xlim(low, right)
    _logarithmic(axes.xaxis)


def _logarithmic(axis: XAxis | YAxis) -> None:
    """Make an axis, with its data or limits, logarithmic, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())


def _instances(section: Section) -> str:
    return counted(len(section.problems), "instance")


def _finished(
    figure: Picture, solvers: Sequence[str], looks: Strokes, more: Mapping[str, str] | None = None
) -> Picture:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], **looks[solver], label=solver + (more or {}).get(solver, ""))
        for solver in solvers
    ]
    add_legend(figure, entries, float(figure.get_size_inches()[0]))
    figure.settle()
    return figure
