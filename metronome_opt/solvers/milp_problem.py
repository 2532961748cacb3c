"""What every MILP of an instance has: a PuLP problem, and the way from its numbers to schedules."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from metronome_opt.errors import show
from metronome_opt.solvers.backends import import_pulp
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_LARGEST = 10**9


class MilpProblem(ABC):
    """A mixed integer linear program; its objective is an integer at every schedule.

    Parameters
    ----------
    scale, base
        ``contention = (objective + base) * scale``.
    cutoff
        If only schedules of a lesser contention, in the same units, are asked for: there may be
        none.
    largest
        The largest coefficient.

    Attributes
    ----------
    problem
        The PuLP problem.

    Raises
    ------
    ModelTooLargeError
        If a floating-point back end cannot tell its numbers apart.
    """

    def __init__(
        self, scale: Fraction, *, largest: int, base: int = 0, cutoff: int | None = None
    ) -> None:
        if largest > _LARGEST:
            raise ModelTooLargeError(
                f"solver milp: a coefficient of {show(largest)} is beyond what floating-point back "
                f"ends handle (at most {_LARGEST}); use cpsat, or rates, capacities and weights "
                "with a larger common divisor"
            )
        lp = import_pulp()
        self.scale = scale
        self.base = base
        self.cutoff = cutoff
        self.problem = lp.LpProblem("rotation", lp.LpMinimize)
        self._expression = lp.LpAffineExpression
        self._binary = lp.LpBinary

    def write(self, path: Path) -> None:
        """Write the problem in free MPS format."""
        self.problem.writeMPS(str(path))

    @abstractmethod
    def offsets(self, values: Mapping[str, float]) -> Sequence[int]:
        """Return the offsets that a solution by variable names means."""

    def bound(self, native: float) -> Fraction | None:
        """Return the contention that a floating-point dual bound of the objective proves.

        Back ends work to a tolerance, so a bound counts as an integer only if it comes within a
        millionth of it.
        """
        if not math.isfinite(native):
            return None
        units = max(0, math.ceil(native - 1e-6 * max(1.0, abs(native)))) + self.base
        return (units if self.cutoff is None else min(units, self.cutoff)) * self.scale

    def settle(self, search: Search, native: float | None, source: str) -> None:
        """Take the word of a back end that this is the optimum; None: that there is no schedule."""
        if native is not None:
            search.settle(native + self.base, self.scale, source)
        elif self.cutoff is not None:
            search.settle(self.cutoff, self.scale, source)

    def _binaries(self, names: Mapping[int, str]) -> dict[int, Any]:
        """Add a binary variable for each key, one of which is 1."""
        return {
            key: self.problem.add_variable(name, cat=self._binary) for key, name in names.items()
        }

    def _add(self, terms: Sequence[tuple[Any, int]], sense: str, right: int, name: str) -> None:
        """Add ``sum of coefficient * variable``, "=" or "<=", a number."""
        left = self._expression(list(terms))
        self.problem += (left == right if sense == "=" else left <= right), name
