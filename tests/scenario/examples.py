"""Small workloads and scenarios whose traffic can be worked out by hand."""

from __future__ import annotations

from typing import Any

from metronome_opt.scenario import Workload


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
