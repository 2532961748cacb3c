"""Figures of reports: functions that draw into axes and return them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from metronome_opt.bench.cases import FLOOR_S, Section
from metronome_opt.bench.statistics import primal_gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Curve = tuple[NDArray[np.float64], NDArray[np.float64]]

_MOMENTS = 100
_SIZE = (8.0, 4.0)
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (9, 2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)))


def solver_styles(solvers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return line properties of solvers or policies by name; they depend on the position."""
    return {
        solver: {"color": f"C{position % 10}", "linestyle": _DASHES[position % len(_DASHES)]}
        for position, solver in enumerate(solvers)
    }


def proving_solvers(section: Section) -> tuple[str, ...]:
    """Return the solvers that ran on all instances and solved at least one."""
    times = section.proof_times
    return tuple(
        solver
        for solver in section.solvers
        if times[solver].notna().all() and np.isfinite(times[solver]).any()
    )


def performance_profile(times: pd.DataFrame, floor: float = 0.0) -> dict[str, Curve]:
    """Return for each solver the share of problems that it solves within a ratio of the best time.

    Times are seconds, a column for each solver and a row for each problem, infinite for a failure;
    problems that no solver solves count. Those below the floor count as the floor, since their
    ratios would be noise. A curve has ratios, ascending, and the shares from there on.

    References
    ----------
    E. D. Dolan, J. J. More, "Benchmarking optimization software with performance profiles",
    Mathematical Programming 91, 2002.
    """
    floored = times.clip(lower=floor)
    ratios = floored.div(floored.min(axis=1), axis=0).where(np.isfinite(times), math.inf)
    return {str(solver): distribution(column) for solver, column in ratios.items()}


def distribution(values: Iterable[float]) -> Curve:
    """Return the empirical distribution of values, infinite ones in the denominator only."""
    ordered = np.sort(np.asarray(list(values), dtype=np.float64))
    shares = np.arange(1, len(ordered) + 1) / len(ordered)
    reached = np.isfinite(ordered)
    return ordered[reached], shares[reached]


def _gaps_over_time(section: Section, solver: str, moments: Iterable[float]) -> list[float]:
    """Return the mean primal gap of the incumbents that a solver has at some moments."""
    runs = section.frame[section.frame["solver"] == solver]
    curves = []
    for steps, best in zip(runs["steps"], runs["best_value"], strict=True):
        values = [None, *(value for _, value in steps)]
        gaps = [float(primal_gap(value, best)) for value in values]
        at = np.searchsorted([elapsed for elapsed, _ in steps], list(moments), side="right")
        curves.append([gaps[index] for index in at])
    means: list[float] = np.mean(curves, axis=0).tolist()
    return means


# ------------------------------------------------------------------ of solvers


def plot_profile(section: Section, ax: Axes | None = None) -> Axes:
    """Draw the Dolan-More performance profile of the times to a proof."""
    solvers = list(proving_solvers(section))
    curves = performance_profile(section.proof_times[solvers], FLOOR_S)
    # Where all are as fast, there is still an axis.
    right = 1.1 * max(2.0, *(ratios.max() for ratios, _ in curves.values()))
    lines = {
        solver: ([1.0, *ratios, right], [0.0, *shares, shares[-1]])
        for solver, (ratios, shares) in curves.items()
    }
    ax = _draw(section, lines, f"Performance profile, {section.title}", ax)
    ax.set(xlim=(1.0, right))
    ax.set(xlabel="ratio to the fastest solver's time", ylabel="share of instances solved")
    return ax


def plot_gaps(section: Section, ax: Axes | None = None) -> Axes:
    """Draw the mean primal gap over time."""
    limit = max(2 * FLOOR_S, section.frame["time_limit_s"].max())
    moments = list(np.geomspace(FLOOR_S, limit, _MOMENTS))
    lines = {
        solver: (moments, _gaps_over_time(section, solver, moments)) for solver in section.solvers
    }
    ax = _draw(section, lines, f"Primal gap over time, {section.title}", ax)
    ax.set(xlabel="seconds", ylabel="mean primal gap")
    return ax


def _draw(
    section: Section,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str,
    ax: Axes | None,
) -> Axes:
    """Draw a step function for each solver on a logarithmic axis, new axes if there are none."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=_SIZE, layout="constrained").add_subplot()
    styles = solver_styles(section.solvers)
    for solver, (xs, ys) in lines.items():
        ax.plot(xs, ys, drawstyle="steps-post", label=solver, **styles[solver])
    ax.set_title(title, parse_math=False)
    ax.set(xscale="log", ylim=(-0.02, 1.02))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax
