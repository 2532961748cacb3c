"""Fabrics of several spines, and rings of bursts over their racks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metronome_opt.scenario import Scenario


def fabric(
    racks: int = 2, each: int = 2, spines: int = 2, routing: str = "chosen", **fields: Any
) -> dict[str, Any]:
    """Return racks of nodes with one GPU, whose links to spines are as fast as interfaces."""
    return {
        "topology": "leaf-spine",
        "nodes": racks * each,
        "gpus": 1,
        "nic_mbps": 1200,
        "racks": racks,
        "oversubscription": f"{each}:{spines}" if each > spines else 1,
        "spines": spines,
        "routing": routing,
        **fields,
    }


def ring(
    name: str, nodes: Sequence[int], burst_ms: int = 100, period_ms: int = 300, **fields: Any
) -> dict[str, Any]:
    """Return a job with a task on each of some nodes that sends as fast as an interface."""
    phase = {"start_ms": period_ms - burst_ms, "length_ms": burst_ms, "rate_mbps": 1200}
    return {
        "name": name,
        "workers": len(nodes),
        "nodes": [f"node-{node:02}" for node in nodes],
        "traffic": {"period_ms": period_ms, "phases": [phase]},
        "allreduce": "ring",
        "jitter": 0,
        **fields,
    }


def scene(cluster: dict[str, Any], *jobs: dict[str, Any], **fields: Any) -> Scenario:
    """Return a scenario in slots of 10 ms."""
    return Scenario.from_dict(
        {
            "format": "metronome-scenario/1",
            "name": "fabric",
            "slot_ms": 10,
            "cluster": cluster,
            "jobs": list(jobs),
            **fields,
        }
    )
