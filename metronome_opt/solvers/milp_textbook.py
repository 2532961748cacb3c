"""The textbook time-indexed model as a mixed integer linear program, stated in PuLP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metronome_opt.kernels.tables import Compiled
from metronome_opt.solvers.milp_problem import MilpProblem
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import TimeIndexed


class MilpModel(MilpProblem):
    """The PuLP problem of an instance; variables are named ``x_job_offset`` by index.

    Parameters
    ----------
    compiled
        The instance.
    search
        If given, building gives up when it is stopped; `complete` says whether it did not.
    """

    def __init__(self, compiled: Compiled, search: Search | None = None) -> None:
        self.form = TimeIndexed(compiled)
        super().__init__(self.form.scale, largest=self.form.largest_coefficient)
        self.complete = False
        variable = self.problem.add_variable
        bursting: list[list[list[Any]]] = []
        for index, job in enumerate(compiled.instance.jobs):
            if search is not None and search.stopped:
                return
            choice = self._binaries({o: f"x_{index}_{o}" for o in self.form.offsets(job)})
            self._add([(x, 1) for x in choice.values()], "=", 1, f"one_{index}")
            bursting.append([])
            for phase in range(len(job.phases)):
                slots = []
                for slot in range(job.period):
                    if search is not None and slot % 16 == 0 and search.stopped:
                        return
                    on = variable(f"z_{index}_{phase}_{slot}", 0, 1)
                    offsets = self.form.bursting(job, phase, slot)
                    terms = [(choice[o], 1) for o in offsets]
                    self._add([*terms, (on, -1)], "=", 0, f"on_{index}_{phase}_{slot}")
                    slots.append(on)
                bursting[index].append(slots)
        objective = []
        for number, row in enumerate(self.form.rows()):
            if search is not None and number % 256 == 0 and search.stopped:
                return
            excess = variable(f"e_{row.name}", 0, row.largest)
            terms = [(bursting[job][phase][slot], rate) for rate, job, phase, slot in row.terms]
            self._add([*terms, (excess, -1)], "<=", row.capacity, f"over_{row.name}")
            objective.append((excess, row.cost))
        self.problem.setObjective(self._expression(objective))
        self.complete = True

    def offsets(self, values: Mapping[str, float]) -> list[int]:
        """Return the offsets that a solution by variable names means."""
        return [
            max(self.form.offsets(job), key=lambda o, j=index: values.get(f"x_{j}_{o}", 0.0))  # type: ignore[misc]
            for index, job in enumerate(self.form.instance.jobs)
        ]


def run(search: Search) -> None:
    """Build the model and solve it with HiGHS."""
    from metronome_opt.solvers import milp_highs

    search.offer([job.unshifted for job in search.instance.jobs], "unshifted")
    if search.stopped:
        return
    model = MilpModel(search.compiled, search)
    # Writing the model for the back end takes about as long as making it did.
    enough = search.remaining is None or search.remaining >= search.elapsed
    if model.complete and enough and not search.stopped:
        milp_highs.solve(search, model)
    else:
        search.out_of_time()
    search.built()
