"""Workloads of all kinds down to the pods that hold GPUs: what these need, and where they run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.objects import Field, Found
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.machines import ONE_GPU, Resources

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)
_MEBI = 2**20
_MOST = 2**40  # of each resource, as in scenarios
_ENDED = ("Succeeded", "Failed")
_OVER = {"Succeeded", "Complete", "Completed", "Failed", "Aborted", "Terminated"}
_SUFFIX = re.compile("-[a-z0-9]{5}$")  # what a Job appends to the names of its pods


@dataclass(frozen=True)
class Pod:
    """A pod that has not ended: where it runs, None if that is open, and what it needs there."""

    found: Found
    node: str | None
    needs: Resources


def without_suffix(name: str) -> str:
    """Return the name of a Job's pod without what the Job appended."""
    return _SUFFIX.sub("", name)


class Pods:
    """The pods of a cluster that have not ended, those that run before those that wait."""

    def __init__(self, found: Iterable[Found], gpu_resources: Sequence[str]) -> None:
        self.all = []
        for each in found:
            if (each / "status" / "phase").text("Unknown") not in _ENDED:
                spec = each / "spec"
                node = (spec / "nodeName").text("") or None
                self.all.append(Pod(each, node, needs_of(spec, gpu_resources)))
        self._named: dict[tuple[str, str], list[Pod]] = {}
        for pod in sorted(self.all, key=lambda pod: (pod.node is None, pod.found.name)):
            for name in {pod.found.name, without_suffix(pod.found.name)}:
                self._named.setdefault((pod.found.namespace, name), []).append(pod)

    def named(self, namespace: str, name: str) -> Pod | None:
        """Return the pod of a name."""
        found = self._named.get((namespace, name), ())
        return next((pod for pod in found if pod.found.name == name), None)

    def of_job(self, namespace: str, stem: str, job: str) -> list[Pod]:
        """Return pods that a Job made or nobody did, called `stem` with or without a suffix."""
        found = self._named.get((namespace, stem), ())
        return [pod for pod in found if pod.found.owner in (None, ("Job", job))]


@dataclass(frozen=True)
class Workload:
    """A training job of a cluster.

    Attributes
    ----------
    found
        The object.
    expected
        What the pods that hold GPUs are called, as far as that is known beforehand.
    pods
        Those that are there; None for one that is not.
    each
        What one of them needs; cores and memory of the neediest.
    annotations
        Its own, and those of the pods' templates where it has none of that name.
    priority_class
        As the pods or the workload name it; None if they do not.
    """

    found: Found
    expected: tuple[str, ...]
    pods: tuple[Pod | None, ...]
    each: Resources
    annotations: Mapping[str, str]
    priority_class: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """What each pod is called, as far as that is known."""
        pairs = zip(self.expected, self.pods, strict=True)
        return tuple(name if pod is None else pod.found.name for name, pod in pairs)


class UnsuitableError(Exception):
    """A workload that is no job of ours; the text says why."""


@dataclass(frozen=True)
class _Replicas:
    """Pods of one template; `job` is the Job that makes them, and `alike` if they have no index."""

    title: str
    names: tuple[str, ...]
    template: Field
    job: str = ""
    alike: bool = False

    def find(self, namespace: str, pods: Pods) -> list[Pod | None]:
        """Return the pod of each name; those that are alike in the order of their names."""
        if not self.job:
            return [pods.named(namespace, name) for name in self.names]
        if not self.alike:
            found = [pods.of_job(namespace, name, self.job) for name in self.names]
            return [next(iter(each), None) for each in found]
        there = pods.of_job(namespace, self.job, self.job)[: len(self.names)]
        there.sort(key=lambda pod: pod.found.name)
        return [*there, *[None] * (len(self.names) - len(there))]


def read_workload(found: Found, pods: Pods, gpu_resources: Sequence[str]) -> Workload:
    """Read a workload of any kind.

    Raises
    ------
    UnsuitableError
        If it is done, holds no GPUs, or its pods are too unlike one another.
    InputError
        If it cannot be read: the line names object, place and value.
    """
    if _is_done(found):
        raise UnsuitableError("done")
    holding = []
    for replicas in _replicas(found):
        needs = needs_of(replicas.template / "spec", gpu_resources)
        if needs.gpus and replicas.names:
            holding.append((replicas, needs))
    if not holding:
        raise UnsuitableError("without GPUs")
    if sum(len(replicas.names) for replicas, _ in holding) > MAX_TASKS:
        raise InputError(f"{found.where}: has more than {MAX_TASKS} pods; leave it out")
    if len({needs.gpus for _, needs in holding}) > 1:
        unlike = ", ".join(f"{replicas.title} {needs.gpus}" for replicas, needs in holding)
        raise UnsuitableError(f"with unlike numbers of GPUs ({unlike})")
    spec = found / "spec"
    classes = [replicas.template / "spec" / "priorityClassName" for replicas, _ in holding]
    if found.group == "kubeflow.org":
        classes.append(spec / "runPolicy" / "schedulingPolicy" / "priorityClass")
    elif found.group == "batch.volcano.sh":
        classes.append(spec / "priorityClassName")
    annotations: dict[str, str] = {}
    for replicas, _ in holding:
        stated = (replicas.template / "metadata" / "annotations").texts()
        annotations = {**stated, **annotations}
    return Workload(
        found,
        tuple(name for replicas, _ in holding for name in replicas.names),
        tuple(pod for replicas, _ in holding for pod in replicas.find(found.namespace, pods)),
        _neediest(needs for _, needs in holding),
        {**annotations, **found.annotations},
        next((field.text() for field in classes if field), None),
    )


