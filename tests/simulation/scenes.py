"""Scenarios of round numbers: interfaces of 100 Mbit/s, three models that compute and then burst.

A sample takes 10 ms to compute, so that the batch says for how long a job does. Two workers burst
for 10, 20 or 40 ms then, `Short`, `Middling` and `Long`; n of them for (n - 1) / n of twice as
long. GPUs of a node send to one another as fast as an interface, so that this is so on one node as
well, and the best iteration of a job is the one that it has there or on nodes of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metronome_opt.scenario import Scenario

_FOLDER = Path(__file__).parent


def switch(nodes: int, gpus: int, nic_mbps: int = 100) -> dict[str, Any]:
    """Return nodes behind one switch."""
    return {
        "topology": "single-switch",
        "nodes": nodes,
        "gpus": gpus,
        "nic_mbps": nic_mbps,
        "gpu": {
            "name": "GPU",
            "sustained_tflops": {"value": 3, "assumed": "for the tests"},
            "link_gbps": {"value": nic_mbps / 1000, "assumed": "as fast as an interface"},
        },
    }


def racks(count: int, nodes: int, gpus: int, oversubscription: str = "1:1") -> dict[str, Any]:
    """Return racks of so many nodes each."""
    return {
        **switch(count * nodes, gpus),
        "topology": "leaf-spine",
        "racks": count,
        "oversubscription": oversubscription,
    }


def work(name: str, *nodes: int, model: str = "Middling", **fields: Any) -> dict[str, Any]:
    """Return a job with a task on each of the nodes, or wherever there is room if none is given.

    If not said else it has two workers and runs 50 iterations of 40 ms of computing and a burst.
    """
    placed = (
        {"nodes": [f"node-{node:02}" for node in nodes], "workers": len(nodes)} if nodes else {}
    )
    return {
        "name": name,
        "model": model,
        "batch": 4,
        "workers": 2,
        "iterations": 50,
        **placed,
        **fields,
    }


def scene(cluster: dict[str, Any], *jobs: dict[str, Any]) -> Scenario:
    """Return a scenario of these jobs."""
    document = {
        "format": "metronome-scenario/1",
        "name": "scene",
        "slot_ms": 1,
        "workloads": "workloads",
        "cluster": cluster,
        "jobs": list(jobs),
    }
    return Scenario.from_dict(document, folder=_FOLDER)
