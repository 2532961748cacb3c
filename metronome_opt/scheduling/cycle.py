"""What placing one gang needs to know of a cluster, worked out once (PreFilter)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError
from metronome_opt.kernels.placing import Burden, cost_rows
from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.gang import Gang, stretch_for
from metronome_opt.scheduling.state import ClusterState

First = Literal["compatibility", "contention"]
"""What places are compared by first."""

Costs = NDArray[Any]
"""H times contention, weight * Mbit/s * slots, and `Cycle.conflict` for each link in conflict.

32 bits wide where that is enough, else 64."""

_LARGEST = 2**62


@dataclass(frozen=True)
class Partial:
    """Where some tasks of a gang are to run.

    Attributes
    ----------
    nodes, racks
        Tasks by index of the node, and of the rack.
    """

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
    state
        The cluster.
    gang
        Who asks for a place.
    first
        ``compatibility``: fewer conflicts are better than less contention. ``contention``:
        conflicts do not count. A link is in conflict at an offset at which the gang adds to its
        contention: however little is late, not all jobs there can keep their slots. Links are
        counted, not the weight of the jobs on them, since it is not known who would give way. Like
        contention, conflicts are a sum of a term for each link, and who weighs nothing has none.

    Attributes
    ----------
    state, gang
        As above.
    conflict
        What a link in conflict counts, more than all contention together; 0 if that comes first.
    stretch, period
        Idle slots that the gang needs to keep in step, and its period with them.
    room
        How many of its tasks each node has resources for, shape (nodes,).
    carried
        How many of its tasks the interface of each node carries, shape (nodes,).
    uplinks
        The uplink of each rack, -1 for none, shape (racks,).
    lifted
        How many of its tasks the uplink of each rack carries, shape (racks,).
    holds
        How many of its tasks fit into each rack if they use interfaces, shape (racks,).
    whole
        Whether that is all of them, shape (racks,).

    Raises
    ------
    InputError
        If the gang's period does not fit the hyperperiod, or its costs 64-bit integers.
    """

    def __init__(self, state: ClusterState, gang: Gang, *, first: First = "compatibility") -> None:
        self.state, self.gang = state, gang
        self.stretch = stretch_for(gang, state.cluster.hyperperiod)
        self.period = gang.period + self.stretch
        # No more than two links for each task, and bursts may be twice as long as a window.
        most = 4 * max(1, gang.weight) * gang.peak * gang.tasks * state.cluster.hyperperiod
        self.conflict = most // 2 + 1 if first == "compatibility" else 0
        self.dtype = self._narrowest(most)
        self.burden = self._make_burden()
        self._rows: dict[tuple[int, int], Costs] = {}

        needs = np.array(gang.each.vector, dtype=np.int64)
        counts = np.where(needs > 0, state.free // np.maximum(needs, 1), gang.tasks)
        self.room: Ints = np.where(state.up, counts.min(axis=1).clip(0, gang.tasks), 0)
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

    def _make_burden(self) -> Burden:
        gang = self.gang
        layers, prices = self.state.demand.below(gang.weight)
        return Burden(
            self.period,
            gang.ready % self.period,
            np.array([(p.start, p.length, p.rate) for p in gang.phases], dtype=np.int64),
            np.array(layers, dtype=np.int64),
            np.array(prices, dtype=np.int64),
            np.zeros(self.state.cluster.hyperperiod, dtype=np.int32),
            self.conflict,
        )

    def _narrowest(self, most: int) -> type[np.int32] | type[np.int64]:
        """Return a type that all numbers of the kernels fit; narrow ones are twice as fast."""
        gang = self.gang
        most += 2 * self.conflict * min(2 * gang.tasks, len(self.state.cluster.links))
        if most >= _LARGEST:
            remedy = " or put contention first" if self.conflict else ""
            raise InputError(
                f"{gang.name}: costs may not fit 64-bit integers; lower its weight{remedy}"
            )
        return np.int32 if most < 2**31 else np.int64

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
        leaves = self.room < self.gang.tasks
        if partial.nodes:
            first = next(iter(partial.nodes))
            alone = len(partial.nodes) == 1
            leaves |= ~(alone & (np.arange(len(self.room)) == first))
        return leaves

    def has_to_leave_rack(self, partial: Partial) -> NDArray[np.bool_]:
        """Whether the gang will use uplinks if its next task comes to each rack.

        And will use interfaces: one that stays on a node uses neither.
        """
        leaves = ~self.whole
        if partial.racks:
            first = next(iter(partial.racks))
            alone = len(partial.racks) == 1
            leaves |= ~(alone & (np.arange(len(self.whole)) == first))
        return leaves

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
        for link, flows in self._crossed(partial):
            total += self.row(link, flows)
        return total

    def conflicts(self, partial: Partial, offset: int) -> int:
        """Return on how many links tasks are in conflict at an offset, whatever comes first."""
        return sum(bool(self.row(*crossed)[offset]) for crossed in self._crossed(partial))

    def _crossed(self, partial: Partial) -> Iterator[tuple[int, int]]:
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
