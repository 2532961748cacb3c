"""How the time to a proof grows with the number of jobs: a power law through a log-log plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metronome_opt.bench.cases import median_time
from metronome_opt.bench.sections import Section
from metronome_opt.bench.shown import MISSING, count
from metronome_opt.bench.tables import Table

FLOOR_S = 0.01


@dataclass(frozen=True)
class PowerLaw:
    """``time = factor * size ** exponent``, fitted by least squares of the logarithms.

    Attributes
    ----------
    low, high
        The 95 % interval of the exponent, for errors that are normal in the logarithm.
    """

    factor: float
    exponent: float
    low: float
    high: float

    def at(self, size: float) -> float:
        """Return the fitted time of a size."""
        return float(self.factor * size**self.exponent)


def fit_power_law(sizes: Sequence[int], times: Sequence[float]) -> PowerLaw | None:
    """Fit a power law; None for fewer than three points or fewer than two sizes.

    Parameters
    ----------
    sizes, times
        Positive, one pair for each instance.
    """
    if len(sizes) < 3 or len(set(sizes)) < 2:
        return None
    import numpy as np
    from scipy import stats

    line = stats.linregress(np.log(sizes), np.log(times))
    margin = float(stats.t.ppf(0.975, len(sizes) - 2) * line.stderr)
    exponent = float(line.slope)
    return PowerLaw(
        factor=float(np.exp(line.intercept)),
        exponent=exponent,
        low=exponent - margin,
        high=exponent + margin,
    )


@dataclass(frozen=True)
class Growth:
    """The times of one solver by number of jobs.

    Attributes
    ----------
    solved
        (jobs, seconds) of each instance that was solved in the median over the seeds.
    unsolved
        (jobs, time limit) of the others; they are no part of the fit.
    fit
        Through the solved ones, None if they are too few.
    """

    solver: str
    solved: tuple[tuple[int, float], ...]
    unsolved: tuple[tuple[int, float], ...]
    fit: PowerLaw | None


def growth(section: Section, jobs: Mapping[str, int]) -> tuple[Growth, ...]:
    """Return the growth of every solver that solved an instance.

    Parameters
    ----------
    jobs
        Number of jobs by checksum; instances that it does not name are left out.
    """
    found = []
    for solver in section.solvers:
        solved, unsolved = [], []
        for problem, cases in section.runs[solver].items():
            size, time = jobs.get(problem.sha256), median_time(cases)
            if size is None:
                continue
            if math.isfinite(time):
                solved.append((size, max(FLOOR_S, time)))
            else:
                unsolved.append((size, problem.setting.time_limit_s))
        if solved:
            fit = fit_power_law([size for size, _ in solved], [time for _, time in solved])
            found.append(Growth(solver, tuple(sorted(solved)), tuple(sorted(unsolved)), fit))
    return tuple(found)


def growth_table(section: Section, growths: Sequence[Growth]) -> Table:
    """Return the fitted exponents with their intervals, and what the fits rest on."""
    rows = []
    for each in growths:
        sizes = [size for size, _ in each.solved]
        fit = each.fit
        rows.append(
            (
                each.solver,
                count(len(each.solved)),
                count(len(each.unsolved)),
                f"{min(sizes):,} to {max(sizes):,}",
                MISSING if fit is None else f"{fit.exponent:.2f}",
                MISSING if fit is None else f"{fit.low:.2f} to {fit.high:.2f}",
            )
        )
    return Table(
        name=f"{section.slug}-growth",
        caption=f"{section.title}: growth of the time to a proof with the number of jobs",
        headings=("solver", "solved", "not solved", "jobs", "exponent", "95 % interval"),
        rows=tuple(rows),
    )
