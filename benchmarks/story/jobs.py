"""Jobs and nodes: four racks in a ring, and four jobs of which neighbours share an uplink.

Every job asks for its own number of GPUs, and when it comes only two nodes have them. So
kube-scheduler and the controller choose the same nodes, and what differs is windows alone.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.testbed.network import GOODPUT, Layout
from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP
from metronome_opt.kubernetes.controller.inject import MOUNT, VARIABLE, VOLUME
from metronome_opt.kubernetes.reading.pods import SCHEDULING_GATE

NAMESPACE = "story"
RACKS, UPLINK_MBPS = 4, 200

_PERIOD_MS, _ALONE_MS = 400, 392  # as claimed; and of a job that has the network to itself
_SLOT_MS, _HYPERPERIOD_MS = 5, 2400
_INTERFACE_MBPS = 1000
_RATE_MBPS = round(GOODPUT * UPLINK_MBPS)


@dataclass(frozen=True)
class Job:
    """A job with a rank on each of two nodes.

    Attributes
    ----------
    places
        Rack and node of each rank.
    gpus
        That each rank asks for, and its node has.
    burst_ms
        What a burst takes on an uplink that it has to itself; the rest is computing.
    """

    name: str
    places: tuple[tuple[int, int], ...]
    gpus: int
    burst_ms: int

    @property
    def racks(self) -> set[int]:
        """Whose uplinks it crosses."""
        return {rack for rack, _ in self.places}

    @property
    def compute_ms(self) -> int:
        """Computing time in ms, unless a step changes it."""
        return _ALONE_MS - self.burst_ms

    @property
    def pods(self) -> list[str]:
        """Names of its pods."""
        return [f"{self.name}-{index}" for index, _ in enumerate(self.places)]

    @property
    def nodes(self) -> dict[str, tuple[int, int]]:
        """Rack and node by the name of the node."""
        return {f"rack-{rack}-node-{node}": (rack, node) for rack, node in self.places}


JOBS = {
    job.name: job
    for job in (
        Job("a", ((0, 0), (1, 0)), 8, 180),
        Job("b", ((1, 1), (2, 0)), 4, 170),
        Job("c", ((2, 1), (3, 0)), 2, 180),
        Job("d", ((0, 1), (3, 1)), 1, 170),
    )
}
LAYOUT = Layout(nodes=(2,) * RACKS, uplink_mbps=(UPLINK_MBPS,) * RACKS)


def cluster() -> dict[str, Any]:
    """Return the cluster as the controller is to know it."""
    nodes = [
        (name, rack, job.gpus) for job in JOBS.values() for name, (rack, _) in job.nodes.items()
    ]
    links = {f"interface-{name}": _INTERFACE_MBPS for name, _, _ in nodes}
    links |= {f"uplink-{rack}": _RATE_MBPS for rack in range(RACKS)}
    return {
        "format": "metronome-cluster/1",
        "name": NAMESPACE,
        "slot_ms": _SLOT_MS,
        "hyperperiod": _HYPERPERIOD_MS // _SLOT_MS,
        "nodes": [
            {
                "name": name,
                "has": {"gpus": gpus},
                "interface": f"interface-{name}",
                "rack": f"rack-{rack}",
            }
            for name, rack, gpus in nodes
        ],
        "racks": [{"name": f"rack-{rack}", "uplink": f"uplink-{rack}"} for rack in range(RACKS)],
        "links": [{"name": name, "capacity": capacity} for name, capacity in links.items()],
    }


def pod(job: Job, name: str, folder: Path, *, gated: bool) -> dict[str, Any]:
    """Return one of a job's pods; a gated one asks for windows. Files are in a folder."""
    env = {
        "PEERS": ",".join(job.pods),
        "ORDER": str(folder / f"{job.name}.json"),
        "BURST_BYTES": str(round(job.burst_ms * GOODPUT * UPLINK_MBPS * 1000 / 8)),
        "RANK": str(job.pods.index(name)),
        "METRONOME_RECORD": str(folder / f"{name}.jsonl"),
    }
    container: dict[str, Any] = {
        "name": "rank",
        "image": "rank",
        "command": [sys.executable, "-S", "-m", "benchmarks.story.rank"],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {"limits": {"nvidia.com/gpu": str(job.gpus)}},
    }
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {"job-name": job.name},
    }
    spec: dict[str, Any] = {"containers": [container]}
    if gated:
        burst = {
            "startMicroseconds": 1000 * (_PERIOD_MS - job.burst_ms),
            "lengthMicroseconds": 1000 * job.burst_ms,
            "rate": f"{_RATE_MBPS}M",
        }
        traffic = {"periodMicroseconds": 1000 * _PERIOD_MS, "phases": [burst]}
        metadata["annotations"] = {
            f"{DEFAULT_GROUP}/tasks": str(len(job.pods)),
            f"{DEFAULT_GROUP}/task": env["RANK"],
            f"{DEFAULT_GROUP}/traffic": json.dumps(traffic),
        }
        spec |= {"schedulingGates": [{"name": SCHEDULING_GATE}], "volumes": [VOLUME]}
        container["volumeMounts"] = [MOUNT]
        container["env"] += [VARIABLE]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
