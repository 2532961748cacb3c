"""Strong formulation of the problem, block by block, for CP-SAT and HiGHS.

In a block, links' own optima, tables and elimination cut the offsets down (see `network`), then the
back end looks for a schedule that is better than the incumbent or proves that there is none. Of
CP-SAT's threads, `max_lp` proved what was proved at all on blocks of a dozen jobs, and
`lb_tree_search` had the best bounds on others. Integer offsets with order literals in place of one
Boolean per offset, and the differences of two jobs' offsets as variables, gave no better bounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metronome_opt.solvers.backends import solve_cpsat, solve_highs
from metronome_opt.solvers.blocks import solve_in_blocks
from metronome_opt.solvers.cost_network.eliminate import Eliminated, decide, eliminate
from metronome_opt.solvers.cost_network.model import Cost, CostNetwork
from metronome_opt.solvers.cost_network.tables import build
from metronome_opt.solvers.imports import import_cp_model, import_pulp
from metronome_opt.solvers.kernels.compiled_instance import SharedLink, TooLargeError
from metronome_opt.solvers.programs import CpsatProgram, MilpProgram, Program
from metronome_opt.solvers.run import SolverRun

MAX_ENTRIES = 20_000_000
"""Coefficients of the largest model that fits the memory of an ordinary machine."""
_SUBSOLVERS = ("max_lp", "lb_tree_search", "core", "pseudo_costs")
_SMALL = 2000  # variables of a model that is not worth a process of its own
_PREPARING = 4  # of as many parts of the time of a block one, at most, goes into cutting down
_MAX_CELLS = 2**22  # of a table, to cut offsets down with
_MAX_LEFT = 2**12  # of a table that eliminating a job leaves: a model states these cell by cell
_FEW_CELLS = 5000  # of a table that is stated cell by cell

_Terms = tuple[tuple[int, int], ...]  # (rate, index of jobs and offsets)


def _run_strong(
    search: SolverRun, kind: type[Program], load: Callable[[], object], solve: Callable[..., None]
) -> None:
    """Solve block by block."""
    load()  # say now if it is missing, not when the first block is hard

    def prove(part: SolverRun) -> None:
        network, gone = prepare(part, _MAX_CELLS)
        if part.stopped:
            return
        form = StrongForm(network, gone, part)
        if form.complete:
            program = kind(form)
            form.state(program)
            search.built()
            solve(part, program)

    solve_in_blocks(search, prove)
    search.built()  # if there was nothing left to model


def _solve_strong_cpsat(part: SolverRun, program: CpsatProgram) -> None:
    large = len(program.model.proto.variables) > _SMALL
    solve_cpsat(part, program, _SUBSOLVERS, isolated=large)


run_cpsat = partial(_run_strong, kind=CpsatProgram, load=import_cp_model, solve=_solve_strong_cpsat)
run_highs = partial(_run_strong, kind=MilpProgram, load=import_pulp, solve=solve_highs)


def prepare(
    part: SolverRun, max_cells: int, parts: int = _PREPARING
) -> tuple[CostNetwork, list[Eliminated]]:
    """Return what is left to decide of a block with an incumbent, in one of `parts` of its time.

    Tables of links have `max_cells` at most.
    """
    share = part.subproblem(part.instance)
    share.limit_to(part.remaining, parts)
    if part.best is not None:
        share.offer(part.best, part.found_by)
    network, gone = eliminate(share, build(share), max_cells, _MAX_LEFT)
    if network.solved:
        left = [int(domain[0]) for domain in network.domains]
        part.offer(decide(gone, left), "elimination")
    part.raise_bound(network.bound, share.bound_by)
    return network, gone


class _Row(NamedTuple):
    """``e >= sum of rate * on - residual``, with the largest value of e and its coefficient."""

    terms: _Terms
    residual: int  # beside what is on anyway; may be negative
    largest: int
    coefficient: int


class StrongForm:
    """The strong form of a cost network, after its domains were cut down.

    One offset per job is chosen among those that are left, ``sum_o x[j, o] = 1``. A link whose
    table has few cells left is stated cell by cell: one cell is chosen, its offsets are those of
    the jobs, its excess is the cost. Any other link is stated slot by slot: in each weight layer
    the excess is at least the demand of the bursts that are on less the capacity. Slots in which
    the same may happen are one row with their common cost, slots that cannot be overloaded any
    more have none. The cost of the link is bounded from below, by what is known of it alone and by
    its minimum with each offset of each of its jobs. Only better schedules than the incumbent are
    asked for.

    Every cost of the network that is not a link's own has a table of few cells. The `parts` are
    costs, with their rows if they are not stated cell by cell. Building is `complete` unless the
    search was stopped.

    Raises
    ------
    TooLargeError
        If the model would not fit the memory of an ordinary machine.
    """

    def __init__(self, network: CostNetwork, gone: Sequence[Eliminated], search: SolverRun) -> None:
        self.scale = network.scale
        self.base = network.floor
        self.cutoff = None if search.incumbent is None else network.limit + 1
        self._network = network
        self._compiled = network.compiled
        self._allowed = [frozenset(map(int, domain)) for domain in network.domains]
        self._gone = gone
        # A job and offsets at which it is on: a variable that is 1 if one of them is chosen.
        self._on: dict[tuple[int, frozenset[int]], int] = {}
        self._patterns: dict[tuple[int, int, int], frozenset[int]] = {}
        self.parts: list[tuple[Cost, list[_Row] | None]] = []
        self.complete = False
        self._check_size()
        for cost in network.costs:
            if search.stopped:
                return
            self.parts.append((cost, None if self._has_few_cells(cost) else [*self._rows(cost)]))
        self.complete = True

    def state(self, program: Program) -> None:
        """State it in a program, whose objective counts from the floor of the network."""
        for job, domain in enumerate(self._network.domains):
            if len(domain) > 1:
                program.choose(job, [int(offset) for offset in domain])
        on = []
        for number, (job, offsets) in enumerate(self._on):
            variables = [program.choices[job][offset] for offset in sorted(offsets)]
            alone = len(variables) == 1
            name = f"z_{number}"
            on.append(variables[0] if alone else program.any_of(variables, name, f"on_{number}"))
        headroom = self._network.headroom
        costs: list[tuple[Any, int]] = []
        for number, (cost, rows) in enumerate(self.parts):
            if rows is not None:
                excesses = self._state_slots(program, rows, number, on)
                if self.cutoff is None:  # then nothing is known of the cost
                    costs += excesses
                    continue
            total = program.variable(f"cost_{number}", 0, headroom)
            costs.append((total, 1))
            if rows is None:
                self._state_cells(program, total, cost, number)
            else:
                program.add([*excesses, (total, -1)], "<=", cost.low, f"cost_of_{number}")
                self._state_minima(program, total, cost, number)
        if self.cutoff is not None:
            program.add(costs, "<=", headroom, "better")
        program.minimise(costs)

    def decode(self, chosen: Mapping[int, int]) -> list[int]:
        """Return the schedule of the offsets by index of the jobs with a choice."""
        domains = enumerate(self._network.domains)
        return decide(self._gone, [chosen.get(job, int(domain[0])) for job, domain in domains])

    def _check_size(self) -> None:
        jobs = self._compiled.instance.jobs
        entries = sum(
            len(domain) * sum(phase.length for phase in job.phases)
            for job, domain in zip(jobs, self._network.domains, strict=True)
        )
        for cost in self._network.costs:
            if cost.link is not None and not self._has_few_cells(cost):
                link = self._compiled.links[cost.link]
                entries += link.hyperperiod * sum(len(link.coefficients) - k for k in link.classes)
        if entries > MAX_ENTRIES:
            raise TooLargeError(
                f"a model of {len(jobs)} jobs of {self._compiled.instance.name} has {entries} "
                f"entries, more than {MAX_ENTRIES}; coarsen the slots, or use greedy or local"
            )

    def _has_few_cells(self, cost: Cost) -> bool:
        if cost.excess is None:
            return False
        return int(np.count_nonzero(cost.excess <= self._network.headroom)) <= _FEW_CELLS

    def _rows(self, cost: Cost) -> Iterator[_Row]:
        """Yield the rows of a link, those of equal terms and residual as one."""
        assert cost.link is not None  # noqa: S101 (the rest has few cells)
        link: SharedLink = self._compiled.links[cost.link]
        merged: dict[tuple[_Terms, int], int] = defaultdict(int)
        users = list(zip(link.jobs, link.flows, link.classes, strict=True))
        for number, coefficient in enumerate(link.coefficients):
            members = [(job, flows) for job, flows, class_ in users if class_ >= number]
            for slot in range(link.hyperperiod if coefficient else 0):
                merged[self._terms(members, link.capacity, slot)] += coefficient
        for (terms, residual), coefficient in merged.items():
            largest = self._peak(terms) - residual
            if largest > 0:
                units = coefficient * self._compiled.unit / (link.hyperperiod * self.scale)
                yield _Row(terms, residual, largest, int(units))

    def _terms(
        self, members: Sequence[tuple[int, int]], capacity: int, slot: int
    ) -> tuple[_Terms, int]:
        """Return what may be on in a slot, and the residual capacity beside what is on anyway."""
        terms: dict[int, int] = defaultdict(int)
        residual = capacity
        for job, flows in members:
            record = self._compiled.instance.jobs[job]
            for number, phase in enumerate(record.phases):
                rate = flows * phase.rate // self._compiled.unit
                offsets = self._bursting(job, number, slot % record.period)
                if len(offsets) == len(self._allowed[job]):
                    residual -= rate
                elif offsets:
                    terms[self._on.setdefault((job, offsets), len(self._on))] += rate
        return tuple(sorted((rate, index) for index, rate in terms.items())), residual

    def _bursting(self, job: int, phase: int, slot: int) -> frozenset[int]:
        """Return the allowed offsets at which a burst is on in a slot of the job's period."""
        key = (job, phase, slot)
        if key not in self._patterns:
            record = self._compiled.instance.jobs[job]
            burst = record.phases[phase]
            offsets = {(slot - x) % record.period for x in range(burst.start, burst.end)}
            self._patterns[key] = self._allowed[job] & offsets
        return self._patterns[key]

    def _peak(self, terms: _Terms) -> int:
        """Return a bound of what is on at once: of each job only one burst is."""
        peaks: dict[int, int] = defaultdict(int)
        jobs = [job for job, _ in self._on]
        for rate, index in terms:
            job = jobs[index]
            peaks[job] = max(peaks[job], rate)
        return sum(peaks.values())

    def _state_cells(self, program: Program, total: Any, cost: Cost, number: int) -> None:
        """State a cost cell by cell; the choice of offsets makes that of the cell."""
        assert cost.excess is not None  # noqa: S101 (it has few cells)
        places = np.argwhere(cost.excess <= self._network.headroom)
        cells = [program.flag(f"t_{number}_{place}") for place in range(len(places))]
        program.one_of(cells, f"cell_{number}")
        for axis, job in enumerate(cost.scope):
            users = defaultdict(list)
            for variable, place in zip(cells, places, strict=True):
                users[int(self._network.domains[job][place[axis]])].append((variable, 1))
            for offset, chosen in program.choices.get(job, {}).items():
                name = f"cells_{number}_{job}_{offset}"
                program.add([*users[offset], (chosen, -1)], "=", 0, name)
        values = (int(cost.excess[tuple(place)]) for place in places)
        excess = [(cell, value) for cell, value in zip(cells, values, strict=True) if value]
        program.add([*excess, (total, -1)], "=", 0, f"cost_of_{number}")

    def _state_slots(
        self, program: Program, rows: Sequence[_Row], number: int, on: Sequence[Any]
    ) -> list[tuple[Any, int]]:
        """State a link slot by slot; return the excesses with their coefficients."""
        excesses = []
        for place, row in enumerate(rows):
            excess = program.variable(f"e_{number}_{place}", max(0, -row.residual), row.largest)
            terms = [(on[index], rate) for rate, index in row.terms]
            program.add([*terms, (excess, -1)], "<=", row.residual, f"over_{number}_{place}")
            excesses.append((excess, row.coefficient))
        return excesses

    def _state_minima(self, program: Program, total: Any, cost: Cost, number: int) -> None:
        """State what a cost is at least with each offset of each job."""
        if cost.excess is None or len(cost.scope) < 2:
            return
        for job in cost.scope:
            minimum = np.minimum(cost.minimum([job]), self._network.headroom)
            if job in program.choices and minimum.any():
                pairs = zip(self._network.domains[job], minimum, strict=True)
                marginal = [(program.choices[job][int(o)], int(e)) for o, e in pairs if e]
                program.add([*marginal, (total, -1)], "<=", 0, f"least_{number}_{job}")
