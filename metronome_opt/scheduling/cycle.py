"""One gang and a cluster: what placing it needs to know (PreFilter), and what a place is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.state import ClusterState
from metronome_opt.errors import InputError
from metronome_opt.kernels.placing import Burden, cost_rows
from metronome_opt.kernels.sliding import first_offset, roomiest_offset
from metronome_opt.kernels.tables import Ints

First = Literal["compatibility", "contention"]
"""What places are compared by first."""

Costs = NDArray[Any]
"""H times contention, weight * Mbit/s * slots, and `Cycle.conflict` for each link in conflict.

32 bits wide where that is enough, else 64."""

_LARGEST = 2**62
_BEST_SCORE = 100


@dataclass(frozen=True)
class Partial:
    """Where some tasks of a gang are to run: how many by index of the node, and of the rack."""

    nodes: Mapping[int, int] = field(default_factory=dict)
    racks: Mapping[int, int] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        """How many."""
        return sum(self.nodes.values())


class Cycle:
    """One gang and the cluster as it is; of no use once the state has changed.

    Parameters
    ----------
    state, gang
        The cluster, and who asks for a place.
    first
        ``compatibility``: fewer conflicts are better than less contention. ``contention``:
        conflicts do not count. A link is in conflict at an offset at which the gang adds to its
        contention: however little is late, not all jobs there can keep their slots. Links are
        counted, not the weight of the jobs on them, since it is not known who would give way. Like
        contention, conflicts are a sum of a term for each link, and who weighs nothing has none.

    Attributes
    ----------
    conflict
        What a link in conflict counts, more than all contention together; 0 if that comes first.
    stretch, period
        Idle slots that the gang needs to keep in step, and its period with them.
    room, carried
        How many of its tasks each node has resources for, and its interface carries, (nodes,).
    uplinks
        The uplink of each rack, -1 for none, shape (racks,).
    lifted
        How many of its tasks the uplink of each rack carries, shape (racks,).
    holds, whole
        How many of its tasks fit into each rack if they use interfaces, and whether that is all of
        them, shape (racks,).

    Raises
    ------
    InputError
        If the gang's period does not fit the hyperperiod, or its costs 64-bit integers.
    """

    def __init__(self, state: ClusterState, gang: Gang, *, first: First = "compatibility") -> None:
        self.state, self.gang = state, gang
        hyperperiod = state.cluster.hyperperiod
        self.stretch = gang.stretch_for(hyperperiod)
        self.period = gang.period + self.stretch
        # No more than two links for each task, and bursts may be twice as long as a window.
        most = 4 * max(1, gang.weight) * gang.peak * gang.tasks * hyperperiod
        self.conflict = most // 2 + 1 if first == "compatibility" else 0
        most += 2 * self.conflict * min(2 * gang.tasks, len(state.cluster.links))
        if most >= _LARGEST:
            remedy = " or put contention first" if self.conflict else ""
            raise InputError(
                f"{gang.name}: costs may not fit 64-bit integers; lower its weight{remedy}"
            )
        # All numbers of the kernels fit; narrow ones are twice as fast.
        self.dtype: type[np.int32] | type[np.int64] = np.int32 if most < 2**31 else np.int64
        layers, prices = state.demand.below(gang.weight)
        self.burden = Burden(
            self.period,
            gang.ready % self.period,
            np.array([(p.start, p.length, p.rate) for p in gang.phases], dtype=np.int64),
            np.array(layers, dtype=np.int64),
            np.array(prices, dtype=np.int64),
            np.zeros(hyperperiod, dtype=np.int32),
            self.conflict,
        )
        self._rows: dict[tuple[int, int], Costs] = {}

        self.room = state.fits(gang)
        taken = state.demand.peaks if state.mode == "exclusive" else 0
        carries: Ints = ((state.capacity - taken) // gang.peak).clip(0, gang.tasks)
        self.carried: Ints = carries[state.interface]
        racks = int(state.rack.max()) + 1
        self.uplinks: Ints = np.full(racks, -1, dtype=np.int64)
        self.uplinks[state.rack] = state.uplink
        self.lifted: Ints = np.where(self.uplinks < 0, gang.tasks, carries[self.uplinks])
        self.holds: Ints = np.bincount(
            state.rack, weights=np.minimum(self.room, self.carried), minlength=racks
        ).astype(np.int64)
        self.whole: NDArray[np.bool_] = self.holds >= gang.tasks

    # ------------------------------------------------------------------ places

    def add(self, partial: Partial, node: int) -> Partial:
        """Return where tasks run if one more comes to a node."""
        nodes, racks = Counter(partial.nodes), Counter(partial.racks)
        nodes[node] += 1
        racks[int(self.state.rack[node])] += 1
        return Partial(nodes, racks)

    def partial(self, nodes: Sequence[int]) -> Partial:
        """Return where tasks run, given the node of each."""
        return Partial(Counter(nodes), Counter(self.state.rack[list(nodes)].tolist()))

    def has_to_leave_node(self, partial: Partial) -> NDArray[np.bool_]:
        """Whether the gang will use interfaces if its next task comes to each node."""
        return _leaves(self.room >= self.gang.tasks, partial.nodes)

    def has_to_leave_rack(self, partial: Partial) -> NDArray[np.bool_]:
        """Whether the gang will use uplinks and interfaces if its next task comes to each rack."""
        return _leaves(self.whole, partial.racks)

    def fragments(self, node: int, tasks: int) -> int:
        """Return by how much the free GPUs of a node in use grow if so many tasks come to it.

        A node that nobody uses has none of them: a large job can still have it as a whole.
        """
        whole, free = int(self.state.total[node, 0]), int(self.state.free[node, 0])
        left = free - tasks * self.gang.each.gpus
        return (left if left < whole else 0) - (free if free < whole else 0)

    # ------------------------------------------------------------------ costs by offset

    @cached_property
    def tight(self) -> NDArray[np.bool_]:
        """Whether a task may cost something on the interface of each node, shape (nodes,)."""
        state = self.state
        spare: Ints = (state.capacity - state.demand.highest)[state.interface]
        return spare < self.gang.peak

    @cached_property
    def single(self) -> Costs:
        """What one task costs on the interface of each node with room, by offset, (nodes, T)."""
        rows: Costs = np.zeros((len(self.room), self.period), dtype=self.dtype)
        asked = np.flatnonzero(self.tight & (self.room > 0))
        rows[asked] = self.rows(self.state.interface[asked], 1)
        return rows

    def row(self, link: int, flows: int) -> Costs:
        """Return what some tasks of the gang cost on a link, by offset, shape (T,)."""
        key = (link, flows)
        if key not in self._rows:
            self._rows[key] = self.rows(np.array([link], dtype=np.int64), flows)[0]
        return self._rows[key]

    def rows(self, links: Ints, flows: int) -> Costs:
        """Return the same for several links, shape (links, T)."""
        demand = self.state.demand
        rows: Costs = np.empty((len(links), self.period), dtype=self.dtype)
        cost_rows(
            demand.layers, self.state.capacity, demand.highest, self.burden, links, flows, rows
        )
        return rows

    def cost(self, partial: Partial) -> Costs:
        """Return what tasks cost on all links that they cross, by offset, shape (T,)."""
        total: Costs = np.zeros(self.period, dtype=self.dtype)
        for link, flows in self.crossed(partial):
            total += self.row(link, flows)
        return total

    def conflicts(self, partial: Partial, offset: int) -> int:
        """Return on how many links tasks are in conflict at an offset, whatever comes first."""
        return sum(bool(self.row(*crossed)[offset]) for crossed in self.crossed(partial))

    def crossed(self, partial: Partial) -> Iterator[tuple[int, int]]:
        """Yield the links that tasks cross, and how many do."""
        if len(partial.nodes) > 1:
            for node, count in partial.nodes.items():
                yield int(self.state.interface[node]), count
        if len(partial.racks) > 1:
            for rack, count in partial.racks.items():
                if self.uplinks[rack] >= 0:
                    yield int(self.uplinks[rack]), count

    def lift(self, racks: Mapping[int, int]) -> Costs:
        """Return what tasks cost on the uplinks of their racks, by offset, shape (T,)."""
        total: Costs = np.zeros(self.period, dtype=self.dtype)
        for rack, count in racks.items():
            if self.uplinks[rack] >= 0:
                total += self.row(int(self.uplinks[rack]), count)
        return total

    def best_offset(self, costs: Costs) -> tuple[int, int, int]:
        """Return the offset of least cost, its cost and its cushion.

        Of several the one with the largest cushion, then that of the shortest wait.
        """
        least, ready = int(costs.min()), self.burden.ready
        if least:
            return int(first_offset(costs, least, ready)), least, 0
        offset, cushion = roomiest_offset(costs, ready)
        return int(offset), 0, int(cushion)

    def scores(self, conflicts: Ints, cost: Ints, flows: Ints) -> Ints:
        """Return 100 less the share of the gang's weighted traffic that is late, rounded up.

        If conflicts count, all of them but one come on top, as a share of the most there can be.
        """
        repeats = self.state.cluster.hyperperiod // self.period
        all_late = self.gang.weight * self.gang.volume * repeats * flows
        late = np.minimum(-(-_BEST_SCORE * cost // np.maximum(all_late, 1)), _BEST_SCORE)
        if self.conflict:
            late = -(-(_BEST_SCORE * (conflicts - 1) + late) // flows.max(initial=1))
        return np.where(cost > 0, _BEST_SCORE - late, _BEST_SCORE)


def _leaves(holds_all: NDArray[np.bool_], used: Mapping[int, int]) -> NDArray[np.bool_]:
    """Whether tasks will be in more than one place if the next one comes to each."""
    leaves = ~holds_all
    if used:
        leaves |= np.arange(len(leaves)) != next(iter(used)) if len(used) == 1 else True
    return leaves


@dataclass(frozen=True)
class PlaceDecision:
    """A place for all tasks of a gang, in their best rotation there; nothing is reserved yet.

    Attributes
    ----------
    nodes
        Indices, one per task, ascending.
    offset
        Of the job's pattern, in slots.
    least, cost
        What it is compared by first, as `Cycle.cost` has it, and what it adds to H times the
        contention, weight * Mbit/s * slots.
    conflicts
        Links to whose contention it adds: on which it and others ask for more than there is.
    cushion
        Free slots on either side of every burst, 0 where something is late.
    racks, fragments
        How many racks it spans, and by how many the GPUs grow that are free on nodes in use;
        negative if fewer are left over.
    """

    cycle: Cycle = field(repr=False, compare=False)
    nodes: tuple[int, ...]
    offset: int
    least: int
    conflicts: int
    cost: int
    cushion: int
    racks: int
    fragments: int

    @property
    def price(self) -> tuple[int, int, int, tuple[int, ...]]:
        """What places are compared by: `least`, racks, fragments, then the order of nodes."""
        return self.least, self.racks, self.fragments, self.nodes

    @property
    def contention(self) -> Fraction:
        """The contention that it adds, in weight * Mbit/s."""
        return Fraction(self.cost, self.cycle.state.cluster.hyperperiod)

    @property
    def score(self) -> int:
        """100 if nothing is late, 0 if all that the job sends were; see `Scores`."""
        crossed = self.cycle.crossed(self.cycle.partial(self.nodes))
        flows = sum(tasks for _, tasks in crossed)
        values = (np.array([value]) for value in (self.conflicts, self.cost, flows))
        return int(self.cycle.scores(*values)[0])

    @cached_property
    def claim(self) -> Reservation:
        """What to reserve."""
        hosts = self.cycle.state.cluster.nodes
        return Reservation(
            gang=self.cycle.gang,
            nodes=tuple(hosts[node].name for node in self.nodes),
            offset=self.offset,
            stretch=self.cycle.stretch,
        )


def decide(cycle: Cycle, partial: Partial) -> PlaceDecision:
    """Return the decision to run all tasks where they are, at the best offset."""
    nodes = tuple(sorted(Counter(dict(partial.nodes)).elements()))
    offset, least, cushion = cycle.best_offset(cycle.cost(partial))
    conflicts = cycle.conflicts(partial, offset)
    cost = least - conflicts * cycle.conflict
    fragments = sum(cycle.fragments(node, tasks) for node, tasks in partial.nodes.items())
    racks = len(partial.racks)
    return PlaceDecision(cycle, nodes, offset, least, conflicts, cost, cushion, racks, fragments)
