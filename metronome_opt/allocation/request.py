"""Jobs as allocation sees them: tasks, resources, and traffic by place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from metronome_opt.scenario.cluster import ANY_COST
from metronome_opt.scenario.collectives import Algorithm, Transport
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.nodes import Resources

UNKNOWN_MS = 3_600_000.0
"""Expected length of a job that does not say how long it runs."""


@dataclass(frozen=True)
class JobRequest:
    """A job that runs or waits.

    Attributes
    ----------
    tasks, each
        Their number, and what one task needs.
    traffic
        Its iteration at a place.
    best_ms
        Its shortest iteration in the empty cluster.
    algorithm
        How its collectives cross the network.
    weight
        Priority, larger is more important.
    length_ms
        How long it still runs with a network of its own; None if it is not known.
    most_racks
        How many racks it may span; None for any number.
    nodes
        The only nodes that it may have, one per task; None for any.
    max_network_cost
        The largest network cost from a task to the next one.
    is_short
        Whether its iteration at a place is short enough for the hyperperiod; None: at any place.
    """

    name: str
    tasks: int
    each: Resources
    traffic: Callable[[Transport], Iteration]
    best_ms: float
    algorithm: Algorithm = "tasks"
    weight: int = 1
    length_ms: float | None = None
    most_racks: int | None = None
    nodes: tuple[str, ...] | None = None
    max_network_cost: int = ANY_COST
    is_short: Callable[[Transport], bool] | None = None

    @property
    def cost_weight(self) -> int:
        """The weight of its time; no job is worth nothing."""
        return max(1, self.weight)

    @property
    def gpus(self) -> int:
        """The number of GPUs of its tasks together."""
        return self.tasks * self.each.gpus

    @property
    def expected_ms(self) -> float:
        """How long it is expected to run."""
        return UNKNOWN_MS if self.length_ms is None else self.length_ms

    def loss(self, transport: Transport) -> float:
        """Return by what share its iteration at a place is longer than the best one."""
        return self.traffic(transport).isolated_ms / self.best_ms - 1

    def fits(self, placement: Placement) -> bool:
        """Return whether its iteration at a place is not too long, and its links carry it."""
        if placement.bottleneck is not None and not placement.rate:
            return False
        return self.is_short is None or self.is_short(placement.transport)
