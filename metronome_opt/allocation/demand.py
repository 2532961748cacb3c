"""Jobs as allocation sees them: tasks, resources, and traffic by the rate that places allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from metronome_opt.engine.runner import Pattern
from metronome_opt.scenario.network import ANY_COST, AllReduce, Resources

UNKNOWN_MS = 3_600_000.0
"""Expected length of a job that does not say how long it runs."""


@dataclass(frozen=True)
class Demand:
    """A job that runs or waits.

    Attributes
    ----------
    tasks, each
        Their number, and what one task needs.
    traffic
        The iteration of a task that may send at a rate, in Mbit/s.
    allreduce
        What tasks put on links, see `metronome_opt.scenario.network.Cluster.placement`.
    weight
        Priority, larger is more important.
    length_ms
        How long it still runs with a network of its own; None if it is not known.
    most_racks
        How many racks it may span; None for any number.
    max_network_cost
        The largest network cost from a task to the next one.
    min_rate
        Links have to allow each task so many Mbit/s.
    """

    name: str
    tasks: int
    each: Resources
    traffic: Callable[[int], Pattern]
    allreduce: AllReduce = "tasks"
    weight: int = 1
    length_ms: float | None = None
    most_racks: int | None = None
    max_network_cost: int = ANY_COST
    min_rate: int = 1

    @property
    def worth(self) -> int:
        """The weight of its time; no job is worth nothing."""
        return max(1, self.weight)

    @property
    def expected_ms(self) -> float:
        """How long it is expected to run."""
        return UNKNOWN_MS if self.length_ms is None else self.length_ms

    def slowness(self, rate: int, nic: int) -> float:
        """Return by what share it is slower at a rate than at that of an interface, in Mbit/s."""
        return self.traffic(rate).alone_ms / self.traffic(nic).alone_ms - 1
