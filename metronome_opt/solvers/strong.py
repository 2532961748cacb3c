"""The strong form of the rotation problem, apart from any back end.

Made from a cost network after its domains were cut down (see `network`). One offset per job is
chosen among those that are left, ``sum_o x[j, o] = 1``. A link whose table has few cells left is
stated cell by cell: one cell is chosen, its offsets are those of the jobs, its excess is the cost.
Any other link is stated slot by slot as in the textbook form, with three differences: slots in
which the same may happen are one row with their common cost; slots that cannot be overloaded any
more have none; and the cost of the link is bounded from below, by what is known of it alone and by
what it costs at the least with each offset of each of its jobs. Only better schedules than the
incumbent are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metronome_opt.kernels.tables import SharedLink
from metronome_opt.solvers.network import Cost, Eliminated, Network, decide
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import MOST_ENTRIES, ModelTooLargeError

if TYPE_CHECKING:
    from metronome_opt.solvers.programs import Program

MOST_CELLS = 5000
"""Cells of a table that is stated cell by cell."""


OnSet = tuple[int, frozenset[int]]
"""A job and offsets at which it is on: a variable that is 1 if one of them is chosen."""


class Row(NamedTuple):
    """``e >= sum of rate * on - room``, with bounds and the price of e.

    Terms are (rate, index of an `OnSet`); the room, beside what is on anyway, may be negative.
    """

    terms: tuple[tuple[int, int], ...]
    room: int
    least: int
    largest: int
    cost: int


class CellLink(NamedTuple):
    """A cost stated cell by cell: the offsets of each cell, and its excess in units."""

    scope: tuple[int, ...]
    cells: list[tuple[tuple[int, ...], int]]


class SlotLink(NamedTuple):
    """A link stated slot by slot.

    Attributes
    ----------
    low
        A lower bound of its cost, in units.
    rows
        Where it may be overloaded; their costs add up to that of the link.
    marginals
        Of jobs, (offset, excess): with the job at the offset the link costs that much above `low`.
    """

    low: int
    rows: list[Row]
    marginals: dict[int, list[tuple[int, int]]]


class StrongForm:
    """The strong form of a cost network.

    Parameters
    ----------
    network
        Every cost that is not a link's own has a table of at most `MOST_CELLS` cells.
    gone
        The jobs that were eliminated.
    search
        Of the same instance; building gives up when it is stopped, see `complete`.

    Attributes
    ----------
    network
        As given.
    parts
        The costs, which add up to the objective.
    complete
        Whether building came to its end.

    Raises
    ------
    ModelTooLargeError
        If the model would not fit the memory of an ordinary machine.
    """

    def __init__(self, network: Network, gone: Sequence[Eliminated], search: Search) -> None:
        self.network = network
        self._compiled = network.compiled
        self._allowed = [frozenset(map(int, domain)) for domain in network.domains]
        self._gone = gone
        self._on: dict[OnSet, int] = {}
        self._patterns: dict[tuple[int, int, int], frozenset[int]] = {}
        self.parts: list[CellLink | SlotLink] = []
        self.complete = False
        self._check_size()
        for cost in network.costs:
            if search.stopped:
                return
            self.parts.append(_cell_link(network, cost) or self._slot_link(cost))
        self.complete = True

    def state(self, program: Program) -> None:
        """State it in a program, whose objective counts from the floor of the network."""
        for job, domain in enumerate(self.network.domains):
            if len(domain) > 1:
                program.choose(job, [int(offset) for offset in domain])
        on = []
        for number, (job, offsets) in enumerate(self._on):
            variables = [program.choices[job][offset] for offset in sorted(offsets)]
            alone = len(variables) == 1
            name = f"z_{number}"
            on.append(variables[0] if alone else program.any_of(variables, name, f"on_{number}"))
        costs = []
        for number, part in enumerate(self.parts):
            cost = program.variable(f"cost_{number}", 0, self.network.slack)
            if isinstance(part, CellLink):
                _state_cells(program, cost, part, number)
            else:
                _state_slots(program, cost, part, number, on)
            costs.append((cost, 1))
        program.add(costs, "<=", self.network.slack, "better")
        program.minimise(costs)

    def decode(self, chosen: Mapping[int, int]) -> list[int]:
        """Return the schedule of the offsets by index of the jobs with a choice."""
        domains = enumerate(self.network.domains)
        return decide(self._gone, [chosen.get(job, int(domain[0])) for job, domain in domains])

    def _check_size(self) -> None:
        jobs = self._compiled.instance.jobs
        entries = sum(
            len(domain) * sum(phase.length for phase in job.phases)
            for job, domain in zip(jobs, self.network.domains, strict=True)
        )
        for cost in self.network.costs:
            if cost.link is not None and not _few_cells(self.network, cost):
                link = self._compiled.links[cost.link]
                entries += link.hyperperiod * sum(len(link.prices) - k for k in link.classes)
        if entries > MOST_ENTRIES:
            raise ModelTooLargeError(
                f"a model of {len(jobs)} jobs of {self._compiled.instance.name} has {entries} "
                f"entries, more than {MOST_ENTRIES}; coarsen the slots, or use greedy or local"
            )

    def _slot_link(self, cost: Cost) -> SlotLink:
        marginals = {}
        if cost.excess is not None and len(cost.scope) > 1:
            for job in cost.scope:
                least = np.minimum(cost.least([job]), self.network.slack)
                if least.any():
                    pairs = zip(self.network.domains[job], least, strict=True)
                    marginals[job] = [(int(o), int(e)) for o, e in pairs if e]
        assert cost.link is not None  # noqa: S101 (the rest has few cells)
        return SlotLink(cost.low, [*self._rows(self._compiled.links[cost.link])], marginals)

    def _rows(self, link: SharedLink) -> Iterator[Row]:
        """Yield the rows of a link, those of equal terms and room as one."""
        unit = self._compiled.unit
        scale = self.network.scale
        merged: dict[tuple[tuple[tuple[int, int], ...], int], int] = defaultdict(int)
        for layer, price in enumerate(link.prices):
            members = [
                (job, flows)
                for job, flows, class_ in zip(link.jobs, link.flows, link.classes, strict=True)
                if class_ >= layer
            ]
            for slot in range(link.hyperperiod if price else 0):
                merged[self._terms(members, link.capacity, slot)] += price
        for (terms, room), price in merged.items():
            largest = self._peak(terms) - room
            if largest > 0:
                cost = price * unit / (link.hyperperiod * scale)
                yield Row(terms, room, max(0, -room), largest, int(cost))

    def _terms(
        self, members: list[tuple[int, int]], capacity: int, slot: int
    ) -> tuple[tuple[tuple[int, int], ...], int]:
        """Return what may be on in a slot, and the room that is left by what is on anyway."""
        terms: dict[int, int] = defaultdict(int)
        room = capacity
        for job, flows in members:
            record = self._compiled.instance.jobs[job]
            for phase, burst in enumerate(record.phases):
                rate = flows * burst.rate // self._compiled.unit
                offsets = self._bursting(job, phase, slot % record.period)
                if len(offsets) == len(self._allowed[job]):
                    room -= rate
                elif offsets:
                    terms[self._on.setdefault((job, offsets), len(self._on))] += rate
        return tuple(sorted((rate, index) for index, rate in terms.items())), room

    def _bursting(self, job: int, phase: int, slot: int) -> frozenset[int]:
        """Return the allowed offsets at which a burst is on in a slot of the job's period."""
        key = (job, phase, slot)
        if key not in self._patterns:
            record = self._compiled.instance.jobs[job]
            burst = record.phases[phase]
            offsets = {(slot - x) % record.period for x in range(burst.start, burst.end)}
            self._patterns[key] = self._allowed[job] & offsets
        return self._patterns[key]

    def _peak(self, terms: tuple[tuple[int, int], ...]) -> int:
        """Return a bound of what is on at once: of each job only one burst is."""
        peaks: dict[int, int] = defaultdict(int)
        jobs = [job for job, _ in self._on]
        for rate, index in terms:
            job = jobs[index]
            peaks[job] = max(peaks[job], rate)
        return sum(peaks.values())


