"""Variable elimination on tables of link costs, with branching where tables are too large.

A block is solved as a cost network (see `network`). Where its tables would become too large, one
of the jobs is given its offsets one after the other, by ascending lower bound, and what
is left is solved in the same way: depth first, with the bound of the tables, and links without a
table bounded by what their jobs add to those that are decided (see `network.condition`).

Reference: Dechter, "Bucket elimination: a unifying framework for reasoning", Artificial
Intelligence 113 (1999), 41-85, on elimination combined with conditioning.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from metronome_opt.errors import describe_error
from metronome_opt.solvers.cost_network.eliminate import Eliminated, decide, eliminate
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.cost_network.tables import build, condition
from metronome_opt.solvers.kernels.compiled_instance import Ints, TooLargeError
from metronome_opt.solvers.run import SolverRun

SOURCE = "elimination"
# Cells of a table at the root. Small ones leave more to branching, large ones take longer to fill:
# which of them is better, by far sometimes, is not known beforehand. The large ones come later.
_MAX_CELLS_AT_ROOT = (2**20, 2**23)
_LATER = 4  # rounds
MAX_CELLS = 2**20  # below the root
_MORE_NODES = 3  # in each further round, times those of the one before; 1 in the first
# What a node takes, in nodes of branch and bound, by measurement: about so many for each cost of
# the network, and one for so many cells of its tables.
_A_COST = 16
_CELLS = 60


Decisions = tuple[tuple[int, int], ...]
"""Jobs and the offsets that they are given."""


@dataclass
class Branching:
    """A network in which one job is given its offsets one after the other."""

    decisions: Decisions  # that led here
    network: CostNetwork
    gone: tuple[Eliminated, ...]  # before
    job: int
    entries: Ints  # positions in its domain, most promising first
    floors: Ints  # that they lead to
    following: int = 0  # the next of them

    @property
    def open(self) -> Ints:
        """Lower bounds of what has not been searched, ascending, in units."""
        return self.floors[self.following :]


def prove(search: SolverRun, network: CostNetwork | None = None) -> None:
    """Search from the incumbent until it is proved, the search is stopped or nothing helps.

    The network is that of the search by default.
    """
    elimination = Elimination(search, network)
    while not (search.stopped or elimination.exhausted):
        elimination.step()


class Elimination:
    """Alternating searches with small and with large tables, each further in every round.

    The search has an incumbent. `effort` counts in nodes of branch and bound; it is `exhausted` if
    numbers do not fit or memory ran out.
    """

    def __init__(self, search: SolverRun, network: CostNetwork | None = None) -> None:
        self.search = search
        self.effort = 0
        self.exhausted = False
        self._sizes: tuple[int, ...] = _MAX_CELLS_AT_ROOT
        self._attempts: dict[int, Attempt] = {}
        self._round = 0
        self._network = network

    def step(self) -> None:
        """Go one round further."""
        if self.search.stopped:
            return
        sizes = self._sizes[: 1 + self._round // _LATER]
        nodes = _MORE_NODES**self._round
        self._round += 1
        try:
            network = self._network = self._network or build(self.search)
        except (TooLargeError, MemoryError) as error:
            self._give_up(self._sizes, error)
            return
        for max_cells in sizes:
            self._expand(network, max_cells, nodes)
        self.effort = sum(attempt.effort for attempt in self._attempts.values())

    def _expand(self, network: CostNetwork, max_cells: int, nodes: int) -> None:
        try:
            if not self.search.stopped and max_cells not in self._attempts:
                self._attempts[max_cells] = Attempt(self.search, network)
                self._attempts[max_cells].begin(network, max_cells)
            if not self.search.stopped:
                self._attempts[max_cells].expand(nodes)
        except MemoryError as error:
            self._give_up((max_cells,), error)

    def _give_up(self, sizes: Collection[int], why: Exception) -> None:
        for max_cells in sizes:
            self._attempts.pop(max_cells, None)
        self._sizes = tuple(size for size in self._sizes if size not in sizes)
        self.exhausted = not self._sizes
        self.search.notes.append(f"no elimination: {describe_error(why)}")


class Attempt:
    """A depth-first search in the network of a block, a slice at a time.

    `path` is what is open; `effort` counts in nodes of branch and bound.
    """

    def __init__(self, search: SolverRun, network: CostNetwork) -> None:
        self._search = search
        self._below = search.subproblem(search.instance)  # its bounds are those of a part only
        self.path: list[Branching] = []
        self.effort = 0
        self._scale = network.scale
        self._first_limit = network.limit

    def begin(self, network: CostNetwork, max_cells: int) -> None:
        """Start at the root, with tables of at most `max_cells`."""
        network = replace(network, limit=self.limit)
        root, gone = eliminate(self._search, network, max_cells, max_cells)
        self.effort += _effort(network) + _effort(root)
        self._settle_or_branch((), root, tuple(gone))

    def expand(self, nodes: int) -> None:
        """Go on until the incumbent is proved, the search is stopped or `nodes` nodes further."""
        self._leave_and_bound()  # the incumbent may be another than before
        while nodes > 0 and not self._search.stopped:
            nodes -= 1
            here = self.path[-1]
            entry = int(here.entries[here.following])
            decisions = (*here.decisions, (here.job, int(here.network.domains[here.job][entry])))
            network = here.network.given(here.job, entry)
            network = condition(replace(network, limit=self.limit))
            self.effort += _effort(network)
            network, gone = eliminate(self._below, network, MAX_CELLS, MAX_CELLS)
            self.effort += _effort(network)
            if not self._search.stopped:
                here.following += 1
                self._settle_or_branch(decisions, network, (*here.gone, *gone))
                self._leave_and_bound()

    @property
    def limit(self) -> int:
        """The maximum units of a schedule that is better than the present incumbent."""
        incumbent = self._search.incumbent
        return self._first_limit if incumbent is None else int(incumbent / self._scale) - 1

    def _leave_and_bound(self) -> None:
        """Leave what cannot be better, and report what is true of the rest."""
        if self._search.stopped:
            return  # what was just begun may have been left amid
        limit = self.limit
        while self.path and not (self.path[-1].open <= limit).any():
            self.path.pop()
        bounds = [int(here.open[0]) for here in self.path if len(here.open)]
        self._search.raise_bound(min([limit + 1, *bounds]) * self._scale, SOURCE)

    def _settle_or_branch(
        self, decisions: Decisions, network: CostNetwork, gone: tuple[Eliminated, ...]
    ) -> None:
        """Offer what is solved, branch on what is not, leave what cannot be better."""
        if network.headroom < 0 or self._search.stopped:
            return
        if network.solved:
            left = [int(domain[0]) for domain in network.domains]
            self._search.offer(decide(gone, left), SOURCE)
            return
        job = job_to_branch_on(network)
        floors = network.floor + network.rises(job)
        entries = np.argsort(floors, kind="stable")
        entries = entries[floors[entries] <= network.limit]
        if len(entries):
            self.path.append(Branching(decisions, network, gone, job, entries, floors[entries]))


def _effort(network: CostNetwork) -> int:
    """Return what it takes to make such a network, in nodes of branch and bound."""
    cells = sum(cost.excess.size for cost in network.costs if cost.excess is not None)
    return (_A_COST * len(network.costs) + cells // _CELLS) // 2


def job_to_branch_on(network: CostNetwork) -> int:
    """Return a job on many links that have no table, and with few offsets."""
    missing = [cost for cost in network.costs if cost.excess is None]

    def split_gain(job: int) -> float:
        without = sum(job in cost.scope for cost in missing)
        with_one = sum(job in cost.scope for cost in network.costs)
        return (without + 0.1 * with_one) / math.log(network.sizes[job] + 1)

    return max((job for job, size in enumerate(network.sizes) if size > 1), key=split_gain)
