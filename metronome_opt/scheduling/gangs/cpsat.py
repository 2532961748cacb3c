"""Placement and rotation of a gang as one CP-SAT model: exact, and the judge of the other searches.

Who is where decides which links are used at all, so the model has a literal for each of these: all
tasks on some node; all in some rack, but not on one node; in several racks. A node that is not
alone has a literal for each number of tasks that it may have, and so has a rack that is not alone.
What such a number costs depends on the offset, which has one literal for each slot; a cell, one
literal for a number and an offset together, carries the cost, and is a conflict if that is above 0.
The cells of a link are a transportation problem between its numbers and the offsets, and so the
relaxation is tight.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import InputError, SolverError
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.option import Option, fragments_of, make_option
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.budget import Budget, run_interruptibly

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_MOST_CELLS = 200_000
_LARGEST = 2**53  # CP-SAT tells objectives as doubles


def place_exactly(
    cycle: Cycle, *, time_limit: float, workers: int = 1
) -> tuple[Option | None, bool]:
    """Return the best option that CP-SAT finds, and whether none is better.

    Conflicts if they count, contention, racks and fragments are one objective, a unit of the
    earlier ones being worth more than all that the later ones can differ by. Nothing is told of
    what other searches found.

    Parameters
    ----------
    time_limit
        Seconds, making the model included.
    workers
        Threads.

    Returns
    -------
    tuple
        The option, None if there is none or none was found, and whether that is proved; Ctrl-C
        ends the search as the time limit does.

    Raises
    ------
    InputError
        If the model would be too large.
    MissingBackendError
        If OR-Tools is not installed.
    SolverError
        If CP-SAT fails, or states a value that is not that of its placement.
    """
    cells = _cells(cycle)
    if cells > _MOST_CELLS:
        raise InputError(
            f"{cycle.gang.name}: its exact model would have {cells} cells, above the limit of "
            f"{_MOST_CELLS}; choose another search"
        )
    cp = import_cp_model()
    clock = Budget(time_limit)
    model = _Model(cycle, cp.CpModel())
    solver = cp.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.catch_sigint_signal = False
    solver.parameters.max_time_in_seconds = clock.remaining
    ended = run_interruptibly(clock, lambda: solver.solve(model.model), solver.stop_search)
    match solver.status_name(ended):
        case "OPTIMAL" | "FEASIBLE" as status:
            return model.option(solver), status == "OPTIMAL"
        case "INFEASIBLE":
            return None, True
        case "UNKNOWN":
            return None, False
        case status:
            raise SolverError(f"CP-SAT ends with status {status}, not understood")


def _most(cycle: Cycle) -> Iterator[tuple[int, int]]:
    """Return each link that may be crossed, and by how many tasks at most."""
    fewer = cycle.gang.tasks - 1  # or else nobody leaves
    for node, link in enumerate(cycle.state.interface.tolist()):
        yield link, min(fewer, int(cycle.room[node]), int(cycle.carried[node]))
    for rack, link in enumerate(cycle.uplinks.tolist()):
        if link >= 0:
            yield link, min(fewer, int(cycle.lifted[rack]))


def _cells(cycle: Cycle) -> int:
    return cycle.period * sum(most for _, most in _most(cycle))


@dataclass(frozen=True)
class _Criterion:
    """Something to minimise: what each literal adds."""

    literals: list[Any]
    amounts: list[int]

    def add(self, literal: Any, amount: int) -> None:
        if amount:
            self.literals.append(literal)
            self.amounts.append(amount)


class _Model:
    """The model, and what its literals mean.

    Attributes
    ----------
    model
        In CP-SAT.
    """

    def __init__(self, cycle: Cycle, model: cp_model.CpModel) -> None:
        self._cycle, self.model = cycle, model
        self._tasks = cycle.gang.tasks
        self._bare = Cycle(cycle.state, cycle.gang, first="contention")  # costs without conflicts
        self._criteria = [_Criterion([], []) for _ in range(4)]
        self._conflicts, self._contention, self._racks, self._fragments = self._criteria
        self._offsets = [model.new_bool_var(f"offset_{o}") for o in range(cycle.period)]
        model.add_exactly_one(self._offsets)
        self._alone = self._add_single_nodes()
        self._on: list[dict[int, Any]] = self._add_nodes()
        self._add_racks()
        self._unit = math.gcd(*self._contention.amounts) or 1
        model.minimize(self._objective())

    def option(self, solver: cp_model.CpSolver) -> Option:
        """Return what a solution means.

        Raises
        ------
        SolverError
            If it is not worth what CP-SAT states.
        """
        nodes = [n for n, literal in self._alone.items() if solver.value(literal)] * self._tasks
        for node, counts in enumerate(self._on):
            for count, literal in counts.items():
                nodes += [node] * (count * solver.value(literal))
        option = make_option(self._cycle, self._cycle.partial(nodes))
        stated = [
            sum(a * solver.value(literal) for literal, a in zip(c.literals, c.amounts, strict=True))
            for c in self._criteria
        ]
        found = [option.conflicts, option.cost, option.racks, option.fragments]
        if stated[1:] != found[1:] or (self._cycle.conflict and stated != found):
            raise SolverError(
                f"CP-SAT states conflicts, contention, racks and fragments of {stated}, the "
                f"placement has {found}"
            )
        return option

    def _add_single_nodes(self) -> dict[int, Any]:
        """Let all tasks be on one node: no link is crossed."""
        alone = {}
        for node, room in enumerate(self._cycle.room.tolist()):
            if room >= self._tasks:
                alone[node] = self.model.new_bool_var(f"alone_{node}")
                self._fragments.add(alone[node], fragments_of(self._cycle, node, self._tasks))
        return alone

    def _add_nodes(self) -> list[dict[int, Any]]:
        """Let some tasks be on a node and others elsewhere: they cross its interface."""
        on = []
        for node, link in enumerate(self._cycle.state.interface.tolist()):
            most = min(int(self._cycle.room[node]), int(self._cycle.carried[node]))
            counts = self._add_counts(link, most, f"node_{node}")
            for count, literal in counts.items():
                self._fragments.add(literal, fragments_of(self._cycle, node, count))
            on.append(counts)
        return on

    def _add_racks(self) -> None:
        """Let them be in one rack, or some in each of several: they cross its uplink then."""
        cycle, model, tasks = self._cycle, self.model, self._tasks
        inside: dict[int, list[Any]] = defaultdict(list)
        for node, counts in enumerate(self._on):
            inside[int(cycle.state.rack[node])] += [c * literal for c, literal in counts.items()]
        several = model.new_bool_var("several_racks")
        one = {rack: model.new_bool_var(f"rack_{rack}") for rack in inside}
        model.add_exactly_one([*self._alone.values(), *one.values(), several])
        used = [*self._alone.values()]
        for rack, whole in one.items():
            counts = self._add_counts(
                int(cycle.uplinks[rack]), int(cycle.lifted[rack]), f"rack_{rack}"
            )
            for literal in counts.values():
                model.add_implication(literal, several)
            used += [whole, *counts.values()]
            model.add(sum(inside[rack]) == tasks * whole + sum(c * x for c, x in counts.items()))
        spread = sum(c * x for on in self._on for c, x in on.items())
        model.add(spread == tasks).only_enforce_if(several)
        for literal in used:
            self._racks.add(literal, 1)
        if cycle.gang.most_racks is not None:
            model.add(sum(used) <= cycle.gang.most_racks)

    def _add_counts(self, link: int, most: int, name: str) -> dict[int, Any]:
        """Return a literal for each number of tasks that cross a link, and let them cost it."""
        model = self.model
        numbers = range(1, min(most, self._tasks - 1) + 1)
        counts = {n: model.new_bool_var(f"{name}_{n}") for n in numbers}
        model.add_at_most_one(counts.values())
        at: list[list[Any]] = [[] for _ in self._offsets]
        for number, literal in counts.items():
            costs = self._bare.row(link, number).tolist() if link >= 0 else [0]
            if not any(costs):
                continue
            cells = [model.new_bool_var("") for _ in costs]
            model.add(sum(cells) == literal)
            for offset, (cell, cost) in enumerate(zip(cells, costs, strict=True)):
                at[offset].append(cell)
                self._contention.add(cell, cost)
                self._conflicts.add(cell, int(cost > 0))
        for cells, offset_literal in zip(at, self._offsets, strict=True):
            if cells:
                model.add(sum(cells) <= offset_literal)
        return counts

    def _objective(self) -> Any:
        """Return the criteria that count in one, each outweighing those after it."""
        criteria = self._criteria if self._cycle.conflict else self._criteria[1:]
        amounts: list[int] = []
        worth = 1
        for criterion in reversed(criteria):
            unit = self._unit if criterion is self._contention else 1
            amounts = [worth * (amount // unit) for amount in criterion.amounts] + amounts
            worth *= 1 + sum(abs(amount // unit) for amount in criterion.amounts)
        if sum(map(abs, amounts)) >= _LARGEST:
            raise InputError(
                f"{self._cycle.gang.name}: the numbers of its exact model are too large; choose "
                "another search"
            )
        literals = [literal for criterion in criteria for literal in criterion.literals]
        return sum(amount * x for amount, x in zip(amounts, literals, strict=True))
