"""Integer programs that forms of the rotation problem are stated in: CP-SAT's, and MILPs in PuLP.

A form chooses an offset for each job, ``x_job_offset``, by index, and states what follows from that
in rows. Which back end solves it is nothing that a form knows of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from metronome_opt.errors import SolverError, show
from metronome_opt.solvers.backends import import_cp_model, import_pulp
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_LARGEST = 10**9
Terms = Sequence[tuple[Any, int]]
Decode = Callable[[Mapping[int, int]], Sequence[int]]


class _Program:
    """An integer program; its objective is an integer at every schedule.

    Parameters
    ----------
    decode
        Makes a schedule of the offsets by index of the jobs that have a choice.
    scale, base
        ``contention = (objective + base) * scale``.
    cutoff
        If only schedules of a lesser contention, in the same units, are asked for: there may be
        none.
    """

    def __init__(
        self, decode: Decode, scale: Fraction, base: int = 0, cutoff: int | None = None
    ) -> None:
        self.scale = scale
        self.base = base
        self.cutoff = cutoff
        self.choices: dict[int, dict[int, Any]] = {}
        self._decode = decode

    def offsets(self, values: Mapping[str, float]) -> Sequence[int]:
        """Return the schedule that a solution by variable names means."""
        return self._decode(
            {
                job: max(choice, key=lambda o, j=job: values.get(f"x_{j}_{o}", 0.0))  # type: ignore[misc]
                for job, choice in self.choices.items()
            }
        )


class CpsatProgram(_Program):
    """A program in OR-Tools CP-SAT.

    Attributes
    ----------
    model
        In CP-SAT.
    """

    def __init__(
        self,
        decode: Decode,
        scale: Fraction,
        base: int = 0,
        cutoff: int | None = None,
        *,
        title: str = "",
        hints: Sequence[int] | None = None,
    ) -> None:
        super().__init__(decode, scale, base, cutoff)
        cp = import_cp_model()
        self.model = cp.CpModel()
        if title:
            self.model.name = f"{title}: contention = objective * {scale}"
        self._hints = hints
        self._linear = cp.LinearExpr
        self._callback = cp.CpSolverSolutionCallback

    def choose(self, job: int, offsets: Sequence[int]) -> None:
        """Let a job have one of some offsets, with the hint as a start."""
        self.choices[job] = {o: self.binary(f"x_{job}_{o}") for o in offsets}
        self.one_of([*self.choices[job].values()])
        if self._hints is not None:
            for offset, variable in self.choices[job].items():
                self.model.add_hint(variable, offset == self._hints[job])

    def binary(self, name: str) -> Any:
        """Add a variable that is 0 or 1."""
        return self.model.new_bool_var(name)

    def flag(self, name: str) -> Any:
        """Add a variable that is 0 or 1 by its rows."""
        return self.binary(name)

    def variable(self, name: str, low: int, high: int) -> Any:
        """Add a variable between two numbers."""
        return self.model.new_int_var(low, high, name)

    def one_of(self, variables: Sequence[Any], name: str = "") -> None:  # noqa: ARG002
        """State that one of some variables is 1."""
        self.model.add_exactly_one(variables)

    def any_of(self, variables: Sequence[Any], name: str, row: str) -> Any:  # noqa: ARG002
        """Add a variable that is 1 if one of some others is."""
        on = self.model.new_bool_var(name)
        self.model.add(on == self._linear.sum(variables))
        return on

    def add(self, terms: Terms, sense: str, right: int, name: str) -> None:  # noqa: ARG002
        """State a row."""
        left = self._sum(terms)
        self.model.add(left == right if sense == "=" else left <= right)

    def minimise(self, terms: Terms) -> None:
        """State the objective."""
        self.model.minimize(self._sum(terms))

    def write(self, path: Path) -> None:
        """Write it to a file."""
        if not self.model.export_to_file(str(path)):
            raise SolverError(f"CP-SAT could not write its model to {path.name}")

    def values(self, solution: Sequence[int]) -> dict[str, float]:
        """Return the values of the choices by name."""
        return {
            f"x_{job}_{offset}": solution[x.index]
            for job, choice in self.choices.items()
            for offset, x in choice.items()
        }

    def watch(self, told: Callable[[Mapping[str, float]], None]) -> Any:
        """Return a callback for CP-SAT that passes on what it finds."""
        values = self.values

        class Watch(self._callback):  # type: ignore[misc, name-defined]
            def on_solution_callback(self) -> None:
                told(values(self.response_proto.solution))

        return Watch()

    def _sum(self, terms: Terms) -> Any:
        return self._linear.weighted_sum([x for x, _ in terms], [factor for _, factor in terms])


class MilpProgram(_Program):
    """A mixed integer linear program in PuLP; what follows from binary variables is continuous.

    Attributes
    ----------
    problem
        In PuLP.

    Raises
    ------
    ModelTooLargeError
        When numbers are stated that a floating-point back end cannot tell apart.
    """

    def __init__(
        self, decode: Decode, scale: Fraction, base: int = 0, cutoff: int | None = None
    ) -> None:
        super().__init__(decode, scale, base, cutoff)
        self._lp = import_pulp()
        self.problem = self._lp.LpProblem("rotation", self._lp.LpMinimize)

    def choose(self, job: int, offsets: Sequence[int]) -> None:
        """Let a job have one of some offsets; the variables are in `choices` then."""
        self.choices[job] = {o: self.binary(f"x_{job}_{o}") for o in offsets}
        self.one_of([*self.choices[job].values()], f"one_{job}")

    def binary(self, name: str) -> Any:
        """Add a variable that is 0 or 1."""
        return self.problem.add_variable(name, cat=self._lp.LpBinary)

    def flag(self, name: str) -> Any:
        """Add a variable that is 0 or 1 by its rows."""
        return self.problem.add_variable(name, 0, 1)

    def variable(self, name: str, low: int, high: int) -> Any:
        """Add a variable between two numbers."""
        _check_size(high)
        return self.problem.add_variable(name, low, high)

    def one_of(self, variables: Sequence[Any], name: str) -> None:
        """State that one of some variables is 1."""
        self.add([(each, 1) for each in variables], "=", 1, name)

    def any_of(self, variables: Sequence[Any], name: str, row: str) -> Any:
        """Add a variable that is 1 if one of some others is."""
        on = self.flag(name)
        self.add([*((each, 1) for each in variables), (on, -1)], "=", 0, row)
        return on

    def add(self, terms: Terms, sense: str, right: int, name: str) -> None:
        """State a row."""
        _check_size(right, *(factor for _, factor in terms))
        left = self._lp.LpAffineExpression(list(terms))
        self.problem += (left == right if sense == "=" else left <= right), name

    def minimise(self, terms: Terms) -> None:
        """State the objective."""
        _check_size(*(factor for _, factor in terms))
        self.problem.setObjective(self._lp.LpAffineExpression(list(terms)))

    def write(self, path: Path) -> None:
        """Write it to a file."""
        write = self.problem.writeLP if path.suffix == ".lp" else self.problem.writeMPS
        write(str(path))


Program = CpsatProgram | MilpProgram


def _check_size(*numbers: int) -> None:
    largest = max(map(abs, numbers), default=0)
    if largest > _LARGEST:
        raise ModelTooLargeError(
            f"solver milp: a coefficient of {show(largest)} is beyond what floating-point back "
            f"ends handle (at most {_LARGEST}); use cpsat, or rates, capacities and weights "
            "with a larger common divisor"
        )
