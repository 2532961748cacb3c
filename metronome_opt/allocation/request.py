"""Jobs as allocation sees them: tasks, resources, and traffic by placement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property

from metronome_opt.errors import InputError
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.scenario.collectives import Algorithm, Transport
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_traffic import JobTraffic
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.placement_limits import NO_LIMITS, PlacementLimits
from metronome_opt.scenario.scenario_file import Scenario

UNKNOWN_MS = 3_600_000.0
"""Expected length of a job that does not say how long it runs."""

_LENGTH_MS = 1.0  # of the jobs of a scenario: none ends before another one
_OUTWEIGHS = 10  # a mean the next one: 1 % in one is as much as 10 % in the other


@dataclass(frozen=True)
class JobRequest:
    """A job that runs or waits."""

    name: str
    # the number of its tasks, and what one of them needs
    tasks: int
    task_resources: Resources
    traffic: Callable[[Transport], Iteration]  # returns its iteration at a placement
    best_ms: float  # its shortest iteration in the empty cluster
    algorithm: Algorithm = "tasks"  # how its collectives cross the network
    weight: int = 1  # priority, larger is more important
    # how long it still runs with a network of its own; None if that is not known
    length_ms: float | None = None
    # the only nodes that it may have, one per task; None for any
    nodes: tuple[str, ...] | None = None
    limits: PlacementLimits = NO_LIMITS  # on its nodes
    # whether its iteration at a placement fits the hyperperiod; None: at any placement
    is_short: Callable[[Transport], bool] | None = None

    @classmethod
    def of_traffic(cls, traffic: JobTraffic, length_ms: float | None) -> JobRequest:
        """Return a job of a scenario, on any nodes."""
        spec, isolated = traffic.job, cache(traffic.isolated)
        return cls(
            name=spec.name,
            tasks=spec.workers,
            task_resources=spec.each,
            traffic=isolated,
            best_ms=isolated(traffic.best).isolated_ms if traffic.best else math.inf,
            algorithm=traffic.algorithm,
            weight=spec.priority,
            length_ms=length_ms,
            limits=spec.limits,
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
        """Return by what share its iteration at a placement is longer than the best one."""
        return self.traffic(transport).isolated_ms / self.best_ms - 1

    def fits(self, placement: Placement) -> bool:
        """Return whether its iteration at a placement is not too long, and its links carry it."""
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


def job_requests(
    scenario: Scenario, traffic: Mapping[str, JobTraffic], mean_weights: MeanWeights | None = None
) -> Mapping[str, JobRequest]:
    """Return the jobs of a scenario by name, none of which ends; weights are priorities if None."""
    first, *others = mean_weights or ({job.name: job.priority for job in scenario.jobs},)
    weights = dict(first)  # in one sum, in which a mean outweighs the next ones
    for level in others:
        unit = _OUTWEIGHS * sum(level.values()) + 1
        weights = {name: unit * weight + level[name] for name, weight in weights.items()}
    return {name: _request(scenario, its, weights[name]) for name, its in traffic.items()}


def _request(scenario: Scenario, traffic: JobTraffic, weight: int) -> JobRequest:
    hyperperiod = scenario.hyperperiod_slots

    @cache
    def is_short(transport: Transport) -> bool:
        with suppress(InputError):
            # In slots, bursts that are stated are as fast as stated, whatever links carry.
            if traffic.isolated(transport).duration > (hyperperiod or 0) * scenario.slot_ms:
                return False
            return bool(traffic.period(transport, scenario.slot_ms, hyperperiod))
        return False

    return replace(
        JobRequest.of_traffic(traffic, _LENGTH_MS),
        weight=weight,
        nodes=traffic.job.nodes,
        is_short=None if hyperperiod is None else is_short,
    )
