"""What rings in order of rank put on links, against all tasks counted in full."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from benchmarks.registry import Figure, benchmark
from metronome_opt import solve
from metronome_opt.instance import Instance
from metronome_opt.scenario import Scenario, build_scenario, locate, read_scenario
from metronome_opt.scenario.network import AllReduce
from metronome_opt.slowdown.times import Times
from metronome_opt.verify import evaluate

_SOLVE_S = 10
_NO_RINGS = ("GPT3", "DLRM")  # whose traffic is more than an all-reduce among all workers


@benchmark("How much less do rings in order of rank put on links, and what does that bring?")
def rings(small: bool) -> Iterator[Figure]:
    """Solve shipped scenarios, and the main one packed onto few nodes, both ways."""
    scenarios = [read_scenario(locate(name)) for name in ("two-racks", "paper-24")]
    scenarios.append(_packed(scenarios[1]))
    for scenario in scenarios[: 1 if small else None]:
        for allreduce in ("tasks", "ring"):
            instance = build_scenario(_reducing(scenario, allreduce)).instance
            yield from _figures(f"{scenario.name}, {allreduce}", instance, 1 if small else _SOLVE_S)


def _packed(scenario: Scenario) -> Scenario:
    """Return a scenario whose tasks fill node after node, in the order of the jobs.

    Counted in full they send so long that the hyperperiod is twice as long as well.
    """
    machines = scenario.cluster.gpus_of
    places = iter([node for node, gpus in machines.items() for _ in range(gpus)])
    jobs = [
        job.model_copy(update={"nodes": tuple(islice(places, job.workers))})
        for job in scenario.jobs
    ]
    changes = {"name": f"{scenario.name} packed", "hyperperiod_ms": 3000, "jobs": tuple(jobs)}
    return scenario.model_copy(update=changes)


def _reducing(scenario: Scenario, allreduce: AllReduce) -> Scenario:
    jobs = [
        job.model_copy(update={"allreduce": "tasks" if job.model in _NO_RINGS else allreduce})
        for job in scenario.jobs
    ]
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def _figures(what: str, instance: Instance, seconds: float) -> Iterator[Figure]:
    loads = {
        link.name: sum(
            (
                Fraction(job.links[link.name] * job.volume, job.period * link.capacity)
                for job in instance.jobs
                if link.name in job.links
            ),
            Fraction(0),
        )
        for link in instance.links
    }
    uplinks = {link for link in loads if link.endswith("uplink")}
    yield Figure(f"{what}: fullest uplink", float(100 * max(loads[link] for link in uplinks)), "%")
    nics = loads.keys() - uplinks
    yield Figure(f"{what}: fullest interface", float(100 * max(loads[n] for n in nics)), "%")
    unshifted = evaluate(instance, instance.unshifted, {}).contention
    least = solve(instance, time_limit=seconds, workers=2, objective="contention")
    yield Figure(f"{what}: contention, unshifted", float(unshifted), "Mbit/s")
    yield Figure(f"{what}: contention, solved", float(least.evaluation.contention), "Mbit/s")
    times = Times.of(solve(instance, time_limit=seconds, workers=2))
    before, after = (statistics.mean(map(float, its.values())) for its in times)
    yield Figure(f"{what}: mean iteration, unshifted", before, "ms")
    yield Figure(f"{what}: mean iteration, solved", after, "ms")
