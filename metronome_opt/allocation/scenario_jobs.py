"""The jobs of a scenario as allocation sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache

from metronome_opt.allocation.request import JobRequest
from metronome_opt.errors import InputError
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_traffic import JobTraffic
from metronome_opt.scenario.scenario_file import Scenario

_LENGTH_MS = 1.0  # of every job: none ends before another one
_OUTWEIGHS = 10  # a mean the next one: 1 % in one is as much as 10 % in the other


def job_requests(
    scenario: Scenario, traffic: Mapping[str, JobTraffic], mean_weights: MeanWeights | None = None
) -> Mapping[str, JobRequest]:
    """Return the jobs of a scenario by name, none of which ends.

    Parameters
    ----------
    traffic
        Of the jobs, by name.
    mean_weights
        Weights in the means that are minimised; None for the priorities, in one mean.
    """
    weights = _weights(scenario, mean_weights)
    return {name: _request(scenario, its, weights[name]) for name, its in traffic.items()}


def _weights(scenario: Scenario, mean_weights: MeanWeights | None) -> Mapping[str, int]:
    """Return weights of jobs in one sum, in which a mean outweighs the next ones."""
    first, *others = mean_weights or ({job.name: job.priority for job in scenario.jobs},)
    weights = dict(first)
    for level in others:
        unit = _OUTWEIGHS * sum(level.values()) + 1
        weights = {name: unit * weight + level[name] for name, weight in weights.items()}
    return weights


def _request(scenario: Scenario, traffic: JobTraffic, weight: int) -> JobRequest:
    job, hyperperiod = traffic.job, scenario.hyperperiod_slots

    @cache
    def profile(transport: Transport) -> Iteration:
        return traffic.isolated(transport)

    @cache
    def is_short(transport: Transport) -> bool:
        with suppress(InputError):
            # In slots, bursts that are stated are as fast as stated, whatever links carry.
            if traffic.isolated(transport).duration > (hyperperiod or 0) * scenario.slot_ms:
                return False
            return bool(traffic.period(transport, scenario.slot_ms, hyperperiod))
        return False

    best_ms = profile(traffic.best).isolated_ms if traffic.best else math.inf
    return replace(
        JobRequest.of_traffic(traffic, profile, best_ms, _LENGTH_MS),
        weight=weight,
        nodes=job.nodes,
        is_short=None if hyperperiod is None else is_short,
    )
