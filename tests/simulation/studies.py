"""Stored studies, a small one, and iteration times of their jobs alone."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.job_traffic import JobTraffic, Sources
from metronome_opt.scenario.traffic import Traffic
from metronome_opt.simulation.study import Cell, Study, read_study
from tests.scenario.examples import number

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"
NAMES = sorted(
    path.stem for path in STUDIES.iterdir() if path.stem not in ("muri", "sia")
)  # traces


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


def traffic_of(job: JobSpec) -> Traffic:
    """Return the traffic of a job that states its bursts."""
    assert isinstance(job.stated, Traffic)
    return job.stated


def at_best(job: JobSpec, cluster: Cluster) -> tuple[JobTraffic, Transport]:
    """Return the traffic of a job and its best placement in an empty cluster, or where it says."""
    traffic = JobTraffic(job, Sources().of(job), cluster)
    place = traffic.best
    if job.nodes is not None:
        place = compute_placement(
            cluster, job.nodes, traffic.algorithm, task_gpus=job.each.gpus
        ).transport
    assert place is not None
    return traffic, place


def alone_s(job: JobSpec, cluster: Cluster) -> float:
    """Return the seconds of its best iteration."""
    traffic, place = at_best(job, cluster)
    return float(traffic.isolated(place).duration) / 1000


def gpu_seconds(jobs: tuple[JobSpec, ...], cluster: Cluster) -> float:
    """Return what jobs take at their best placements, in seconds of a GPU."""
    return sum(job.workers * (job.iterations or 0) * alone_s(job, cluster) for job in jobs)


def period(study: Study, cell: Cell, job: JobSpec) -> tuple[int, Fraction]:
    """Return the period of a job in slots, and the share of its best iteration that is idle."""
    hyperperiod_ms = study.hyperperiod_ms
    slots = None if hyperperiod_ms is None else hyperperiod_ms // study.slot_ms
    traffic, place = at_best(job, study.cluster_of(cell))
    found = traffic.period(place, study.slot_ms, slots)
    idle = found - traffic.in_slots(place, study.slot_ms)[1]
    return found, idle * study.slot_ms / traffic.at(place).duration
