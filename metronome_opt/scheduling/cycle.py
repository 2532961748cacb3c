"""One gang and a cluster: what placing it needs to know (PreFilter), and what a place is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.state import ClusterState
from metronome_opt.errors import InputError
from metronome_opt.kernels.placing import Burden, cost_rows
from metronome_opt.kernels.sliding import first_offset, roomiest_offset
from metronome_opt.kernels.tables import Ints

Costs = NDArray[Any]
"""H times contention, weight * Mbit/s * slots, plus `Cycle.conflict` for each link in conflict.

32 bits wide where that is enough, else 64."""

_LARGEST = 2**62
_BEST_SCORE = 100


class Cycle:
    """One gang and the cluster as it is; of no use once the state has changed.

    Fewer conflicts are better than less contention. A link is in conflict at an offset at which the
    gang adds to its contention: however little is late, not all jobs there can keep their slots.
    Links are counted, not the weight of the jobs on them, since it is not known which would give
    way. Like contention, conflicts are a sum of a term for each link, and a gang that weighs
    nothing has none.

    Parameters
    ----------
    state, gang
        The cluster, and the gang that asks for a place.

    Attributes
    ----------
    conflict
        Cost of a link in conflict, more than all contention together.
    stretch, period
        Idle slots that the gang needs to keep in step, and its period with them.
    room, carried
        How many of its tasks each node has resources for, and its interface carries, (nodes,).
    uplinks
        The uplink of each rack, -1 for none, shape (racks,).
    lifted
        How many of its tasks the uplink of each rack carries, shape (racks,).
    holds
        How many of its tasks fit into each rack if they use interfaces, shape (racks,).

    Raises
    ------
    InputError
        If the gang's period does not fit the hyperperiod, or its costs 64-bit integers.
    """

    def __init__(self, state: ClusterState, gang: Gang) -> None:
        self.state, self.gang = state, gang
        hyperperiod = state.cluster.hyperperiod
        self.stretch = gang.stretch_for(hyperperiod)
        self.period = gang.period + self.stretch
        # No more than two links for each task, and bursts may be twice as long as a window.
        maximum = 4 * max(1, gang.weight) * gang.peak * gang.tasks * hyperperiod
        self.conflict = maximum // 2 + 1
        maximum += 2 * self.conflict * min(2 * gang.tasks, len(state.cluster.links))
        if maximum >= _LARGEST:
            raise InputError(f"{gang.name}: costs may not fit 64-bit integers; lower its weight")
        # All numbers of the kernels fit; narrow ones are twice as fast.
        self.dtype: type[np.int32] | type[np.int64] = np.int32 if maximum < 2**31 else np.int64
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
        carries: Ints = (state.capacity // gang.peak).clip(0, gang.tasks)
        self.carried: Ints = carries[state.interface]
        racks = int(state.rack.max()) + 1
        self.uplinks: Ints = np.full(racks, -1, dtype=np.int64)
        self.uplinks[state.rack] = state.uplink
        self.lifted: Ints = np.where(self.uplinks < 0, gang.tasks, carries[self.uplinks])
        self.holds: Ints = np.bincount(
            state.rack, weights=np.minimum(self.room, self.carried), minlength=racks
        ).astype(np.int64)

    def fragments(self, node: int, tasks: int) -> int:
        """Return by how much the free GPUs of a node in use grow if so many tasks come to it.

        A node without tasks has none of them: a large job can still have it as a whole.
        """
        whole, free = int(self.state.total[node, 0]), int(self.state.free[node, 0])
        left = free - tasks * self.gang.each.gpus
        return (left if left < whole else 0) - (free if free < whole else 0)

    def row(self, link: int, flows: int) -> Costs:
        """Return the costs of some tasks of the gang on a link, by offset, shape (T,)."""
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

    def crossed(self, nodes: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield the links that tasks on some nodes cross, and how many do."""
        on = Counter(nodes)
        if len(on) > 1:
            for node, count in on.items():
                yield int(self.state.interface[node]), count
        racks = Counter(self.state.rack[list(on.elements())].tolist())
        if len(racks) > 1:
            for rack, count in racks.items():
                if self.uplinks[rack] >= 0:
                    yield int(self.uplinks[rack]), count


@dataclass(frozen=True)
class PlaceDecision:
    """A place for all tasks of a gang, in their best rotation there; nothing is reserved yet.

    Attributes
    ----------
    nodes
        Indices, one per task, ascending.
    offset
        Of the job's pattern, in slots.
    cost
        What it adds to H times the contention, weight * Mbit/s * slots.
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
    conflicts: int
    cost: int
    cushion: int
    racks: int
    fragments: int

    @property
    def contention(self) -> Fraction:
        """The contention that it adds, in weight * Mbit/s."""
        return Fraction(self.cost, self.cycle.state.cluster.hyperperiod)

    @property
    def score(self) -> int:
        """100 if nothing is late, 0 if all that the job sends were, rounded down.

        All links in conflict but one come on top, as a share of the links that it crosses.
        """
        cycle = self.cycle
        if not self.cost:
            return _BEST_SCORE
        flows = sum(tasks for _, tasks in cycle.crossed(self.nodes))
        repeats = cycle.state.cluster.hyperperiod // cycle.period
        all_late = cycle.gang.weight * cycle.gang.volume * repeats * flows
        late = min(-(-_BEST_SCORE * self.cost // all_late), _BEST_SCORE)
        return _BEST_SCORE - -(-(_BEST_SCORE * (self.conflicts - 1) + late) // flows)

    @cached_property
    def claim(self) -> Reservation:
        """Reservation to be made."""
        hosts = self.cycle.state.cluster.nodes
        return Reservation(
            gang=self.cycle.gang,
            nodes=tuple(hosts[node].name for node in self.nodes),
            offset=self.offset,
            stretch=self.cycle.stretch,
        )


def decide(cycle: Cycle, nodes: Iterable[int]) -> PlaceDecision:
    """Return the decision to run tasks on some nodes, at the best offset.

    Of several offsets of minimum cost the one with the largest cushion, then that of the shortest
    wait.
    """
    nodes = tuple(sorted(nodes))
    rows = [cycle.row(link, flows) for link, flows in cycle.crossed(nodes)]
    costs: Costs = sum(rows, np.zeros(cycle.period, dtype=cycle.dtype))
    minimum, ready, cushion = int(costs.min()), cycle.burden.ready, 0
    if minimum:
        offset = int(first_offset(costs, minimum, ready))
    else:
        offset, cushion = map(int, roomiest_offset(costs, ready))
    conflicts = sum(bool(row[offset]) for row in rows)
    return PlaceDecision(
        cycle,
        nodes,
        offset,
        conflicts=conflicts,
        cost=minimum - conflicts * cycle.conflict,
        cushion=cushion,
        racks=len(set(cycle.state.rack[list(nodes)].tolist())),
        fragments=sum(cycle.fragments(node, tasks) for node, tasks in Counter(nodes).items()),
    )
