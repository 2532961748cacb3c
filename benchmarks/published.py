"""Iterations as others measured them: their files to ours.

``python -m benchmarks.published DATA`` writes `models/published` from a folder that holds the
folders ``muri`` (Rivendile/Muri, trace-data and cluster_exp/trace-data) and ``sia``
(siasosp23/artifacts, sia-simulator/traces, a file for each model and cluster).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import typer
import yaml

from benchmarks.program import run_program
from metronome_opt.scenario.published import PUBLISHED_FORMAT
from metronome_opt.scenario.workload import data_folder

_MURI = "github.com/Rivendile/Muri, commit 4e69a78 (Apache-2.0); Zhao et al., SIGCOMM 2022"
_SIA = (
    "github.com/siasosp23/artifacts, commit aaf7a0d (no licence file); Jayaram Subramanya et al., "
    "SOSP 2023"
)
_BROKEN = {"resnet18", "shufflenet_v2_x1_0"}  # at 32 GPUs their parts do not add up
_PLACEMENTS = ("22", "44", "66", "88")  # so many GPUs on either of two nodes
_BATCHES = 3  # of a model and placement: the smallest, the middle one and the largest
_CLUSTERS = ("azure", "dgx-ext", "rtx")
_GPU_HOURS = {
    "bert": 2.42,
    "cifar10": 2.03,
    "deepspeech2": 8.05,
    "imagenet": 309.87,
    "yolov3": 18.67,
}
_ONE_BURST = "one burst at the end of the iteration, as long as the network time"


def _muri(folder: Path) -> dict[str, Any]:
    paths = sorted(folder.glob("muri/*.csv"))
    rows = pd.concat([pd.read_csv(path) for path in paths]).sort_values("resource_time_2")
    rows = rows[(rows["num_gpu"] > 8) & ~rows["model_name"].isin(_BROKEN)]
    rows = rows.drop_duplicates(["model_name", "num_gpu", "batch_size"], keep="last")
    steps = [
        {
            "model": row["model_name"],
            "gpus": row["num_gpu"],
            "nodes": row["num_gpu"] // 8,
            "batch": row["batch_size"],
            "iteration_ms": float(row["iteration_time"]),
            "network_ms": float(row["resource_time_2"]),
        }
        for row in rows.sort_values(["model_name", "num_gpu"]).to_dict("records")
    ]
    return {
        "name": "muri",
        "about": "Iterations on 16 and 32 GPUs, as the traces state them",
        "source": f"{_MURI}: iteration_time and resource_time_2",
        "cluster": "8 nodes of 8 V100",
        "rate_gbps": {"value": 50, "assumed": "what VGG16 on 32 GPUs sends in its network time"},
        "assumed": _ONE_BURST,
        "steps": steps,
    }


def _sia(folder: Path, cluster: str) -> dict[str, Any]:
    steps = []
    for path in sorted(folder.glob(f"sia/*-{cluster}.csv")):
        rows = pd.read_csv(path, dtype={"placement": str})
        for placement in _PLACEMENTS:
            there = rows[rows["placement"] == placement].sort_values("local_bsz")
            chosen = {0, len(there) // 2, len(there) - 1} if len(there) else ()
            steps += [
                {
                    "model": path.stem.removesuffix(f"-{cluster}"),
                    "gpus": sum(map(int, placement)),
                    "nodes": len(placement),
                    "batch": int(there["local_bsz"].iloc[at]),
                    "iteration_ms": round(1000 * float(there["step_time"].iloc[at]), 3),
                    "network_ms": round(1000 * float(there["sync_time"].iloc[at]), 3),
                }
                for at in sorted(chosen)
            ]
    return {
        "name": f"sia-{cluster}",
        "about": "Iterations on two nodes by batch, what of communication is not hidden",
        "source": f"{_SIA}: sia-simulator/traces, step_time and sync_time; GPU hours: sums over "
        "clusters of its sia-simulator/README.md, commit 2c7ac0f",
        "cluster": f"two nodes of the cluster that the artifact calls {cluster}",
        "rate_gbps": {"value": 50, "assumed": "as in muri; the publication states none per burst"},
        "assumed": f"{_ONE_BURST}, which is what of it comes after the backward pass",
        "aliases": {"resnet50": "imagenet"},
        "gpu_hours": _GPU_HOURS,
        "steps": steps,
    }


def _text(document: Mapping[str, Any]) -> str:
    """Return a document with each of its steps on a line."""
    plain = {key: value for key, value in document.items() if key != "steps"}
    head = yaml.safe_dump({"format": PUBLISHED_FORMAT, **plain}, sort_keys=False, width=10_000)
    lines = (
        yaml.safe_dump(step, sort_keys=False, default_flow_style=True, width=10_000).strip()
        for step in document["steps"]
    )
    return head + "steps:\n" + "".join(f"- {line}\n" for line in lines)


def main(data: Path) -> None:
    """Write what others measured as files of published iterations."""
    documents = [_muri(data), *(_sia(data, each) for each in _CLUSTERS)]
    for document in documents:
        path = data_folder() / "published" / f"{document['name']}.yaml"
        path.write_text(_text(document))
        typer.echo(f"wrote {path.name}: {len(document['steps'])} iterations")


if __name__ == "__main__":
    run_program(main)
