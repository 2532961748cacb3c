"""Who proposes choices: the rows of a `Statement`, handed to CP-SAT."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol

from metronome_opt.compatible.choices import Choices
from metronome_opt.compatible.decide import Refutation
from metronome_opt.compatible.pairs import Pairs
from metronome_opt.compatible.statement import Statement
from metronome_opt.compatible.waiting import run_cpsat
from metronome_opt.instance import Instance
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.deadline import Deadline

Proposed = tuple[Mapping[str, int | None] | None, Fraction | None]
"""The cheapest choices that are allowed, and a lower bound of their cost.

There are no choices if none were found, and no bound if none are allowed.
"""


class Proposer(Protocol):
    """Proposes choices, and takes why they do not fit."""

    def forbid(self, refutation: Refutation) -> None:
        """State that some jobs do not fit at some periods, and others like these."""

    def solve(self, clock: Deadline, seed: int, workers: int) -> Proposed:
        """Return the cheapest choices that are allowed, and a lower bound of their cost."""


class Master:
    """Proposes what CP-SAT finds.

    Parameters
    ----------
    choices
        Of all jobs of the instance, no two of a job with the same period.

    Raises
    ------
    CostsTooFineError
        If costs do not fit 64-bit integers.
    """

    def __init__(self, instance: Instance, choices: Choices, pairs: Pairs, clock: Deadline) -> None:
        self._statement = Statement(instance, choices, pairs, clock)
        cp = import_cp_model()
        self._model = cp.CpModel()
        self._taken = [self._model.new_bool_var("") for _ in self._statement.taken]
        for numbers in self._statement.groups.values():
            self._model.add_exactly_one(self._taken[number] for number in numbers)
        total = cp.LinearExpr.weighted_sum(self._taken, self._statement.costs)
        self._model.minimize(total)
        self._stated = 0

    def forbid(self, refutation: Refutation) -> None:
        """State that some jobs do not fit at some periods, and others like these."""
        self._statement.forbid(refutation)

    def solve(self, clock: Deadline, seed: int, workers: int) -> Proposed:
        """Return the cheapest choices that are allowed, and a lower bound of their cost."""
        for row in self._statement.rows[self._stated :]:
            self._model.add(sum(factor * self._taken[n] for factor, n in row.terms) <= row.most)
        self._stated = len(self._statement.rows)
        solver, status = run_cpsat(self._model, clock, seed, workers)
        if status == "INFEASIBLE":
            return None, None
        bound = math.ceil(max(0.0, solver.best_objective_bound - 1e-6))
        if status == "UNKNOWN":
            return None, Fraction(bound, self._statement.scale)
        self._model.clear_hints()
        values = [bool(solver.value(variable)) for variable in self._taken]
        for variable, value in zip(self._taken, values, strict=True):
            self._model.add_hint(variable, value)
        chosen = (number for number, value in enumerate(values) if value)
        proposed = dict(self._statement.taken[number] for number in chosen)
        return proposed, Fraction(bound, self._statement.scale)
