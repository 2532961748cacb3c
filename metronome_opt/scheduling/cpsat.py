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
from typing import TYPE_CHECKING, Any

import numpy as np

from metronome_opt.errors import InputError, SolverError
from metronome_opt.scheduling.cycle import Cycle, PlaceDecision, decide
from metronome_opt.solvers.budget import Budget, run_interruptibly
from metronome_opt.solvers.imports import import_cp_model

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_MOST_CELLS = 200_000
_LARGEST = 2**53  # CP-SAT tells objectives as doubles


def place_exactly(
    cycle: Cycle, *, time_limit: float, workers: int = 1
) -> tuple[PlaceDecision | None, bool]:
    """Return the best place that CP-SAT finds in `time_limit` seconds, and if none is better.

    Conflicts if they count, contention, racks and fragments are one objective, a unit of the
    earlier ones being worth more than all that the later ones can differ by. Nothing is told of
    what other searches found. Ctrl-C ends the search as the time limit does.

    Raises
    ------
    InputError
        If the model would be too large.
    MissingBackendError
        If OR-Tools is not installed.
    SolverError
        If CP-SAT fails, or states a value that is not that of its placement.
    """
    fewer = cycle.gang.tasks - 1  # or else nobody leaves
    interfaces = np.minimum(cycle.room, cycle.carried).clip(max=fewer).sum()
    uplinks = cycle.lifted[cycle.uplinks >= 0].clip(max=fewer).sum()
    cells = cycle.period * int(interfaces + uplinks)
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
            return model.decision(solver), status == "OPTIMAL"
        case "INFEASIBLE":
            return None, True
        case "UNKNOWN":
            return None, False
        case status:
            raise SolverError(f"CP-SAT ends with status {status}, not understood")


_Terms = list[tuple[int, Any]]
"""Something to minimise: what each literal adds."""


class _Model:
    """The model, and what its literals mean."""

    def __init__(self, cycle: Cycle, model: cp_model.CpModel) -> None:
        self._cycle, self.model = cycle, model
        self._tasks = cycle.gang.tasks
        self._bare = Cycle(cycle.state, cycle.gang, first="contention")  # costs without conflicts
        self._conflicts: _Terms = []
        self._contention: _Terms = []
        self._racks: _Terms = []
        self._fragments: _Terms = []
        self._criteria = [self._conflicts, self._contention, self._racks, self._fragments]
        self._offsets = [model.new_bool_var(f"offset_{o}") for o in range(cycle.period)]
        model.add_exactly_one(self._offsets)
        self._alone = self._add_single_nodes()
        self._on: list[dict[int, Any]] = self._add_nodes()
        self._add_racks()
        model.minimize(self._objective())

    def decision(self, solver: cp_model.CpSolver) -> PlaceDecision:
        """Return what a solution means; an error if it is not worth what CP-SAT states."""
        nodes = [n for n, literal in self._alone.items() if solver.value(literal)] * self._tasks
        for node, counts in enumerate(self._on):
            for count, literal in counts.items():
                nodes += [node] * (count * solver.value(literal))
        decision = decide(self._cycle, self._cycle.partial(nodes))
        stated = [
            sum(amount * solver.value(literal) for amount, literal in terms)
            for terms in self._criteria
        ]
        found = [decision.conflicts, decision.cost, decision.racks, decision.fragments]
        if stated[1:] != found[1:] or (self._cycle.conflict and stated != found):
            raise SolverError(
                f"CP-SAT states conflicts, contention, racks and fragments of {stated}, the "
                f"placement has {found}"
            )
        return decision

    def _add_single_nodes(self) -> dict[int, Any]:
        """Let all tasks be on one node: no link is crossed."""
        alone = {}
        for node, room in enumerate(self._cycle.room.tolist()):
            if room >= self._tasks:
                alone[node] = self.model.new_bool_var(f"alone_{node}")
                self._fragments.append((self._cycle.fragments(node, self._tasks), alone[node]))
        return alone

    def _add_nodes(self) -> list[dict[int, Any]]:
        """Let some tasks be on a node and others elsewhere: they cross its interface."""
        on = []
        for node, link in enumerate(self._cycle.state.interface.tolist()):
            most = min(int(self._cycle.room[node]), int(self._cycle.carried[node]))
            counts = self._add_counts(link, most, f"node_{node}")
            for count, literal in counts.items():
                self._fragments.append((self._cycle.fragments(node, count), literal))
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
        self._racks += [(1, literal) for literal in used]
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
                if cost:
                    self._contention.append((cost, cell))
                    self._conflicts.append((1, cell))
        for cells, offset_literal in zip(at, self._offsets, strict=True):
            if cells:
                model.add(sum(cells) <= offset_literal)
        return counts

    def _objective(self) -> Any:
        """Return the criteria that count in one, each outweighing those after it."""
        unit = math.gcd(*(amount for amount, _ in self._contention)) or 1
        weighted: _Terms = []
        worth = 1
        for terms in reversed(self._criteria if self._cycle.conflict else self._criteria[1:]):
            divisor = unit if terms is self._contention else 1
            scaled = [(amount // divisor, literal) for amount, literal in terms if amount]
            weighted = [*((worth * amount, literal) for amount, literal in scaled), *weighted]
            worth *= 1 + sum(abs(amount) for amount, _ in scaled)
        if sum(abs(amount) for amount, _ in weighted) >= _LARGEST:
            raise InputError(
                f"{self._cycle.gang.name}: the numbers of its exact model are too large; choose "
                "another search"
            )
        return sum(amount * literal for amount, literal in weighted)
