"""The strong model in OR-Tools CP-SAT.

Block by block: links' optima, tables and elimination cut the offsets down (see `network`), then
CP-SAT looks for a schedule that is better than the incumbent or proves that there is none. Of
its workers, `max_lp` proved what was proved at all on blocks of a dozen jobs, and `lb_tree_search`
had the best bounds on others. Integer offsets with order literals in place of one Boolean per
offset, and the differences of two jobs' offsets as variables, were tried and gave no better bounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.cpsat_backend import optimise
from metronome_opt.solvers.network import Eliminated, decide, turned
from metronome_opt.solvers.parts import prepare, solve_in_parts
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.strong import CellLink, SlotLink, StrongForm

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_WORKERS = ("max_lp", "lb_tree_search", "core", "pseudo_costs")
_SMALL = 2000  # variables of a model that is not worth a process of its own


class StrongModel:
    """The CP-SAT model of the strong form.

    Parameters
    ----------
    form
        Complete.
    gone
        The jobs that were eliminated.
    incumbent
        A schedule to start from, see `turned`.
    """

    def __init__(
        self, form: StrongForm, gone: Sequence[Eliminated], incumbent: Sequence[int]
    ) -> None:
        cp = import_cp_model()
        self._form = form
        self._gone = gone
        self._sum = cp.LinearExpr.weighted_sum
        self.scale = form.network.scale
        self.cutoff = form.network.limit + 1
        self.model: cp_model.CpModel = cp.CpModel()
        self._choice: dict[int, dict[int, cp_model.IntVar]] = {}
        for job, offsets in form.free:
            choice = {o: self.model.new_bool_var(f"x_{job}_{o}") for o in offsets}
            self.model.add_exactly_one(choice.values())
            for offset, variable in choice.items():
                self.model.add_hint(variable, offset == incumbent[job])
            self._choice[job] = choice
        self._on = [self._on_variable(on.job, on.offsets) for on in form.on]
        slack = form.network.slack
        costs: list[Any] = []
        for number, part in enumerate(form.parts):
            cost = self.model.new_int_var(part.low, part.low + slack, f"cost_{number}")
            if isinstance(part, CellLink):
                self._add_cells(cost, part)
            else:
                self._add_slots(cost, part)
            costs.append(cost)
        total = cp.LinearExpr.sum(costs)
        self.model.add(total <= form.network.limit)
        self.model.minimize(total)

    def offsets(self, chosen: Callable[[int], bool]) -> Sequence[int]:
        """Return the offsets that a solution means."""
        found = {
            job: next(offset for offset, x in choice.items() if chosen(x.index))
            for job, choice in self._choice.items()
        }
        return decide(self._gone, self._form.offsets(found))

    def _on_variable(self, job: int, offsets: frozenset[int]) -> Any:
        choice = [self._choice[job][offset] for offset in sorted(offsets)]
        if len(choice) == 1:
            return choice[0]
        on = self.model.new_bool_var("")
        self.model.add(self._sum(choice, [1] * len(choice)) == on)
        return on

    def _add_cells(self, cost: Any, part: CellLink) -> None:
        cells = [self.model.new_bool_var("") for _ in part.cells]
        self.model.add_exactly_one(cells)
        for axis, job in enumerate(part.scope):
            choice = self._choice.get(job)
            if choice is None:
                continue
            users = defaultdict(list)
            for variable, cell in zip(cells, part.cells, strict=True):
                users[cell.offsets[axis]].append(variable)
            for offset, variable in choice.items():
                self.model.add(self._sum(users[offset], [1] * len(users[offset])) == variable)
        excess = self._sum(cells, [cell.excess for cell in part.cells])
        self.model.add(cost == part.low + excess)

    def _add_slots(self, cost: Any, part: SlotLink) -> None:
        excesses = []
        for row in part.rows:
            excess = self.model.new_int_var(row.least, row.largest, "")
            demand = self._sum([self._on[at] for _, at in row.terms], [r for r, _ in row.terms])
            self.model.add(demand - excess <= row.room)
            excesses.append(excess)
        self.model.add(cost >= self._sum(excesses, [row.cost for row in part.rows]))
        for job, pairs in part.marginals:
            if job in self._choice:
                choice = [self._choice[job][offset] for offset, _ in pairs]
                least = self._sum(choice, [excess for _, excess in pairs])
                self.model.add(cost >= part.low + least)


def run(search: Search) -> None:
    """Solve block by block."""
    import_cp_model()  # say now if it is missing, not when the first block is hard
    solve_in_parts(search, lambda part: prove(part, built=search.built))
    search.built()  # if there was nothing left to model


def prove(
    part: Search,
    *,
    built: Callable[[], None] = lambda: None,
) -> None:
    """Prove the incumbent of a block, or find a better schedule.

    Parameters
    ----------
    built
        Called when the model is made.

    Raises
    ------
    SolverError
        If CP-SAT fails.
    ModelTooLargeError
        If there is no room for a model.
    """
    network, gone = prepare(part)
    if part.stopped or part.best is None:
        return
    form = StrongForm(network, part)
    if not form.complete:
        return
    model = StrongModel(form, gone, turned(part))
    built()
    large = len(model.model.proto.variables) > _SMALL
    optimise(part, model, _WORKERS, isolated=large)
