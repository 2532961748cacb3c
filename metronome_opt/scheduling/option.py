"""A place for a whole gang, and what it is worth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.kernels.sliding import first_offset, roomiest_offset
from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.cycle import Costs, Cycle, Partial

Price = tuple[int, int, int, tuple[int, ...]]
"""What is minimised, the first first: what it costs, racks, fragments, and then the order of nodes.

Costs are conflicts and then contention, or contention alone; see `Cycle`."""


@dataclass(frozen=True)
class Option:
    """All tasks of a gang on nodes, in their best rotation there.

    Attributes
    ----------
    nodes
        Indices, one per task, ascending.
    offset
        Of the job's pattern, in slots.
    least
        What it is compared by first, as `Cycle.cost` has it.
    conflicts
        Links to whose contention it adds.
    cost
        What it adds to H times the contention, weight * Mbit/s * slots.
    cushion
        Free slots on either side of every burst, 0 where something is late.
    racks
        How many it spans.
    fragments
        By how many the GPUs grow that are free on nodes in use; negative if fewer are left over.
    """

    nodes: tuple[int, ...]
    offset: int
    least: int
    conflicts: int
    cost: int
    cushion: int
    racks: int
    fragments: int

    @property
    def price(self) -> Price:
        """What options are compared by."""
        return self.least, self.racks, self.fragments, self.nodes

    def contention(self, cycle: Cycle) -> Fraction:
        """Return the contention that it adds, in weight * Mbit/s."""
        return Fraction(self.cost, cycle.state.cluster.hyperperiod)

    def claim(self, cycle: Cycle) -> Claim:
        """Return it as a claim."""
        hosts = cycle.state.cluster.nodes
        return Claim(
            gang=cycle.gang,
            nodes=tuple(hosts[node].name for node in self.nodes),
            offset=self.offset,
            stretch=cycle.stretch,
        )


def make_option(cycle: Cycle, partial: Partial) -> Option:
    """Return the option of running all tasks where they are, at the best offset."""
    nodes = tuple(sorted(Counter(dict(partial.nodes)).elements()))
    offset, least, cushion = best_offset(cycle, cycle.cost(partial))
    conflicts = cycle.conflicts(partial, offset)
    cost = least - conflicts * cycle.conflict
    fragments = sum(fragments_of(cycle, node, tasks) for node, tasks in partial.nodes.items())
    return Option(nodes, offset, least, conflicts, cost, cushion, len(partial.racks), fragments)


def best_offset(cycle: Cycle, costs: Costs) -> tuple[int, int, int]:
    """Return the offset of least cost, its cost and its cushion.

    Of several the one with the largest cushion, then that of the shortest wait.
    """
    least, ready = int(costs.min()), cycle.burden.ready
    if least:
        return int(first_offset(costs, least, ready)), least, 0
    offset, cushion = roomiest_offset(costs, ready)
    return int(offset), 0, int(cushion)


def fragments_of(cycle: Cycle, node: int, tasks: int) -> int:
    """Return by how many the free GPUs of a node in use grow if so many tasks come to it.

    A node that nobody uses has none of them: a large job can still have it as a whole.
    """
    state = cycle.state
    whole, free = int(state.total[node, 0]), int(state.free[node, 0])
    left = free - tasks * cycle.gang.each.gpus
    return (left if left < whole else 0) - (free if free < whole else 0)
