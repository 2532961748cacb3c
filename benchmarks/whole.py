"""How long whole commands take, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.registry import Figure, benchmark

_GREEDY = """
import json, resource, sys, time
from benchmarks.families.crowded import crowded
from metronome_opt import solve
racks, nodes, jobs = map(int, sys.argv[1:])
solve(crowded(2, 4, 4), "greedy", "contention")  # compiles, or loads what is compiled
instance = crowded(racks, nodes, jobs)
start = time.perf_counter()
result = solve(instance, "greedy", "contention")
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "unshifted": float(solve(instance, "unshifted", "contention").objective),
    "greedy": float(result.objective),
}))
"""


@benchmark("How long does greedy take on 1,000 nodes and 500 jobs, and how much memory?")
def greedy_at_scale(small: bool) -> Iterator[Figure]:
    """Time `solve(..., "greedy")`, judge included, in a process whose memory is measured."""
    size = ("4", "5", "10") if small else ("50", "20", "500")
    output = subprocess.run(
        [sys.executable, "-c", _GREEDY, *size], check=True, capture_output=True, text=True
    ).stdout
    found = json.loads(output)
    yield Figure("solve", found["seconds"], "s", "<= 1")
    yield Figure("peak memory of the process", found["megabytes"], "MB", "<= 500")
    yield Figure("contention, unshifted", found["unshifted"], "weight x Mbit/s")
    yield Figure("contention, greedy", found["greedy"], "weight x Mbit/s")


@benchmark("How soon after the call does the demo start to compute?")
def demo_start(small: bool) -> Iterator[Figure]:
    """Time from the call to the line that the demo prints before its first solver."""
    best = float("inf")
    for _ in range(1 if small else 4):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            with subprocess.Popen(
                [sys.executable, "-u", "-m", "metronome_opt", "demo", "--output", folder],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as process:
                assert process.stdout is not None
                process.stdout.readline()
                best = min(best, time.perf_counter() - start)
                process.kill()
    yield Figure("first line", best, "s", "<= 3")
