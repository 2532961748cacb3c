"""Slowdown by priority, delay second, and strict priority, side by side."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from metronome_opt import allocate
from metronome_opt.bench.suites import read_suite
from metronome_opt.problem.instance import Instance, read_instance
from metronome_opt.problem.result import Result
from metronome_opt.scenario import Scenario, read_scenario

_LIMIT_S = 20
_MOST_NODES = 24  # of clusters for which there is enough time
AIMS: dict[str, dict[str, Any]] = {
    "slowdown": {"objective": "slowdown"},
    "slowdown, delay": {"objective": ("slowdown", "delay")},
    "strict": {"objective": "strict"},
    "strict, 20 %": {"objective": "strict", "max_loss": "20%"},
}


@benchmark("What do delay as the second objective and strict priority change?")
def aims(small: bool) -> Iterator[Figure]:
    """Solve stored instances for each aim; times are over those of a job alone at its best place.

    At given places for TCP, so that a part of the jobs that meet may be gated.
    """
    for family in ("weights", "allocation"):
        entries = read_suite(SUITES / family).entries("test")
        files = [SUITES / family / entry.file for entry in entries]
        read = read_scenario if family == "allocation" else read_instance
        problems = [read(file) for file in files]
        network = None if family == "allocation" else "tcp"
        fitting = [each for each in problems if _nodes(each) <= _MOST_NODES]
        for aim, terms in AIMS.items():
            rows = [
                _measured(allocate(each, time_limit=_LIMIT_S, threads=2, network=network, **terms))
                for each in fitting[: 1 if small else None]
            ]
            for name in rows[0]:
                mean = statistics.mean(row[name] for row in rows)
                yield Figure(f"{family}, {aim}: {name}", mean, "of alone")


def _nodes(problem: Instance | Scenario) -> int:
    return len(problem.cluster.nodes) if isinstance(problem, Scenario) else 0


def _measured(result: Result) -> dict[str, float]:
    """Return mean and largest iteration times, all jobs and those of the largest weight alone."""
    instance, times = result.instance, result.schedule.expected_ms or {}
    alone = {job.name: float(instance.best_ms(job)) for job in instance.jobs}
    slower = {name: float(times[name]) / ms for name, ms in alone.items()}
    weights = {job.name: job.weight for job in instance.jobs}
    heaviest = [slower[name] for name, weight in weights.items() if weight == max(weights.values())]
    return {
        "slowdown": statistics.fmean(slower.values(), weights=list(weights.values())),
        "all jobs alike": statistics.fmean(slower.values()),
        "slowest job": max(slower.values()),
        "heaviest jobs": statistics.fmean(heaviest),
    }
