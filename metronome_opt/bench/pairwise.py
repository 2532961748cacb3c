"""Who finds the better schedule: exact comparison of values at the same setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from metronome_opt.bench.cases import MeasuredCase, median_value
from metronome_opt.bench.sections import Section


@dataclass(frozen=True)
class Tally:
    """On how many problems one solver's value is better than, equal to, worse than another's.

    Problems without a schedule by either are in none of the three.
    """

    better: int
    equal: int
    worse: int


def tally(section: Section, solver: str, other: str) -> Tally | None:
    """Compare two solvers on the problems that both ran on; None if there are none.

    With several seeds the medians are compared, the worse of two middle values.
    """
    runs, others = section.runs[solver], section.runs[other]
    common = [problem for problem in section.problems if problem in runs and problem in others]
    if not common:
        return None
    signs = [
        _sign(median_value(runs[problem]), median_value(others[problem])) for problem in common
    ]
    return Tally(better=signs.count(-1), equal=signs.count(0), worse=signs.count(1))


def _sign(value: Fraction | None, other: Fraction | None) -> int | None:
    """Return -1 if the first is better, 1 if it is worse, None if there is neither."""
    if value is None or other is None:
        return None if value is other else (1 if value is None else -1)
    return (value > other) - (value < other)


@dataclass(frozen=True)
class Dominance:
    """How the claim fared that one solver is never worse than its rivals.

    Attributes
    ----------
    compared
        For each rival, the number of pairs of runs that were compared; 0 if it did not run.
    violations
        The pairs of runs in which the rival's value is better.
    """

    compared: dict[str, int]
    violations: tuple[tuple[MeasuredCase, MeasuredCase], ...]


def never_worse(section: Section, solver: str, rivals: Sequence[str]) -> Dominance:
    """Compare every run of `solver` with the rivals' runs on the same problem.

    Runs with the same seed are compared; a solver that ran once, with every run of the other.
    """
    compared = dict.fromkeys(rivals, 0)
    violations = []
    for rival in rivals:
        for case, other in _pairs(section, solver, rival):
            compared[rival] += 1
            if _sign(case.value, other.value) == 1:
                violations.append((case, other))
    return Dominance(compared, tuple(violations))


def _pairs(
    section: Section, solver: str, rival: str
) -> Iterator[tuple[MeasuredCase, MeasuredCase]]:
    runs, others = section.runs.get(solver, {}), section.runs.get(rival, {})
    for problem in section.problems:
        mine, theirs = runs.get(problem, ()), others.get(problem, ())
        once = len(mine) == 1 or len(theirs) == 1
        for case, other in product(mine, theirs):
            if once or case.record.seed == other.record.seed:
                yield case, other
