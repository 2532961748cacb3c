"""Claims applied to a real API server: time and memory."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from benchmarks.registry import Figure, benchmark
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kubernetes import build_manifests, write_manifests
from metronome_opt.scenario.deployment import Deployment, Node, Task
from metronome_opt.schedule import Schedule, Status
from tests.kubernetes.cluster.measured import run_measured
from tests.kubernetes.cluster.server import ApiServer, binaries

_TASKS = 8
_FEW, _MANY = 200, 2_000
_TINY = (16, 32)


@benchmark("How long does a cluster take to hold 2,000 claims, and how much memory does that take?")
def cluster_apply(small: bool) -> Iterator[Figure]:
    """Apply few and many claims with the command, each in a process of its own, then once more."""
    programs = binaries()
    if programs is None or (small and os.environ.get("METRONOME_TEST_APISERVER") != "1"):
        sys.stderr.write(
            "cluster-apply: needs etcd and kube-apiserver, on PATH or in "
            "~/.cache/kube-apiserver/bin; METRONOME_TEST_APISERVER=1 starts them in a small run\n"
        )
        return
    few, many = _TINY if small else (_FEW, _MANY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "server").mkdir()
        server = ApiServer(folder / "server", programs)
        try:
            server.start()
            _export(folder / "few", few, "few")
            _export(folder / "many", many, "many")
            first = _apply(server, folder / "few")
            applied = _apply(server, folder / "many")
            again = _apply(server, folder / "many")
        finally:
            server.stop()
    wanted = f"in all {many + many // _TASKS} created"
    if wanted not in applied.said:
        raise RuntimeError(f"no line says {wanted}: {applied.said}")
    yield Figure(f"apply {many} claims", applied.seconds, "s", "<= 60")
    yield Figure("processor time of the command for it", applied.busy, "s")
    yield Figure("the same once more", again.seconds, "s")
    yield Figure("peak memory of the command", applied.megabytes, "MB")
    yield Figure(
        f"peak memory beyond that for {few}",
        max(0.0, applied.megabytes - first.megabytes),
        "MB",
        "<= 64",
    )


@dataclass(frozen=True)
class _Run:
    seconds: float
    busy: float
    megabytes: float
    said: str


def _apply(server: ApiServer, folder: Path) -> _Run:
    arguments = ["claims", "apply", str(folder), "--definitions"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    lines, peak = run_measured([*arguments, "--kubeconfig", str(server.kubeconfig())])
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Run(seconds, busy, peak / 1024, "\n".join(lines))


def _export(folder: Path, claims: int, name: str) -> None:
    """Write the claims of jobs with eight tasks each, as many nodes as jobs."""
    count = claims // _TASKS
    nodes = [f"{name}-{index}" for index in range(count)]
    jobs = [f"{name}-job-{index}" for index in range(count)]
    places = {
        job: [nodes[(index + step) % count] for step in range(_TASKS)]
        for index, job in enumerate(jobs)
    }
    instance = Instance(
        name=name,
        slot_ms=5,
        links=tuple(Link(name=node, capacity=400_000) for node in nodes),
        jobs=tuple(
            Job(
                name=job,
                period=40,
                phases=(Phase(start=0, length=4, rate=25_000),),
                links={node: places[job].count(node) for node in places[job]},
            )
            for job in jobs
        ),
    )
    deployment = Deployment(
        nodes=tuple(Node(node, (node,)) for node in nodes),
        tasks=tuple(
            Task(job, index, node, (node,))
            for job in jobs
            for index, node in enumerate(places[job])
        ),
        rack_cost={},
    )
    schedule = Schedule(
        instance=name,
        offsets=dict.fromkeys(jobs, 0),
        stretch={},
        status=Status.FEASIBLE,
        objectives={"contention": Fraction(0)},
        lower_bound=None,
        solver="unshifted",
        seed=0,
        runtime_s=0.0,
    )
    write_manifests(build_manifests(instance, schedule, deployment), folder)
