"""Clusters whose jobs have no nodes: ``python -m benchmarks.testbed.placed`` writes the cases.

Three clusters of four racks are drawn, each with four to six jobs, and placed in three ways: spread
by free GPUs, at the nearest nodes, and as `metronome_opt.solve` does. On the test bed run the jobs
that use uplinks; one inside a rack is as fast as alone, since interfaces have room for all.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
import yaml

from benchmarks.testbed.agreement import compare
from benchmarks.testbed.cases import FORMAT, BedJob, Case, read_cases
from benchmarks.testbed.network import GOODPUT
from benchmarks.testbed.run import BedRun
from metronome_opt import allocate
from metronome_opt.allocation.scenario_search import nearest
from metronome_opt.problem.instance import Sharing
from metronome_opt.scenario import Scenario, build_scenario, spread

FILE = Path(__file__).with_name("placed.yaml")

_CLUSTERS, _RACKS, _NODES_OF_A_RACK, _GPUS = 3, 4, 3, 2
_WORKERS = (2, 3, 4, 7, 8)
_PERIODS, _SHARES = (300, 360, 400, 450), (0.25, 0.35, 0.45)  # ms, and of the period
_MBPS = round(200 * GOODPUT)  # of an uplink, and of a job; an interface has room for two jobs
_LIMIT_S = 20.0


def draw_jobs(seed: int) -> Mapping[str, tuple[int, BedJob]]:
    """Return jobs and how many workers each has.

    Together they need all GPUs, or all but one; at least three are larger than a rack.
    """
    draw = random.Random(seed)
    rack = _NODES_OF_A_RACK * _GPUS
    workers: list[int] = []
    while _RACKS * rack - sum(workers) not in (0, 1) or sum(n > rack for n in workers) < 3:
        workers = [draw.choice(_WORKERS) for _ in range(draw.randint(4, 6))]
    jobs = {}
    for name, count in zip("abcdef", workers, strict=False):
        period = draw.choice(_PERIODS)
        length = 10 * round(period * draw.choice(_SHARES) / 10)
        jobs[name] = count, BedJob(period=period, bursts=((0, length),))
    return jobs


def scenario(name: str, jobs: Mapping[str, tuple[int, BedJob]]) -> Scenario:
    """Return the cluster with the jobs, which say nothing of nodes."""
    bursts = {
        each: [
            {"start_ms": start, "length_ms": length, "rate_gbps": _MBPS / 1000}
            for start, length in job.bursts
        ]
        for each, (_, job) in jobs.items()
    }
    return Scenario.from_dict(
        {
            "format": "metronome-scenario/1",
            "name": name,
            "slot_ms": 10,
            "cluster": {
                "topology": "leaf-spine",
                "nodes": _RACKS * _NODES_OF_A_RACK,
                "racks": _RACKS,
                "gpus": _GPUS,
                "nic_gbps": _GPUS * _MBPS / 1000,
                "oversubscription": f"{_GPUS * _NODES_OF_A_RACK}:1",
            },
            "patterns": {
                each: {"period_ms": job.period, "phases": bursts[each]}
                for each, (_, job) in jobs.items()
            },
            "jobs": [
                {"name": each, "traffic": each, "workers": workers, "allreduce": "ring"}
                for each, (workers, _) in jobs.items()
            ],
        }
    )


def cases() -> Iterator[Case]:
    """Yield the cases: each cluster, placed in each way."""
    for seed in range(_CLUSTERS):
        jobs = draw_jobs(seed)
        asked = scenario(f"cluster-{seed}", jobs)
        racks = {node.name: node.rack for node in asked.cluster.nodes}
        order = list(dict.fromkeys(racks.values()))
        for way, nodes in _ways(asked).items():
            placed = []
            for name, (_, job) in jobs.items():
                used = sorted({order.index(racks[node]) for node in nodes[name]})
                if len(used) > 1:
                    placed.append(job.model_copy(update={"racks": tuple(used)}))
            yield Case(
                name=f"{asked.name}-{way}", split="test", network="four-racks", jobs=tuple(placed)
            )


def _ways(asked: Scenario) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the nodes of each job's tasks: spread, nearest, and as they are solved."""
    ways: dict[str, Mapping[str, Sequence[str]]] = {}
    for way, problem in (("spread", build_scenario(spread(asked))), ("nearest", nearest(asked))):
        nodes: dict[str, list[str]] = defaultdict(list)
        for task in problem.deployment.tasks:
            nodes[task.job].append(task.node)
        ways[way] = nodes
    solved = allocate(asked, time_limit=_LIMIT_S, seed=0, threads=2).schedule
    return ways | {"ours": solved.places or {}}


def summary(runs: Sequence[BedRun], sharing: Sharing | None = None) -> pd.DataFrame:
    """Return the mean slowdown of all jobs of a cluster, by its placement and the mode.

    It is that of the test bed, without the first iterations, in which gated jobs wait for their
    windows; or that of the simulator, if it is told how links are shared.
    """
    cases = {case.name: case for case in read_cases(FILE)}
    table = compare([*cases.values()], runs, sharing or "tcp", seeds=9, skip=1)
    times = table["real_ms" if sharing is None else "simulated_ms"] / table["period_ms"]
    table["cluster"], _, table["placed"] = zip(
        *table["case"].str.rpartition("-").values, strict=True
    )
    rows = table.assign(extra=times - 1).groupby(["cluster", "placed", "mode"])["extra"].sum()
    counts = [len(draw_jobs(int(name[0].removeprefix("cluster-")))) for name in rows.index]
    return (1 + rows / counts).unstack("cluster")


def main() -> None:
    """Write the cases."""
    made = [case.model_dump(mode="json", exclude_defaults=True) for case in cases()]
    head = f"# Written by `python -m benchmarks.testbed.placed`.\nformat: {FORMAT}\n"
    FILE.write_text(
        head + yaml.safe_dump({"cases": made}, sort_keys=False, default_flow_style=None)
    )


if __name__ == "__main__":
    main()