def read_group(found: Found, pods: Pods) -> Workload:
    """Read an AppGroup as a workload of the pods that it names; one GPU each where none says."""
    members = [member / "workload" for member in (found / "spec" / "workloads").items()]
    names = [(each / "name").text() for each in members if (each / "kind").text() == "Pod"]
    there = [pods.named(found.namespace, name) for name in names]
    known = [pod for pod in there if pod is not None]
    classes = [pod.found / "spec" / "priorityClassName" for pod in known]
    return Workload(
        found,
        tuple(names),
        tuple(there),
        _neediest([ONE_GPU, *(pod.needs for pod in known)]),
        found.annotations,
        next((each.text() for each in classes if each), None),
    )


def _is_done(found: Found) -> bool:
    status = found / "status"
    if found.group == "batch.volcano.sh" and (status / "state" / "phase").value in _OVER:
        return True
    return any(
        (condition / "type").value in _OVER and (condition / "status").value == "True"
        for condition in (status / "conditions").items()
    )


def _replicas(found: Found) -> Iterator[_Replicas]:
    """Yield the pods of each template of a workload."""
    spec = found / "spec"
    match found.kind, found.group:
        case "PyTorchJob", _:
            for role in ("Master", "Worker"):
                prefix = f"{found.name}-{role.lower()}"
                yield from _numbered(role, spec / "pytorchReplicaSpecs" / role, prefix)
        case "MPIJob", _:
            roles = spec / "mpiReplicaSpecs"
            name = f"{found.name}-launcher"
            job = "" if found.version == "v1" else name  # later launchers are pods of a Job
            yield _Replicas("Launcher", (name,), roles / "Launcher" / "template", job)
            yield from _numbered("Worker", roles / "Worker", f"{found.name}-worker")
        case "Job", "batch.volcano.sh":
            for index, task in enumerate((spec / "tasks").items()):
                title = (task / "name").text(f"default{index}")
                yield from _numbered(title, task, f"{found.name}-{title}")
        case "JobSet", _:
            for group in (spec / "replicatedJobs").items():
                title, inner = (group / "name").text(), group / "template" / "spec"
                jobs = _count(group / "replicas")
                if jobs * _parallel(inner) > MAX_TASKS:
                    (group / "replicas").fail(f"makes more than {MAX_TASKS} pods")
                for number in range(jobs):
                    yield _of_job(title, f"{found.name}-{title}-{number}", inner, "Indexed")
        case _:
            yield _of_job("pods", found.name, spec, "NonIndexed")


def _numbered(title: str, spec: Field, prefix: str) -> Iterator[_Replicas]:
    if spec:
        names = tuple(f"{prefix}-{index}" for index in range(_count(spec / "replicas")))
        yield _Replicas(title, names, spec / "template")


def _of_job(title: str, job: str, spec: Field, default: str) -> _Replicas:
    """Return the pods of a Job; what it leaves out is `default`, its mode of completion."""
    alike = (spec / "completionMode").text(default) != "Indexed"
    names = tuple(f"{job}-{index}" for index in range(_parallel(spec)))
    return _Replicas(title, names, spec / "template", job, alike)


def _count(field: Field) -> int:
    return field.integer(0, 1, MAX_TASKS)


def _parallel(spec: Field) -> int:
    """Return how many pods of a Job run at a time."""
    at_once = _count(spec / "parallelism")
    return min(at_once, (spec / "completions").integer(0, at_once))


# ------------------------------------------------------------------ resources


def needs_of(spec: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a pod needs: its containers together, or the neediest of those before them.

    What is limited and not requested counts as requested, as in Kubernetes.

    Raises
    ------
    InputError
        If a quantity cannot be read, or GPUs are not whole.
    """

    def amounts(kind: str) -> list[tuple[Fraction, ...]]:
        each = [container / "resources" for container in (spec / kind).items()]
        return [_amounts(one / "requests", one / "limits", gpu_resources) for one in each]

    together = map(sum, zip((Fraction(0),) * 3, *amounts("containers"), strict=True))
    most = map(max, zip(together, *amounts("initContainers"), strict=True))
    gpus, cores, memory = most
    if gpus.denominator != 1:
        spec.fail(f"its containers ask for {float(gpus):g} GPUs; GPUs are whole")
    return _resources(spec, math.ceil(gpus), math.ceil(1000 * cores), math.ceil(memory / _MEBI))


def has_of(status: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a node has for pods, rounded down; see `needs_of`."""
    field = status / "allocatable" or status / "capacity"
    gpus, cores, memory = _amounts(field, Field(None, field.where), gpu_resources)
    return _resources(field, int(gpus), int(1000 * cores), int(memory / _MEBI))


def _amounts(
    first: Field, otherwise: Field, gpu_resources: Sequence[str]
) -> tuple[Fraction, Fraction, Fraction]:
    """Return GPUs, cores and bytes."""

    def amount(name: str) -> Fraction:
        field = first / name or otherwise / name
        return field.quantity() if field else Fraction(0)

    gpus = sum((amount(name) for name in gpu_resources), Fraction(0))
    return gpus, amount("cpu"), amount("memory")


def _resources(field: Field, gpus: int, millicores: int, mebibytes: int) -> Resources:
    if max(gpus, millicores, mebibytes) > _MOST:
        field.fail(f"GPUs, thousandths of a core and MiB must be at most {_MOST} each")
    return Resources(gpus=gpus, cpu_millicores=millicores, memory_mib=mebibytes)


def _neediest(needs: Iterable[Resources]) -> Resources:
    """Return the most of each."""
    gpus, cores, memory = map(max, zip(*(each.vector for each in needs), strict=True))
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
