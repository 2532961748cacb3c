"""The textbook time-indexed model as a mixed integer linear program, stated in PuLP."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from metronome_opt.errors import InputError, show
from metronome_opt.kernels.tables import Compiled
from metronome_opt.solvers.backends import import_pulp
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import TimeIndexed

_LARGEST = 10**9


class MilpModel:
    """The PuLP problem of an instance; variables are named ``x_job_offset`` by index.

    Parameters
    ----------
    compiled
        The instance.
    search
        If given, building gives up when it is stopped; `complete` says whether it did not.
    """

    def __init__(self, compiled: Compiled, search: Search | None = None) -> None:
        lp = import_pulp()
        self.form = TimeIndexed(compiled)
        self._check_magnitude()
        self.problem = lp.LpProblem("rotation", lp.LpMinimize)
        self.complete = False
        variable = self.problem.add_variable
        bursting: list[list[list[Any]]] = []
        for index, job in enumerate(compiled.instance.jobs):
            if search is not None and search.stopped:
                return
            choice = {
                o: variable(f"x_{index}_{o}", cat=lp.LpBinary) for o in self.form.offsets(job)
            }
            one = lp.LpAffineExpression([(x, 1) for x in choice.values()])
            self.problem += one == 1, f"one_{index}"
            bursting.append([])
            for phase in range(len(job.phases)):
                slots = []
                for slot in range(job.period):
                    if search is not None and slot % 16 == 0 and search.stopped:
                        return
                    on = variable(f"z_{index}_{phase}_{slot}", 0, 1)
                    offsets = self.form.bursting(job, phase, slot)
                    terms = [(choice[o], 1) for o in offsets]
                    link = lp.LpAffineExpression([*terms, (on, -1)])
                    self.problem += link == 0, f"on_{index}_{phase}_{slot}"
                    slots.append(on)
                bursting[index].append(slots)
        objective = []
        for number, row in enumerate(self.form.rows()):
            if search is not None and number % 256 == 0 and search.stopped:
                return
            excess = variable(f"e_{row.name}", 0, row.largest)
            terms = [(bursting[job][phase][slot], rate) for rate, job, phase, slot in row.terms]
            demand = lp.LpAffineExpression([*terms, (excess, -1)])
            self.problem += demand <= row.capacity, f"over_{row.name}"
            objective.append((excess, row.cost))
        self.problem.setObjective(lp.LpAffineExpression(objective))
        self.complete = True

    def write(self, path: Path) -> None:
        """Write the problem in free MPS format."""
        self.problem.writeMPS(str(path))

    def _check_magnitude(self) -> None:
        """Refuse numbers that a floating-point back end cannot tell apart."""
        largest = self.form.largest_coefficient
        if largest > _LARGEST:
            raise InputError(
                f"solver milp: a coefficient of {show(largest)} is beyond what floating-point back "
                f"ends handle (at most {_LARGEST}); use cpsat, or rates, capacities and weights "
                "with a larger common divisor"
            )

    def offsets(self, values: Mapping[str, float]) -> list[int]:
        """Return the offsets that a solution by variable names means."""
        return [
            max(self.form.offsets(job), key=lambda o, j=index: values.get(f"x_{j}_{o}", 0.0))  # type: ignore[misc]
            for index, job in enumerate(self.form.instance.jobs)
        ]

    def bound(self, native: float) -> Fraction | None:
        """Return the contention that a floating-point dual bound of the objective proves.

        The objective is an integer at every schedule. Back ends work to a tolerance, so a bound
        counts as an integer only if it comes within a millionth of it.
        """
        if not math.isfinite(native):
            return None
        slack = 1e-6 * max(1.0, abs(native))
        return max(0, math.ceil(native - slack)) * self.form.scale


def run_highs(search: Search) -> None:
    """Solve with HiGHS."""
    from metronome_opt.solvers import milp_highs

    _run(search, milp_highs.solve)


def run_cbc(search: Search) -> None:
    """Solve with CBC."""
    from metronome_opt.solvers import milp_cbc

    _run(search, milp_cbc.solve)


def _run(search: Search, back_end: Callable[[Search, MilpModel], None]) -> None:
    search.offer([job.unshifted for job in search.instance.jobs], "unshifted")
    if search.stopped:
        return
    model = MilpModel(search.compiled, search)
    # Writing the model for the back end takes about as long as making it did.
    enough = search.remaining is None or search.remaining >= search.elapsed
    if model.complete and enough and not search.stopped:
        back_end(search, model)
    else:
        search.out_of_time()
    search.built()
