"""Workloads as people write them, down to the pods that hold GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.needs import needs_of
from metronome_opt.kubernetes.reading.objects import Found
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.machines import Resources

Naming = Literal["exact", "suffixed", "alike"]


@dataclass(frozen=True)
class Replicas:
    """Pods from one template.

    Attributes
    ----------
    title
        What the workload calls them.
    names
        One per pod.
    template
        The template of the pods.
    naming
        ``exact`` if the pods are called so; ``suffixed`` if something random follows; ``alike`` if
        it follows the name of their Job, so that nobody can tell them apart beforehand.
    job
        The Job that makes them; empty if none does.
    """

    title: str
    names: tuple[str, ...]
    template: Field
    naming: Naming = "exact"
    job: str = ""


@dataclass(frozen=True)
class Workload:
    """A training job of a cluster.

    Attributes
    ----------
    found
        The object.
    replicas
        Its pods that hold GPUs.
    each
        What one of them needs; cores and memory of the neediest.
    annotations
        Its own, and those of the pods' templates where it has none of that name.
    priority_class
        As the pods or the workload name it; None if they do not.
    """

    found: Found
    replicas: tuple[Replicas, ...]
    each: Resources
    annotations: Mapping[str, str]
    priority_class: str | None

    @property
    def pods(self) -> tuple[str, ...]:
        """What the pods are called, as far as that is known beforehand."""
        return tuple(name for replicas in self.replicas for name in replicas.names)


class UnsuitableError(Exception):
    """A workload that is no job of ours; the text says why."""


def read_workload(found: Found, gpu_resources: Sequence[str]) -> Workload:
    """Read a workload of any kind.

    Raises
    ------
    UnsuitableError
        If it is done, holds no GPUs, or its pods are too unlike one another.
    InputError
        If it cannot be read: the line names object, place and value.
    """
    read, priorities = _READERS[found.kind, found.group]
    if _is_done(found):
        raise UnsuitableError("done")
    holding, needs = [], []
    for replicas in read(found):
        each = needs_of(replicas.template / "spec", gpu_resources)
        if each.gpus and replicas.names:
            holding.append(replicas)
            needs.append(each)
    if not holding:
        raise UnsuitableError("without GPUs")
    if sum(len(replicas.names) for replicas in holding) > MAX_TASKS:
        raise InputError(f"{found.where}: has more than {MAX_TASKS} pods; leave it out")
    if len({each.gpus for each in needs}) > 1:
        told = ", ".join(
            f"{one.title} {each.gpus}" for one, each in zip(holding, needs, strict=True)
        )
        raise UnsuitableError(f"with unlike numbers of GPUs ({told})")
    each = Resources(
        gpus=needs[0].gpus,
        cpu_millicores=max(each.cpu_millicores for each in needs),
        memory_mib=max(each.memory_mib for each in needs),
    )
    templates = [replicas.template for replicas in holding]
    classes = [template / "spec" / "priorityClassName" for template in templates]
    for path in priorities:
        field = found.spec
        for name in path:
            field = field / name
        classes.append(field)
    return Workload(
        found,
        tuple(holding),
        each,
        _annotations(found, templates),
        next((field.text() for field in classes if field), None),
    )


def _annotations(found: Found, templates: Iterable[Field]) -> Mapping[str, str]:
    merged: dict[str, str] = {}
    for template in templates:
        merged = {**(template / "metadata" / "annotations").texts(), **merged}
    return {**merged, **found.annotations}


def _is_done(found: Found) -> bool:
    status = found.root / "status"
    over = {"Succeeded", "Complete", "Completed", "Failed", "Aborted", "Terminated"}
    phase = status / "state" / "phase" if found.group == "batch.volcano.sh" else Field(None, "")
    if phase.value in over:
        return True
    return any(
        (condition / "type").value in over and (condition / "status").value == "True"
        for condition in (status / "conditions").items()
    )


# ------------------------------------------------------------------ one kind after the other


def _pytorch(found: Found) -> list[Replicas]:
    specs = found.spec / "pytorchReplicaSpecs"
    if not specs:
        specs.fail("missing; a PyTorchJob has a Master or a Worker")
    return [
        _numbered(title, specs / title, f"{found.name}-{title.lower()}")
        for title in ("Master", "Worker")
        if specs / title
    ]


def _mpi(found: Found) -> list[Replicas]:
    """Return launcher and workers; that of v2beta1 is the pod of a Job."""
    specs = found.spec / "mpiReplicaSpecs"
    if not specs / "Worker":
        (specs / "Worker").fail("missing; an MPIJob has a Worker")
    workers = _numbered("Worker", specs / "Worker", f"{found.name}-worker")
    name = f"{found.name}-launcher"
    template = specs / "Launcher" / "template"
    if found.version == "v1":
        launcher = Replicas("Launcher", (name,), template)
    else:
        launcher = Replicas("Launcher", (name,), template, "suffixed", name)
    return [launcher, workers]


def _volcano(found: Found) -> list[Replicas]:
    groups = []
    for index, task in enumerate((found.spec / "tasks").items()):
        title = (task / "name").text(f"default{index}")
        groups.append(_numbered(title, task, f"{found.name}-{title}"))
    return groups


def _jobset(found: Found) -> list[Replicas]:
    groups = []
    for group in (found.spec / "replicatedJobs").items():
        title = (group / "name").text()
        spec = group / "template" / "spec"
        jobs = _count(group / "replicas")
        if jobs * _parallel(spec) > MAX_TASKS:
            (group / "replicas").fail(f"makes more than {MAX_TASKS} pods")
        for number in range(jobs):
            name = f"{found.name}-{title}-{number}"
            groups.append(_of_job(title, name, spec, default="Indexed"))
    return groups


def _job(found: Found) -> list[Replicas]:
    return [_of_job("pods", found.name, found.spec, default="NonIndexed")]


_Reader = Callable[[Found], list[Replicas]]
_SCHEDULING = ("runPolicy", "schedulingPolicy", "priorityClass")

# How to read the pods of each kind, and where it may name a priority class beside the pods.
_READERS: Mapping[tuple[str, str], tuple[_Reader, tuple[tuple[str, ...], ...]]] = {
    ("PyTorchJob", "kubeflow.org"): (_pytorch, (_SCHEDULING,)),
    ("MPIJob", "kubeflow.org"): (_mpi, (_SCHEDULING,)),
    ("Job", "batch.volcano.sh"): (_volcano, (("priorityClassName",),)),
    ("JobSet", "jobset.x-k8s.io"): (_jobset, ()),
    ("Job", "batch"): (_job, ()),
}


def _numbered(title: str, spec: Field, prefix: str) -> Replicas:
    count = range(_count(spec / "replicas"))
    return Replicas(title, tuple(f"{prefix}-{index}" for index in count), spec / "template")


def _of_job(title: str, job: str, spec: Field, default: str) -> Replicas:
    """Return the pods of a Job; what it leaves out is `default`, its mode of completion."""
    indexed = (spec / "completionMode").text(default) == "Indexed"
    names = tuple(f"{job}-{index}" for index in range(_parallel(spec)))
    return Replicas(title, names, spec / "template", "suffixed" if indexed else "alike", job)


def _count(field: Field) -> int:
    return field.integer(0, 1, MAX_TASKS)


def _parallel(spec: Field) -> int:
    """Return how many pods of a Job run at a time."""
    at_once = _count(spec / "parallelism")
    completions = spec / "completions"
    return min(at_once, completions.integer(0)) if completions else at_once
