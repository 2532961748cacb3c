"""The textbook time-indexed model in OR-Tools CP-SAT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import SolverError
from metronome_opt.kernels.tables import Compiled
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.search import Search, run_interruptibly
from metronome_opt.solvers.time_indexed import TimeIndexed

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class CpsatModel:
    """The model of an instance, with its offset variables.

    Parameters
    ----------
    compiled
        The instance.
    search
        If given, building gives up when it is stopped; `complete` says whether it did not.
    """

    def __init__(self, compiled: Compiled, search: Search | None = None) -> None:
        cp = import_cp_model()
        self.form = TimeIndexed(compiled)
        self.model = cp.CpModel()
        self.model.name = f"{compiled.instance.name}: contention = objective * {self.form.scale}"
        self.complete = False
        self.choice: list[dict[int, cp_model.IntVar]] = []
        bursting: list[list[list[cp_model.IntVar]]] = []
        for index, job in enumerate(compiled.instance.jobs):
            if search is not None and search.stopped:
                return
            choice = {o: self.model.new_bool_var(f"x_{index}_{o}") for o in self.form.offsets(job)}
            self.model.add_exactly_one(choice.values())
            self.choice.append(choice)
            bursting.append([])
            for phase in range(len(job.phases)):
                slots = []
                for slot in range(job.period):
                    if search is not None and slot % 16 == 0 and search.stopped:
                        return
                    on = self.model.new_bool_var(f"z_{index}_{phase}_{slot}")
                    offsets = self.form.bursting(job, phase, slot)
                    self.model.add(on == cp.LinearExpr.sum([choice[o] for o in offsets]))
                    slots.append(on)
                bursting[index].append(slots)
        expression = cp.LinearExpr.weighted_sum
        excesses, costs = [], []
        for number, row in enumerate(self.form.rows()):
            if search is not None and number % 256 == 0 and search.stopped:
                return
            excess = self.model.new_int_var(0, row.largest, f"e_{row.name}")
            on = [bursting[job][phase][slot] for _, job, phase, slot in row.terms]
            demand = expression(on, [rate for rate, *_ in row.terms])
            self.model.add(demand - excess <= row.capacity)
            excesses.append(excess)
            costs.append(row.cost)
        self.model.minimize(expression(excesses, costs))
        self.complete = True

    def hint(self, offsets: Sequence[int]) -> None:
        """Suggest a complete schedule to start from."""
        for choice, chosen in zip(self.choice, offsets, strict=True):
            for offset, variable in choice.items():
                self.model.add_hint(variable, offset == chosen)


def run(search: Search, start: Sequence[int] | None = None) -> None:
    """Build the model and solve it within the time limit.

    Parameters
    ----------
    start
        A complete schedule to start from; without one the search starts from nothing, and the
        unshifted schedule is what is left if it finds none.
    """
    search.offer([job.unshifted for job in search.instance.jobs], "unshifted")
    if search.stopped:
        return
    model = CpsatModel(search.compiled, search)
    search.built()
    if not model.complete or search.stopped:
        return
    if start is not None:
        model.hint(start)
    _solve(search, model)


def _solve(search: Search, model: CpsatModel) -> None:
    cp = import_cp_model()
    solver = cp.CpSolver()
    parameters = solver.parameters
    if search.remaining is not None:
        parameters.max_time_in_seconds = search.remaining
    parameters.num_workers = search.workers
    parameters.random_seed = search.seed % 2**31
    parameters.catch_sigint_signal = False

    class Watch(cp.CpSolverSolutionCallback):  # type: ignore[misc, name-defined]
        def on_solution_callback(self) -> None:
            search.offer(_offsets(model, self), "cpsat")

    def watch_bound(bound: float) -> None:
        search.raise_bound(_round_up(bound) * model.form.scale, "cpsat")

    solver.best_bound_callback = watch_bound
    status: list[Any] = []
    run_interruptibly(
        search, lambda: status.append(solver.solve(model.model, Watch())), solver.stop_search
    )
    ended = status[0]
    if ended == cp.OPTIMAL:
        value = search.offer(_offsets(model, solver), "cpsat")
        native = Fraction(solver.objective_value) * model.form.scale
        # The native value is a double, the check as exact as that allows.
        if abs(value - native) > max(model.form.scale / 2, value / 10**9):
            raise SolverError(f"CP-SAT states {solver.objective_value}, the offsets give {value}")
        search.raise_bound(value, "cpsat")
    elif ended in (cp.FEASIBLE, cp.UNKNOWN):
        search.out_of_time()
        if solver.best_objective_bound > -math.inf:
            watch_bound(solver.best_objective_bound)
    else:
        raise SolverError(f"CP-SAT ends with status {solver.status_name(ended)}, not understood")


def _offsets(model: CpsatModel, values: Any) -> list[int]:
    read = values.boolean_value
    return [next(o for o, x in choice.items() if read(x)) for choice in model.choice]


def _round_up(bound: float) -> Fraction:
    """Return the integer bound that a floating-point bound of an integral objective implies."""
    slack = 1e-6 + abs(bound) * 1e-12
    return Fraction(max(0, math.ceil(bound - slack)))
