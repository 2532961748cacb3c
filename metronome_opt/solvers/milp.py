"""The strong model as a mixed integer linear program, stated in PuLP, for HiGHS or CBC."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metronome_opt.solvers.backends import import_pulp
from metronome_opt.solvers.milp_problem import MilpProblem
from metronome_opt.solvers.network import Eliminated, decide
from metronome_opt.solvers.parts import prepare, solve_in_parts
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.strong import CellLink, SlotLink, StrongForm


class StrongMilp(MilpProblem):
    """The PuLP problem of the strong form; variables are named ``x_job_offset`` by index.

    The objective counts from the floor of the network, which keeps its numbers small.

    Parameters
    ----------
    form
        Complete.
    gone
        The jobs that were eliminated.
    """

    def __init__(self, form: StrongForm, gone: Sequence[Eliminated]) -> None:
        network = form.network
        super().__init__(
            network.scale, largest=_largest(form), base=network.floor, cutoff=network.limit + 1
        )
        self._form = form
        self._gone = gone
        self._choice: dict[int, dict[int, Any]] = {}
        for job, offsets in form.free:
            self._choice[job] = self._binaries({o: f"x_{job}_{o}" for o in offsets})
            self._add([(x, 1) for x in self._choice[job].values()], "=", 1, f"one_{job}")
        self._on = [
            self._on_variable(number, on.job, on.offsets) for number, on in enumerate(form.on)
        ]
        costs = []
        for number, part in enumerate(form.parts):
            cost = self.problem.add_variable(f"cost_{number}", 0, network.slack)
            if isinstance(part, CellLink):
                self._add_cells(cost, part, number)
            else:
                self._add_slots(cost, part, number)
            costs.append((cost, 1))
        self._add(costs, "<=", network.slack, "better")
        self.problem.setObjective(self._expression(costs))

    def offsets(self, values: Mapping[str, float]) -> Sequence[int]:
        """Return the offsets that a solution by variable names means."""
        found = {
            job: max(choice, key=lambda o, j=job: values.get(f"x_{j}_{o}", 0.0))  # type: ignore[misc]
            for job, choice in self._choice.items()
        }
        return decide(self._gone, self._form.offsets(found))

    def _on_variable(self, number: int, job: int, offsets: frozenset[int]) -> Any:
        terms = [(self._choice[job][offset], 1) for offset in sorted(offsets)]
        if len(terms) == 1:
            return terms[0][0]
        on = self.problem.add_variable(f"z_{number}", 0, 1)
        self._add([*terms, (on, -1)], "=", 0, f"on_{number}")
        return on

    def _add_cells(self, cost: Any, part: CellLink, number: int) -> None:
        """State a cost cell by cell; the choice of offsets makes that of the cell."""
        cells = [
            self.problem.add_variable(f"t_{number}_{place}", 0, 1)
            for place in range(len(part.cells))
        ]
        self._add([(cell, 1) for cell in cells], "=", 1, f"cell_{number}")
        for axis, job in enumerate(part.scope):
            users = defaultdict(list)
            for variable, cell in zip(cells, part.cells, strict=True):
                users[cell.offsets[axis]].append((variable, 1))
            for offset, chosen in self._choice.get(job, {}).items():
                name = f"cells_{number}_{job}_{offset}"
                self._add([*users[offset], (chosen, -1)], "=", 0, name)
        excess = [
            (variable, cell.excess)
            for variable, cell in zip(cells, part.cells, strict=True)
            if cell.excess
        ]
        self._add([*excess, (cost, -1)], "=", 0, f"cost_of_{number}")

    def _add_slots(self, cost: Any, part: SlotLink, number: int) -> None:
        total = []
        for place, row in enumerate(part.rows):
            excess = self.problem.add_variable(f"e_{number}_{place}", row.least, row.largest)
            terms = [(self._on[index], rate) for rate, index in row.terms]
            self._add([*terms, (excess, -1)], "<=", row.room, f"over_{number}_{place}")
            total.append((excess, row.cost))
        self._add([*total, (cost, -1)], "<=", part.low, f"cost_of_{number}")
        for job, pairs in part.marginals:
            if job in self._choice:
                least = [(self._choice[job][offset], excess) for offset, excess in pairs if excess]
                self._add([*least, (cost, -1)], "<=", 0, f"least_{number}_{job}")


def _largest(form: StrongForm) -> int:
    """Return the largest coefficient of the problem."""
    largest = form.network.slack
    for part in form.parts:
        if isinstance(part, SlotLink):
            largest = max(
                [largest, part.low]
                + [max(row.cost, abs(row.room), *(r for r, _ in row.terms), 0) for row in part.rows]
            )
    return largest


def run_highs(search: Search) -> None:
    """Solve with HiGHS."""
    from metronome_opt.solvers import milp_highs

    _run(search, milp_highs.solve)


def run_cbc(search: Search) -> None:
    """Solve with CBC."""
    from metronome_opt.solvers import milp_cbc

    _run(search, milp_cbc.solve)


def _run(search: Search, back_end: Callable[[Search, MilpProblem], None]) -> None:
    import_pulp()  # say now if it is missing, not when the first block is hard

    def prove(part: Search) -> None:
        network, gone = prepare(part)
        if not part.stopped:
            form = StrongForm(network, part)
            if form.complete:
                model = StrongMilp(form, gone)
                search.built()
                back_end(part, model)

    solve_in_parts(search, prove)
    search.built()  # if there was nothing left to model
