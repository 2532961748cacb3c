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
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from metronome_opt.kernels.tables import SharedLink
from metronome_opt.solvers.network import Cost, Network
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import MOST_ENTRIES, ModelTooLargeError

MOST_CELLS = 5000
"""Cells of a table that is stated cell by cell."""


@dataclass(frozen=True)
class OnSet:
    """The offsets of a job at which it is on: a variable that is 1 if one of them is chosen."""

    job: int
    offsets: frozenset[int]


@dataclass(frozen=True)
class Cell:
    """One combination of offsets of the jobs of a table, and its excess in units."""

    offsets: tuple[int, ...]
    excess: int


@dataclass(frozen=True)
class Row:
    """``e >= sum of rate * on - room``, and what e costs.

    Attributes
    ----------
    terms
        (rate, index of an `OnSet`).
    room
        What the link carries beside the jobs that are on whatever is chosen; may be negative.
    least, largest
        Bounds of e.
    cost
        Units of the objective that one unit of e costs, in all slots that the row stands for.
    """

    terms: tuple[tuple[int, int], ...]
    room: int
    least: int
    largest: int
    cost: int


@dataclass(frozen=True)
class CellLink:
    """A cost stated cell by cell: `low` plus the excess of the cell that is chosen."""

    low: int
    scope: tuple[int, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class SlotLink:
    """A link stated slot by slot.

    Attributes
    ----------
    low
        A lower bound of its cost, in units.
    rows
        Where it may be overloaded; their costs add up to that of the link.
    marginals
        (job, offset, excess): with the job at the offset the link costs that much above `low`.
    """

    low: int
    rows: tuple[Row, ...]
    marginals: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]


class StrongForm:
    """The strong form of a cost network.

    Parameters
    ----------
    network
        Every cost that is not a link's own has a table of at most `MOST_CELLS` cells.
    search
        Of the same instance; building gives up when it is stopped, see `complete`.

    Attributes
    ----------
    network
        As given.
    on
        The variables that rows speak of, each once.
    parts
        The costs, which add up to the objective.
    complete
        Whether building came to its end.

    Raises
    ------
    ModelTooLargeError
        If the model would not fit the memory of an ordinary machine.
    """

    def __init__(self, network: Network, search: Search) -> None:
        self.network = network
        self._compiled = network.compiled
        self._allowed = [frozenset(map(int, domain)) for domain in network.domains]
        self._index: dict[OnSet, int] = {}
        self.on: list[OnSet] = []
        self._patterns: dict[tuple[int, int, int], frozenset[int]] = {}
        self.parts: list[CellLink | SlotLink] = []
        self.complete = False
        self._check_size()
        for cost in network.costs:
            if search.stopped:
                return
            self.parts.append(_cell_link(network, cost) or self._slot_link(cost))
        self.complete = True

    @property
    def free(self) -> Iterator[tuple[int, list[int]]]:
        """The jobs with a choice, and their offsets."""
        for job, domain in enumerate(self.network.domains):
            if len(domain) > 1:
                yield job, [int(offset) for offset in domain]

    def offsets(self, chosen: dict[int, int]) -> list[int]:
        """Return offsets in the order of the instance, from those of the jobs with a choice."""
        return [chosen.get(job, int(domain[0])) for job, domain in enumerate(self.network.domains)]

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
        marginals = []
        if cost.excess is not None and len(cost.scope) > 1:
            for job in cost.scope:
                least = np.minimum(cost.least([job]), self.network.slack)
                if least.any():
                    pairs = zip(self.network.domains[job], least, strict=True)
                    marginals.append((job, tuple((int(o), int(e)) for o, e in pairs)))
        assert cost.link is not None  # noqa: S101 (the rest has few cells)
        rows = tuple(self._rows(self._compiled.links[cost.link]))
        return SlotLink(cost.low, rows, tuple(marginals))

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
                    terms[self._number(OnSet(job, offsets))] += rate
        return tuple(sorted((rate, index) for index, rate in terms.items())), room

    def _number(self, on: OnSet) -> int:
        if on not in self._index:
            self._index[on] = len(self.on)
            self.on.append(on)
        return self._index[on]

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
        for rate, index in terms:
            job = self.on[index].job
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
        cells.append(Cell(tuple(map(int, offsets)), int(cost.excess[tuple(place)])))
    return CellLink(cost.low, cost.scope, tuple(cells))
