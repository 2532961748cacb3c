"""Stored studies, a small one, and iteration times of their jobs alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from metronome_opt.scenario import Scenario, build_scenario, spread
from metronome_opt.scenario.build import JobTraffic
from metronome_opt.scenario.model import DescribedJob
from metronome_opt.scenario.network import Cluster
from metronome_opt.scenario.traffic import Training, iteration
from metronome_opt.scenario.workload import find_workloads, read_workload
from metronome_opt.simulate.study import Cell, Study, read_study
from tests.scenario.examples import number

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"
NAMES = sorted(
    path.stem for path in STUDIES.iterdir() if path.stem not in ("muri", "sia")
)  # traces
NIC = 50_000  # Mbit/s


def document(**changes: Any) -> dict[str, Any]:
    """Return a study of five jobs that arrive on four nodes."""
    return {
        "format": "metronome-study/1",
        "name": "small",
        "slot_ms": 5,
        "hyperperiod_ms": 6000,
        "cluster": {
            "topology": "single-switch",
            "nodes": 4,
            "gpus": 4,
            "nic_gbps": 50,
            "gpu": {"name": "GPU", "sustained_tflops": number(23)},
        },
        "draw": {"dynamic": {"count": 5}},
        **changes,
    }


def study(**changes: Any) -> Study:
    return Study.from_dict(document(**changes))


@cache
def stored(name: str) -> Study:
    return read_study(STUDIES / f"{name}.yaml")


def cells(name: str) -> Mapping[str, Cell]:
    return {cell.label: cell for cell in stored(name).cells}


def alone_s(job: DescribedJob, cluster: Cluster) -> float:
    """Return the seconds of an iteration at the full rate of an interface."""
    assert job.model is not None
    assert job.batch is not None
    assert cluster.gpu is not None
    return _alone_s(job.model, Training(job.workers, job.batch, cluster.gpu.flops, NIC))


@cache
def _alone_s(model: str, setting: Training) -> float:
    workload = read_workload(find_workloads()[model.lower()])
    return float(iteration(workload, setting).duration) / 1000


def gpu_seconds(jobs: tuple[DescribedJob, ...], cluster: Cluster) -> float:
    return sum(job.workers * (job.iterations or 0) * alone_s(job, cluster) for job in jobs)


def traffic(study: Study, cell: Cell, job: DescribedJob) -> JobTraffic:
    """Return the traffic of a job that has the cluster to itself, a worker on each node."""
    cluster = study.cluster_of(cell)
    if job.nodes is None:
        names = [f"node-{index}" for index in range(job.workers)]
        (node, *_), (nic, *_) = cluster.nodes, cluster.links
        cluster = Cluster(
            nodes=tuple(
                node.model_copy(update={"name": name, "interface": name, "rack": None})
                for name in names
            ),
            links=tuple(nic.model_copy(update={"name": name}) for name in names),
            gpu=cluster.gpu,
        )
    made = Scenario(
        name="alone",
        slot_ms=study.slot_ms,
        hyperperiod_ms=study.hyperperiod_ms,
        cluster=cluster,
        jobs=(job,),
    )
    return build_scenario(spread(made)).traffic[0]
