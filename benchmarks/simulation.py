"""Speed and memory of the simulator, and their growth with the cluster.

Times on one core are those of the thread that computes, so that other programs, which only take
turns with it, are not in them.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from metronome_opt.bench.suites import read_suite
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob
from metronome_opt.problem.instance import Instance
from metronome_opt.simulation import simulate
from metronome_opt.simulation.study import STUDIES, read_study

_ROOT = SUITES.parent.parent
_SIZES = (64, 128, 256, 512, 1024)  # nodes of the stored fabrics


@benchmark("How many events a second does the simulator get through on one core?")
def simulation_speed(small: bool) -> Iterator[Figure]:
    """Run jobs of a stored instance without end, then a scenario of a study to its end."""
    name = "fabric-64" if small else "fabric-256"
    (instance,) = _fabrics(f"{name}-test-0")
    events, seconds = _best_run(instance, 5 if small else 600, 1 if small else 5)
    yield Figure(f"{name}-test-0, unshifted", events, "events")
    yield Figure(f"{name}-test-0, unshifted", events / seconds, "events a second", ">= 500000")

    study = read_study(_ROOT / STUDIES / "fabric-256.yaml")
    for cell in study.cells[:1] if small else study.cells:
        scenario = study.scenario(cell, seed=0)
        horizon = study.conditions_of(cell).model_copy(update={"horizon_s": 5.0})
        conditions = horizon if small else study.conditions_of(cell)
        simulate(scenario, "default", conditions=horizon)  # compiles, or loads what is compiled
        start = time.thread_time()
        run = simulate(scenario, "default", conditions=conditions)
        seconds = time.thread_time() - start
        yield Figure(f"study fabric-256, {cell.label}, default", run.events, "events")
        yield Figure(
            f"study fabric-256, {cell.label}, default, arrivals and all",
            run.events / seconds,
            "events a second",
        )


@benchmark("What does an event cost as the cluster grows, with as many jobs on every node?")
def event_cost(small: bool) -> Iterator[Figure]:
    """Run the stored fabrics of each size, unshifted, for about as many events each."""
    costs: dict[int, float] = {}
    for nodes in _SIZES[:2] if small else _SIZES:
        until = (5 if small else 600) * _SIZES[0] / nodes
        runs = [
            _best_run(instance, until, 1 if small else 5)
            for instance in _fabrics(f"fabric-{nodes}-test-")
        ]
        costs[nodes] = median(1e6 * seconds / events for events, seconds in runs)
        yield Figure(f"{nodes} nodes", costs[nodes], "us an event")
    for nodes in list(costs)[1:]:
        yield Figure(f"{nodes} nodes, over {_SIZES[0]}", costs[nodes] / costs[_SIZES[0]], "times")


_MEASURED = """
import json, resource, sys, time
from benchmarks.simulation import run_jobs
run_jobs(1.0 / 3600)  # compiles, or loads what is compiled
start, used = time.perf_counter(), time.process_time()
events = run_jobs(float(sys.argv[1]))
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "core_seconds": time.process_time() - used,
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "events": events,
}))
"""


@benchmark("How long do 24 simulated hours of 1,024 nodes take, and how much memory?")
def simulation_day(small: bool) -> Iterator[Figure]:
    """Run 489 jobs all day in a process whose memory is measured."""
    hours = 0.01 if small else 24
    name = f"jobs of fabric-1024-test-0, {hours} h"
    output = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(hours)],
        check=True,
        capture_output=True,
        text=True,
        cwd=_ROOT,
    ).stdout
    found = json.loads(output)
    yield Figure(name, found["seconds"], "s", "<= 600")
    yield Figure(f"{name}: on the core", found["core_seconds"], "s")
    yield Figure(f"{name}: peak memory of the process", found["megabytes"], "MB", "<= 2000")
    yield Figure(f"{name}: events", found["events"], "")


def run_jobs(hours: float) -> int:
    """Run the jobs of the stored fabric-1024-test-0, unshifted; return how many events happen."""
    (instance,) = _fabrics("fabric-1024-test-0")
    engine = _unshifted(instance)
    engine.run(3.6e6 * hours)
    return engine.events


def _fabrics(beginning: str) -> list[Instance]:
    """Return the stored fabrics whose names begin so."""
    suite = read_suite(SUITES / "fabric")
    names = [entry.name for entry in suite.index.instances if entry.name.startswith(beginning)]
    return [member.instance for member in suite.members(names=names)]


def _best_run(instance: Instance, until_s: float, repeats: int) -> tuple[int, float]:
    """Return how many events so many seconds of an instance bring, and the least time it takes."""
    _unshifted(instance).run(1000.0)  # compiles, or loads what is compiled
    least = math.inf
    for _ in range(repeats):
        engine = _unshifted(instance)
        start = time.thread_time()
        engine.run(1000.0 * until_s)
        least = min(least, time.thread_time() - start)
    return engine.events, least


def _unshifted(instance: Instance) -> Engine:
    """Return the jobs of an instance on its network, each to begin when it is ready, for ever."""
    engine = Engine(
        {link.name: link.capacity for link in instance.links}, EngineJob.of_instance(instance)
    )
    for index, job in enumerate(instance.jobs):
        engine.start_job(index, job.links, at=float(job.ready * instance.slot_ms))
    return engine
