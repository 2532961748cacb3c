"""Files that ask for a place: a gang with its traffic, or a job by the name of its model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from metronome_opt.errors import InputError, show
from metronome_opt.records import Name, NonNegative, Positive, Record, build, read_as
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.machines import ONE_GPU
from metronome_opt.scenario.model import MAX_BATCH, Scenario, in_folder
from metronome_opt.scenario.rounding import to_slots
from metronome_opt.scenario.traffic import Setting, iteration
from metronome_opt.scenario.workload import Workload, find_workloads, read_workload
from metronome_opt.scheduling.cluster import ClusterSpec, Host, Resources
from metronome_opt.scheduling.gang import JOB_FORMAT, Gang

Nodes = tuple[str, ...]


class ModelJob(Record):
    """A job by the name of its model; what it sends is computed.

    Parameters
    ----------
    name, model, batch, workers, priority
        As in a scenario.
    each
        What one worker needs.
    rate_mbps
        The fastest that a worker sends; None for its share of an interface if there is one worker
        for each GPU of a node.
    ready_ms
        When it would start if nobody shifted it.
    most_racks
        As in `Gang`.
    workloads
        Folder of workloads of one's own, relative to the file.
    """

    format: Literal["metronome-job/1"] = "metronome-job/1"
    name: Name
    model: Name
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    workers: Annotated[int, Field(ge=2, le=MAX_TASKS)]
    priority: NonNegative = 1
    each: Resources = ONE_GPU
    rate_mbps: Positive | None = None
    ready_ms: NonNegative = 0
    most_racks: Positive | None = None
    workloads: Annotated[str, Field(min_length=1)] | None = None


def read_request(path: str | Path, cluster: ClusterSpec) -> Gang:
    """Read a job that asks for a place in a cluster.

    Parameters
    ----------
    path
        YAML or JSON of format ``metronome-job/1``: a `Gang`, or with a ``model`` a `ModelJob`.
    cluster
        Where the job is to run: its grid of time, its interfaces and its GPUs.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_as(path, lambda document: request(document, cluster, folder=Path(path).parent))


def request(document: Mapping[str, Any], cluster: ClusterSpec, *, folder: Path) -> Gang:
    """Return the gang that a document describes; `folder` is what its workloads are relative to."""
    if "model" not in document:
        gang = build(Gang, document, JOB_FORMAT)
        fastest = max(range(len(gang.phases)), key=lambda index: gang.phases[index].rate)
        _check_rate(f"phases[{fastest}].rate", gang.phases[fastest].rate, gang, cluster)
        return gang
    job = build(ModelJob, in_folder(document, folder), JOB_FORMAT)
    found = find_workloads(job.workloads).get(job.model.lower())
    if found is None:
        known = ", ".join(sorted(find_workloads(job.workloads)))
        raise InputError(f"model: there is no workload {show(job.model)}; known are {known}")
    gang = gang_of(job, read_workload(found), cluster)
    if job.rate_mbps is not None:
        _check_rate("rate_mbps", job.rate_mbps, gang, cluster)
    return gang


def _check_rate(where: str, rate: int, gang: Gang, cluster: ClusterSpec) -> None:
    """Refuse a rate that no interface carries, unless all tasks fit onto one node."""
    carries = {link.name: link.capacity for link in cluster.links}
    widest = max(carries[node.interface] for node in cluster.nodes)
    if rate > widest and not any(_holds_all(node, gang) for node in cluster.nodes):
        raise InputError(
            f"{where}: {rate} Mbit/s is more than any interface carries; use at most {widest}"
        )


def _holds_all(node: Host, gang: Gang) -> bool:
    pairs = zip(node.has.vector, gang.each.vector, strict=True)
    return all(gang.tasks * needs <= has for has, needs in pairs)


def gangs_of(scenario: Scenario) -> list[tuple[Gang, Nodes, int | None]]:
    """Return the jobs of a scenario as gangs, with the node of each task and the offset.

    They are where the scenario says, or where its instance has them, and send what they send there.
    The offset is the one at which the scenario lets them run, in slots; None if it does not say.

    Raises
    ------
    InputError
        As `build_scenario`.
    """
    problem = build_scenario(scenario)
    nodes: dict[str, list[str]] = {}
    for task in problem.deployment.tasks:
        nodes.setdefault(task.job, []).append(task.node)
    return [
        (
            Gang(
                name=job.name,
                tasks=len(nodes[job.name]),
                each=work.each,
                period=job.period,
                phases=job.phases,
                weight=job.weight,
                ready=job.ready,
                max_stretch=job.max_stretch,
            ),
            tuple(nodes[job.name]),
            job.current_offset if job.fixed_offset is None else job.fixed_offset,
        )
        for work, job in zip(scenario.jobs, problem.instance.jobs, strict=True)
    ]


def gang_of(job: ModelJob, workload: Workload, cluster: ClusterSpec) -> Gang:
    """Return a job by model with its traffic, on the cluster's grid of time.

    The iteration is lengthened to a divisor of the hyperperiod.

    Raises
    ------
    InputError
        If the cluster does not say how fast its GPUs are, or the job does not fit it.
    """
    if cluster.gpu is None:
        raise InputError(
            f"model: {show(job.model)}: the cluster does not say how fast its GPUs are; "
            "state period and phases"
        )
    rate = _share_of_interface(cluster) if job.rate_mbps is None else job.rate_mbps
    if not rate:
        raise InputError("rate_mbps: missing; an interface has less than 1 Mbit/s for each GPU")
    speed = 10**12 * cluster.gpu.sustained_tflops.value
    exact = iteration(workload, Setting(job.workers, job.batch, speed, rate))
    try:
        rounded = to_slots(exact, cluster.slot_ms, cluster.hyperperiod)
    except ValueError:
        raise InputError(
            f"batch: {job.batch}: an iteration takes {float(exact.duration):.0f} ms, more than the "
            f"hyperperiod of {cluster.hyperperiod * cluster.slot_ms} ms; lower the batch or raise "
            "rate_mbps"
        ) from None
    return Gang(
        name=job.name,
        tasks=job.workers,
        each=job.each,
        period=rounded.period,
        phases=rounded.phases,
        weight=job.priority,
        ready=job.ready_ms // cluster.slot_ms,
        most_racks=job.most_racks,
    )


def _share_of_interface(cluster: ClusterSpec) -> int:
    carries = {link.name: link.capacity for link in cluster.links}
    return min(carries[node.interface] // max(1, node.has.gpus) for node in cluster.nodes)
