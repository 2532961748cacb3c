"""`allocation`: scenarios whose jobs do not say where they run, on clusters nearly full."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from benchmarks.families.family import Family, Parameters, cases

GPUS, NIC = 4, 100  # of a node, and Gbit/s
WORKERS = (3, 4, 5, 6, 7, 9, 14)
PERIODS = (240, 300, 320, 400, 450)  # ms
PATTERNS = 4


def generate(
    name: str, seed: int, *, nodes: int, racks: int, oversubscription: int, fill_percent: int
) -> Mapping[str, Any]:
    """Return jobs of four kinds of traffic, as many as fit into a leaf-spine cluster.

    An iteration has one burst at its end, for 0.2 to 0.45 of it. Two to four tasks together send as
    fast as an interface.

    Parameters
    ----------
    name, seed
        The same seed gives the same scenario.
    nodes, racks, oversubscription
        Of the cluster.
    fill_percent
        GPUs that are asked for, over those that there are; the last job has what is left of it.
    """
    draw = random.Random(seed)
    patterns = {}
    for index in range(PATTERNS):
        period = draw.choice(PERIODS)
        length = 10 * round(period * draw.uniform(0.2, 0.45) / 10)
        burst = {"start_ms": period - length, "length_ms": length}
        rate = NIC // draw.randint(2, 4)
        patterns[f"traffic-{index}"] = {
            "period_ms": period,
            "phases": [burst | {"rate_gbps": rate}],
        }
    jobs: list[Mapping[str, Any]] = []
    free = nodes * GPUS * fill_percent // 100
    while free > 1:
        workers = min(draw.choice(WORKERS), free)
        free -= workers
        jobs.append(
            {
                "name": f"job-{len(jobs)}",
                "traffic": f"traffic-{draw.randrange(PATTERNS)}",
                "workers": workers,
                "allreduce": draw.choice(("tasks", "ring")),
                "priority": draw.choice((1, 1, 2, 4)),
            }
        )
    cluster = {"topology": "leaf-spine", "nodes": nodes, "gpus": GPUS, "nic_gbps": NIC}
    return {
        "format": "metronome-scenario/1",
        "name": name,
        "slot_ms": 10,
        "cluster": cluster | {"racks": racks, "oversubscription": oversubscription},
        "patterns": patterns,
        "jobs": jobs,
    }


_RACKS = {4: 2, 8: 2, 24: 3, 64: 8, 128: 8}


def _sizes(rows: tuple[tuple[int, int, int], ...]) -> list[tuple[str, Parameters]]:
    return [
        (
            str(nodes),
            {
                "nodes": nodes,
                "racks": _RACKS[nodes],
                "oversubscription": ratio,
                "fill_percent": fill,
            },
        )
        for nodes, ratio, fill in rows
    ]


_TEST = (
    *((4, 2, 100), (4, 4, 95), (8, 2, 100), (8, 4, 95), (24, 2, 100), (24, 4, 95)),
    *((64, 2, 100), (64, 4, 95), (128, 4, 100)),
)
_TUNE = ((4, 2, 95), (8, 2, 95), (8, 4, 100), (24, 2, 95), (24, 4, 100), (64, 4, 100))

FAMILY = Family(
    name="allocation",
    about="jobs without places on 4 to 128 nodes, 95 or 100 % of the GPUs asked for",
    version=1,
    time_limit_s=10,
    cases=cases("allocation", generate, test=_sizes(_TEST), tune=_sizes(_TUNE)),
)
