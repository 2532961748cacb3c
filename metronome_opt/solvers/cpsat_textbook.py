"""The textbook time-indexed model in OR-Tools CP-SAT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from metronome_opt.kernels.tables import Compiled
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.cpsat_backend import optimise
from metronome_opt.solvers.search import Search
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
        self.scale = self.form.scale
        self.cutoff = None
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

    def offsets(self, chosen: Callable[[int], bool]) -> Sequence[int]:
        """Return the offsets that a solution means."""
        return [
            next(offset for offset, x in choice.items() if chosen(x.index))
            for choice in self.choice
        ]


def run(search: Search) -> None:
    """Build the model and solve it within the time limit."""
    search.offer([job.unshifted for job in search.instance.jobs], "unshifted")
    if search.stopped:
        return
    model = CpsatModel(search.compiled, search)
    search.built()
    if model.complete and not search.stopped:
        optimise(search, model)