def _few_cells(network: Network, cost: Cost) -> bool:
    if cost.excess is None:
        return False
    return int(np.count_nonzero(cost.excess <= network.slack)) <= MOST_CELLS


def _cell_link(network: Network, cost: Cost) -> CellLink | None:
    """Return a cost cell by cell, if it has a table with few cells within the slack."""
    if cost.excess is None or not _few_cells(network, cost):
        return None
    cells = []
    for place in np.argwhere(cost.excess <= network.slack):
        offsets = (network.domains[job][at] for job, at in zip(cost.scope, place, strict=True))
        cells.append((tuple(map(int, offsets)), int(cost.excess[tuple(place)])))
    return CellLink(cost.scope, cells)


def _state_cells(program: Program, cost: Any, part: CellLink, number: int) -> None:
    """State a cost cell by cell; the choice of offsets makes that of the cell."""
    cells = [program.flag(f"t_{number}_{place}") for place in range(len(part.cells))]
    program.one_of(cells, f"cell_{number}")
    for axis, job in enumerate(part.scope):
        users = defaultdict(list)
        for variable, (offsets, _) in zip(cells, part.cells, strict=True):
            users[offsets[axis]].append((variable, 1))
        for offset, chosen in program.choices.get(job, {}).items():
            name = f"cells_{number}_{job}_{offset}"
            program.add([*users[offset], (chosen, -1)], "=", 0, name)
    excess = [(cell, each) for cell, (_, each) in zip(cells, part.cells, strict=True) if each]
    program.add([*excess, (cost, -1)], "=", 0, f"cost_of_{number}")


def _state_slots(
    program: Program, cost: Any, part: SlotLink, number: int, on: Sequence[Any]
) -> None:
    total = []
    for place, row in enumerate(part.rows):
        excess = program.variable(f"e_{number}_{place}", row.least, row.largest)
        terms = [(on[index], rate) for rate, index in row.terms]
        program.add([*terms, (excess, -1)], "<=", row.room, f"over_{number}_{place}")
        total.append((excess, row.cost))
    program.add([*total, (cost, -1)], "<=", part.low, f"cost_of_{number}")
    for job, marginal in part.marginals.items():
        if job in program.choices:
            least = [(program.choices[job][offset], excess) for offset, excess in marginal]
            program.add([*least, (cost, -1)], "<=", 0, f"least_{number}_{job}")
