"""Clusters of several spines and of racks in racks, and rings of bursts over them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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


def tree(
    rack_of: Mapping[str, str | None],
    above: Mapping[str, str | None],
    lifted: Collection[str] | None = None,
    *,
    gpus: int = 2,
    nic: int = 100,
    uplink: int = 400,
    rails: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """Return a listed cluster, given the rack of each node and the rack above each rack.

    Racks in `lifted`, all if None, have an uplink ``NAME-up``. A node has a link of its own name,
    or `rails` of them, ``NAME-0`` and so on.
    """
    lifted = above if lifted is None else lifted
    own = {node: [f"{node}-{rail}" for rail in range(rails)] or [node] for node in rack_of}
    return {
        "topology": "listed",
        "nodes": [
            {"name": node, "has": {"gpus": gpus}, "interfaces": own[node], "rack": rack}
            for node, rack in rack_of.items()
        ],
        "racks": [
            {"name": rack, "uplink": f"{rack}-up" if rack in lifted else None, "within": outer}
            for rack, outer in above.items()
        ],
        "links": [
            *({"name": link, "capacity": nic} for links in own.values() for link in links),
            *({"name": f"{rack}-up", "capacity": uplink} for rack in above if rack in lifted),
        ],
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
