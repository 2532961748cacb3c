"""Jobs as allocation sees them: tasks, resources, and traffic by place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from metronome_opt.scenario.cluster import ANY_COST
from metronome_opt.scenario.collectives import Algorithm, Transport
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_traffic import JobTraffic
from metronome_opt.scenario.nodes import Resources

UNKNOWN_MS = 3_600_000.0
"""Expected length of a job that does not say how long it runs."""


@dataclass(frozen=True)
class JobRequest:
    """A job that runs or waits.

    Attributes
    ----------
    tasks, task_resources
        The number of its tasks, and what one of them needs.
    traffic
        Returns its iteration at a place.
    best_ms
        Its shortest iteration in the empty cluster.
    algorithm
        How its collectives cross the network.
    weight
        Priority, larger is more important.
    length_ms
        How long it still runs with a network of its own; None if that is not known.
    most_racks
        The number of racks that it may span; None for any number.
    nodes
        The only nodes that it may have, one per task; None for any.
    max_network_cost
        The largest network cost from a task to the next one.
    is_short
        Whether its iteration at a place is short enough for the hyperperiod; None: at any place.
    """

    name: str
    tasks: int
    task_resources: Resources
    traffic: Callable[[Transport], Iteration]
    best_ms: float
    algorithm: Algorithm = "tasks"
    weight: int = 1
    length_ms: float | None = None
    most_racks: int | None = None
    nodes: tuple[str, ...] | None = None
    max_network_cost: int = ANY_COST
    is_short: Callable[[Transport], bool] | None = None

    @classmethod
    def of_traffic(
        cls,
        traffic: JobTraffic,
        profile: Callable[[Transport], Iteration],
        best_ms: float,
        length_ms: float,
    ) -> JobRequest:
        """Return a job of a scenario on any nodes, given its iteration at a place."""
        spec = traffic.job
        return cls(
            name=spec.name,
            tasks=spec.workers,
            task_resources=spec.each,
            traffic=profile,
            best_ms=best_ms,
            algorithm=traffic.algorithm,
            weight=spec.priority,
            length_ms=length_ms,
            max_network_cost=spec.max_network_cost,
        )

    @property
    def cost_weight(self) -> int:
        """The weight of its time, at least 1."""
        return max(1, self.weight)

    @property
    def gpus(self) -> int:
        """The number of GPUs of all its tasks."""
        return self.tasks * self.task_resources.gpus

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


@dataclass(frozen=True)
class PlacedJob:
    """A job with its placement."""

    job: JobRequest
    placement: Placement

    @cached_property
    def profile(self) -> Iteration:
        """Its iteration there."""
        return self.job.traffic(self.placement.transport)

    @cached_property
    def loss(self) -> float:
        """The share by which that iteration is longer than its best one."""
        return self.job.loss(self.placement.transport)
