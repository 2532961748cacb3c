"""Integer programs that forms of the rotation problem are stated in: CP-SAT's, and MILPs in PuLP.

A form chooses an offset for each job, ``x_job_offset``, by index, and states what follows from that
in rows. Which back end solves it is nothing that a form knows of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from metronome_opt.errors import SolverError, quote
from metronome_opt.solvers.imports import import_cp_model, import_pulp
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError

_LARGEST = 10**9
_Terms = Sequence[tuple[Any, int]]


class Form(Protocol):
    """Formulation that a program is made of; its objective is an integer at every schedule.

    Attributes
    ----------
    scale, base
        ``contention = (objective + base) * scale``.
    cutoff
        If only schedules of a lesser contention, in the same units, are asked for: there may be
        none.
    """

    scale: Fraction
    base: int
    cutoff: int | None

    def decode(self, chosen: Mapping[int, int]) -> Sequence[int]:
        """Return the schedule of the offsets by index of the jobs that have a choice."""


class Program:
    """An integer program in which a form is stated.

    `choices` has the variables of each job with a choice, by offset; `dropped` what is not stated.
    """

    dropped = ()

    binary: Callable[[str], Any]
    """Adds a variable that is 0 or 1."""
    flag: Callable[[str], Any]
    """Adds a variable that is 0 or 1 by its rows."""
    variable: Callable[[str, int, int], Any]
    """Adds a variable between two numbers."""
    add: Callable[[_Terms, str, int, str], None]
    """States a row, with ``=`` or ``<=``, and its name."""
    minimise: Callable[[_Terms], None]
    write: Callable[[Path], None]

    def __init__(self, form: Form) -> None:
        self.form = form
        self.choices: dict[int, dict[int, Any]] = {}

    def offsets(self, values: Mapping[str, float]) -> Sequence[int]:
        """Return the schedule that a solution by variable names means."""
        return self.form.decode(
            {
                job: max(choice, key=lambda o, j=job: values.get(f"x_{j}_{o}", 0.0))  # type: ignore[misc]
                for job, choice in self.choices.items()
            }
        )

    def choose(self, job: int, offsets: Sequence[int]) -> None:
        """Let a job have one of some offsets."""
        self.choices[job] = {o: self.binary(f"x_{job}_{o}") for o in offsets}
        self.one_of([*self.choices[job].values()], f"one_{job}")

    def one_of(self, variables: Sequence[Any], name: str) -> None:
        """State that one of some variables is 1."""
        self.add([(variable, 1) for variable in variables], "=", 1, name)

    def any_of(self, variables: Sequence[Any], name: str, row: str) -> Any:
        """Add a variable that is 1 if one of some others is."""
        on = self.flag(name)
        self.add([*((variable, 1) for variable in variables), (on, -1)], "=", 0, row)
        return on


class CpsatProgram(Program):
    """A program in OR-Tools CP-SAT; it is in `model`."""

    def __init__(self, form: Form) -> None:
        super().__init__(form)
        cp = import_cp_model()
        self.model = cp.CpModel()
        self._weighted_sum = cp.LinearExpr.weighted_sum

    def binary(self, name: str) -> Any:
        """Add a variable that is 0 or 1."""
        return self.model.new_bool_var(name)

    flag = binary

    def variable(self, name: str, low: int, high: int) -> Any:
        """Add a variable between two numbers."""
        return self.model.new_int_var(low, high, name)

    def one_of(self, variables: Sequence[Any], name: str) -> None:  # noqa: ARG002
        """State that one of some variables is 1."""
        self.model.add_exactly_one(variables)

    def add(self, terms: _Terms, sense: str, right: int, name: str) -> None:  # noqa: ARG002
        """State a row."""
        left = self._sum(terms)
        self.model.add(left == right if sense == "=" else left <= right)

    def minimise(self, terms: _Terms) -> None:
        """State the objective."""
        self.model.minimize(self._sum(terms))

    def write(self, path: Path) -> None:
        """Write it to a file."""
        if not self.model.export_to_file(str(path)):
            raise SolverError(f"CP-SAT could not write its model to {path.name}")

    def _sum(self, terms: _Terms) -> Any:
        return self._weighted_sum([x for x, _ in terms], [factor for _, factor in terms])


class MilpProgram(Program):
    """A mixed integer linear program in PuLP; what follows from binary variables is continuous.

    Raises
    ------
    TooLargeError
        When numbers are stated that a floating-point back end cannot distinguish.
    """

    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self._lp = import_pulp()
        self._problem = self._lp.LpProblem("rotation", self._lp.LpMinimize)

    def binary(self, name: str) -> Any:
        """Add a variable that is 0 or 1."""
        return self._problem.add_variable(name, cat=self._lp.LpBinary)

    def flag(self, name: str) -> Any:
        """Add a variable between 0 and 1."""
        return self._problem.add_variable(name, 0, 1)

    def variable(self, name: str, low: int, high: int) -> Any:
        """Add a variable between two numbers."""
        _check_size(high)
        return self._problem.add_variable(name, low, high)

    def add(self, terms: _Terms, sense: str, right: int, name: str) -> None:
        """State a row."""
        _check_size(right)
        left = self._sum(terms)
        self._problem += (left == right if sense == "=" else left <= right), name

    def minimise(self, terms: _Terms) -> None:
        """State the objective."""
        self._problem.setObjective(self._sum(terms))

    def write(self, path: Path) -> None:
        """Write it to a file."""
        write = self._problem.writeLP if path.suffix == ".lp" else self._problem.writeMPS
        write(str(path))

    def _sum(self, terms: _Terms) -> Any:
        _check_size(*(factor for _, factor in terms))
        return self._lp.lpSum(factor * variable for variable, factor in terms)


def _check_size(*numbers: int) -> None:
    largest = max(map(abs, numbers), default=0)
    if largest > _LARGEST:
        raise TooLargeError(
            f"solver milp: a coefficient of {quote(largest)} is beyond what floating-point back "
            f"ends handle (at most {_LARGEST}); use cpsat, or rates, capacities and weights "
            "with a larger common divisor"
        )
