"""Small workloads and scenarios whose traffic can be worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.workload import Workload


def number(value: Any) -> dict[str, Any]:
    return {"value": value, "assumed": "for the test"}


def workload(forward_flops: int, parameters: int, **spread: dict[str, int]) -> Workload:
    (kind, numbers) = next(iter(spread.items()))
    return Workload.model_validate(
        {
            "name": "Model",
            "about": "",
            "sample": "",
            "parameters": number(parameters),
            "forward_flops": number(forward_flops),
            kind: {field: number(value) for field, value in numbers.items()},
        }
    )


def one_each(gpus: int, rate: int | Fraction) -> Transport:
    """Return what it means for a ring if each GPU is on a node of its own and sends at a rate."""
    return Transport("ring", gpus, gpus, 1, link_mbps=160_000, rate=Fraction(rate))


def scenario(**changes: Any) -> dict[str, Any]:
    """Return two racks of three nodes with two jobs; at 1 TFLOP/s."""
    return {
        "format": "metronome-scenario/1",
        "name": "small",
        "slot_ms": 10,
        "cluster": {
            "topology": "leaf-spine",
            "nodes": 6,
            "gpus": 2,
            "nic_gbps": 50,
            "racks": 2,
            "oversubscription": "2:1",
            "gpu": {"name": "GPU", "sustained_tflops": number(1)},
        },
        "jobs": [
            {
                "name": "one",
                "model": "VGG16",
                "batch": 2,
                "workers": 4,
                "nodes": ["node-00", "node-00", "node-01", "node-03"],
            },
            {"name": "two", "model": "ResNet50", "batch": 4, "workers": 2, "priority": 4},
        ],
        **changes,
    }


def spread(median: float) -> dict[str, float]:
    return {"median": median, "low": median, "high": median}


def measured(**changes: Any) -> dict[str, Any]:
    """Return the record of a step of 320 ms with two buckets, invented for tests."""
    return {
        "format": "metronome-measured/1",
        "model": "Tiny",
        "configuration": "two layers",
        "sample": "a number",
        "sample_share": 1,
        "batch": 3,
        "precision": "float32",
        "optimizer": "SGD",
        "parameters": 7_500_000,
        "device": {"kind": "cpu", "name": "Old Faithful", "threads": 2, "driver": None},
        "software": {"torch": "1.13.0", "cuda": None},
        "command": "python measure.py tiny",
        "commit": None,
        "warmup": 5,
        "steps": 50,
        "forward_ms": spread(100),
        "backward_ms": spread(200),
        "optimizer_ms": spread(20),
        "memory_mib": 100,
        "buckets": [
            {"bytes": 10_000_000, "ready_ms": spread(50)},
            {"bytes": 20_000_000, "ready_ms": spread(200)},
        ],
        **changes,
    }
