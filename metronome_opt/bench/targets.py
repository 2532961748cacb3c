"""Time to target: how long a stochastic solver takes to come close to the best known value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.bench.cases import Problem
from metronome_opt.bench.sections import Section
from metronome_opt.bench.shown import count, exact, seconds
from metronome_opt.bench.statistics import time_to_target
from metronome_opt.bench.tables import Table

MIN_SEEDS = 10
ABOVE_BEST = Fraction(1, 100)


@dataclass(frozen=True)
class TargetRuns:
    """The runs of a solver on a problem, each with another seed.

    Attributes
    ----------
    target
        The value to reach, `ABOVE_BEST` above the best known one.
    times
        Seconds of each run to the target, infinity if it was not reached.
    """

    problem: Problem
    solver: str
    target: Fraction
    times: tuple[float, ...]

    def quantile(self, share: Fraction) -> float:
        """Return the seconds within which this share of the runs reached the target."""
        return sorted(self.times)[math.ceil(share * len(self.times)) - 1]

    @property
    def median(self) -> float:
        """The seconds within which half of the runs reached the target."""
        return self.quantile(Fraction(1, 2))


def target_runs(section: Section) -> tuple[TargetRuns, ...]:
    """Return the times to target of every solver and problem with at least `MIN_SEEDS` seeds."""
    found = []
    for problem in section.problems:
        for solver in section.solvers:
            cases = section.runs[solver].get(problem, ())
            if len(cases) < MIN_SEEDS or cases[0].best is None:
                continue
            target = cases[0].best * (1 + ABOVE_BEST)
            times = tuple(time_to_target(case.steps, target) for case in cases)
            found.append(TargetRuns(problem, solver, target, times))
    return tuple(found)


def too_few_seeds(section: Section) -> dict[str, int]:
    """Return the solvers with more than one seed but nowhere `MIN_SEEDS`, with their most seeds."""
    most = {
        solver: max(map(len, by_problem.values())) for solver, by_problem in section.runs.items()
    }
    return {solver: seeds for solver, seeds in most.items() if 1 < seeds < MIN_SEEDS}


def hardest(runs: Sequence[TargetRuns], most: int) -> list[Problem]:
    """Return the problems on which the slowest solver's median is longest, in their own order."""
    slowest: dict[Problem, float] = {}
    for run in runs:
        slowest[run.problem] = max(run.median, slowest.get(run.problem, 0.0))
    chosen = sorted(slowest, key=lambda problem: -slowest[problem])[:most]
    return [problem for problem in slowest if problem in chosen]


def targets_table(section: Section, runs: Sequence[TargetRuns]) -> Table:
    """Return how often and how fast the target was reached."""
    rows = tuple(
        (
            run.problem.instance,
            run.solver,
            exact(run.target),
            count(len(run.times)),
            count(sum(map(math.isfinite, run.times))),
            seconds(run.median),
            seconds(run.quantile(Fraction(9, 10))),
        )
        for run in runs
    )
    return Table(
        name=f"{section.slug}-targets",
        caption=f"{section.title}: seconds to a value at most "
        f"{100 * float(ABOVE_BEST):g} % above the best known one",
        headings=(
            "instance",
            "solver",
            "target",
            "runs",
            "reached",
            "half of the runs (s)",
            "9 of 10 runs (s)",
        ),
        rows=rows,
        words=2,
    )
