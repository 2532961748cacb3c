"""Workloads of all kinds down to the pods that hold GPUs: what these need, and where they run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.objects import Field, Found, Objects
from metronome_opt.scenario.cluster import ONE_GPU, Resources
from metronome_opt.scenario.deployment import MAX_TASKS

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)
LeftOut = dict[str, list[str]]  # titles of what is left out, by reason

_MEBI = 2**20
_MOST = 2**40  # of each resource, as in scenarios
_ENDED = ("Succeeded", "Failed")
_OVER = {"Succeeded", "Complete", "Completed", "Failed", "Aborted", "Terminated"}
_SUFFIX = re.compile("-[a-z0-9]{5}$")  # what a Job appends to the names of its pods


@dataclass(frozen=True)
class LivePod:
    """A pod that has not ended: where it runs, None if that is open, and what it needs there."""

    found: Found
    node: str | None
    needs: Resources


class Pods:
    """The pods of a cluster that have not ended, those that run before those that wait."""

    def __init__(self, found: Iterable[Found], gpu_resources: Sequence[str]) -> None:
        self.all = []
        for each in found:
            if (each / "status" / "phase").text("Unknown") not in _ENDED:
                spec = each / "spec"
                node = (spec / "nodeName").text("") or None
                self.all.append(LivePod(each, node, needs_of(spec, gpu_resources)))
        self._left: dict[tuple[str, str], list[LivePod]] = {}
        for pod in sorted(self.all, key=lambda pod: (pod.node is None, pod.found.name)):
            for name in {pod.found.name, without_suffix(pod.found.name)}:
                self._left.setdefault((pod.found.namespace, name), []).append(pod)

    def take(self, namespace: str, name: str, job: str = "") -> LivePod | None:
        """Return the pod called `name`; if it is of a Job the next one with such a suffix too."""
        left = self._left.get((namespace, name), [])
        for pod in left:
            if pod.found.owner in (None, ("Job", job)) if job else pod.found.name == name:
                left.remove(pod)
                return pod
        return None


def without_suffix(name: str) -> str:
    """Return the name of a Job's pod without what the Job appended."""
    return _SUFFIX.sub("", name)


@dataclass(frozen=True)
class Workload:
    """A training job of a cluster."""

    found: Found
    expected: tuple[str, ...]  # names of pods that hold GPUs, as far as known beforehand
    pods: tuple[LivePod | None, ...]  # those that are there; None for one that is not
    each: Resources  # what one of them needs; cores and memory of the neediest
    annotations: Mapping[str, str]  # its own, then those of the pods' templates
    priority_class: str | None  # as the pods or the workload name it; None if they do not

    @property
    def names(self) -> list[str]:
        """What each pod is called, as far as that is known."""
        pairs = zip(self.expected, self.pods, strict=True)
        return [name if pod is None else pod.found.name for name, pod in pairs]

    def nodes(self, claimed: Mapping[str, str]) -> list[str] | None:
        """Return the node of each pod; None unless all of them run, or are claimed to."""
        nodes = [
            claimed.get(name) if pod is None or pod.node is None else pod.node
            for name, pod in zip(self.names, self.pods, strict=True)
        ]
        known = [node for node in nodes if node is not None]
        return known if len(known) == len(nodes) else None


class UnsuitableError(Exception):
    """A workload that is no job of ours; the text says why."""


@dataclass(frozen=True)
class Replicas:
    """Pods of one template: their names, the Job that makes them, whether they have no index."""

    title: str
    names: Sequence[str]
    template: Field
    job: str = ""
    alike: bool = False


def read_workloads(
    objects: Objects, pods: Pods, gpu_resources: Sequence[str], left_out: LeftOut
) -> list[Workload]:
    """Return workloads that no other one makes, and AppGroups of pods that none speaks for."""
    workloads: list[Workload] = []
    candidates = list(objects.workloads())
    known = {(found.kind, *found.key) for found in candidates}
    for found in candidates:
        owner = found.owner
        if owner is not None and (owner[0], found.namespace, owner[1]) in known:
            continue
        try:
            workloads.append(_read_workload(found, pods, gpu_resources))
        except UnsuitableError as reason:
            left_out[str(reason)].append(found.title)
    taken = {
        (each.found.namespace, name) for each in workloads for name in (*each.expected, *each.names)
    }
    for found in objects.of("AppGroup"):
        group = _read_group(found, pods)
        if not group.expected:
            left_out["whose members are no pods"].append(found.title)
        elif not any((found.namespace, pod) in taken for pod in group.expected):
            workloads.append(group)
    return workloads


def _read_workload(found: Found, pods: Pods, gpu_resources: Sequence[str]) -> Workload:
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
    every = [(each, needs_of(each.template / "spec", gpu_resources)) for each in replicas(found)]
    holding = [(each, needs) for each, needs in every if needs.gpus and each.names]
    if not holding:
        raise UnsuitableError("without GPUs")
    if sum(len(each.names) for each, _ in holding) > MAX_TASKS:
        raise InputError(f"{found.where}: has more than {MAX_TASKS} pods; leave it out")
    if len({needs.gpus for _, needs in holding}) > 1:
        unlike = ", ".join(f"{each.title} {needs.gpus}" for each, needs in holding)
        raise UnsuitableError(f"with unlike numbers of GPUs ({unlike})")
    spec = found / "spec"
    classes = [each.template / "spec" / "priorityClassName" for each, _ in holding]
    if found.group == "kubeflow.org":
        classes.append(spec / "runPolicy" / "schedulingPolicy" / "priorityClass")
    elif found.group == "batch.volcano.sh":
        classes.append(spec / "priorityClassName")
    annotations: dict[str, str] = {}
    names, there = [], []
    for each, _ in holding:
        annotations = {**(each.template / "metadata" / "annotations").texts(), **annotations}
        for name in each.names:
            names.append(name)
            called = each.job if each.alike else name
            there.append(pods.take(found.namespace, called, each.job))
    return Workload(
        found,
        tuple(names),
        tuple(there),
        neediest(needs for _, needs in holding),
        {**annotations, **found.annotations},
        next((field.text() for field in classes if field), None),
    )


def _read_group(found: Found, pods: Pods) -> Workload:
    """Read an AppGroup as a workload of the pods that it names; one GPU each where none says."""
    members = [member / "workload" for member in (found / "spec" / "workloads").items()]
    names = [(each / "name").text() for each in members if (each / "kind").text() == "Pod"]
    there = [pods.take(found.namespace, name) for name in names]
    known = [pod for pod in there if pod is not None]
    classes = [pod.found / "spec" / "priorityClassName" for pod in known]
    each = neediest([ONE_GPU, *(pod.needs for pod in known)])
    priority_class = next((field.text() for field in classes if field), None)
    return Workload(found, tuple(names), tuple(there), each, found.annotations, priority_class)


def _is_done(found: Found) -> bool:
    status = found / "status"
    if found.group == "batch.volcano.sh" and (status / "state" / "phase").value in _OVER:
        return True
    return any(
        (condition / "type").value in _OVER and (condition / "status").value == "True"
        for condition in (status / "conditions").items()
    )


def replicas(found: Found) -> Iterator[Replicas]:
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
            # Since v2beta1 the launcher is the pod of a Job.
            job = "" if found.value["apiVersion"] == "kubeflow.org/v1" else name
            yield Replicas("Launcher", [name], roles / "Launcher" / "template", job)
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


def _numbered(title: str, spec: Field, prefix: str) -> Iterator[Replicas]:
    if spec:
        names = [f"{prefix}-{index}" for index in range(_count(spec / "replicas"))]
        yield Replicas(title, names, spec / "template")


def _of_job(title: str, job: str, spec: Field, default: str) -> Replicas:
    """Return the pods of a Job; what it leaves out is `default`, its mode of completion."""
    alike = (spec / "completionMode").text(default) != "Indexed"
    names = [f"{job}-{index}" for index in range(_parallel(spec))]
    return Replicas(title, names, spec / "template", job, alike)


def _count(field: Field) -> int:
    return field.integer(0, 1, MAX_TASKS)


def _parallel(spec: Field) -> int:
    """Return how many pods of a Job run at a time."""
    at_once = _count(spec / "parallelism")
    return min(at_once, (spec / "completions").integer(0, at_once))


# ------------------------------------------------------------------ resources


def needs_of(spec: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a pod needs on its node, as Kubernetes counts it.

    That is what its containers need together with its sidecars, or what an init container needs
    beside the sidecars before it, whichever is more. What the pod as a whole asks for counts
    instead, and its overhead on top. What is limited and not requested counts as requested. Source:
    the page "Effective Pod requests and limits" of the Kubernetes documentation.
    """

    def asked(container: Field) -> list[Fraction]:
        resources = container / "resources"
        return _amounts(resources / "requests", resources / "limits", gpu_resources)

    running, most = [Fraction(0)] * 3, [Fraction(0)] * 3
    for container in (spec / "initContainers").items():
        starting = list(map(add, running, asked(container)))
        most = list(map(max, most, starting))
        if (container / "restartPolicy").value == "Always":
            running = starting
    for container in (spec / "containers").items():
        running = list(map(add, running, asked(container)))
    most = list(map(max, most, running))
    if most[0] % 1:
        spec.fail(f"its containers ask for {float(most[0]):g} GPUs; GPUs are whole")
    whole, overhead = spec / "resources", spec / "overhead"
    requests, limits = whole / "requests", whole / "limits"
    stated = _amounts(requests, requests, gpu_resources)
    limited = _amounts(limits, limits, gpu_resources)
    most = [first or own or last for first, own, last in zip(stated, most, limited, strict=True)]
    total = map(add, most, _amounts(overhead, overhead, gpu_resources))
    return _resources(spec, total, math.ceil)


def has_of(node: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a node has for pods, rounded down."""
    has = node / "status" / "allocatable" or node / "status" / "capacity"
    return _resources(has, _amounts(has, has, gpu_resources), math.floor)


def _amounts(first: Field, otherwise: Field, gpu_resources: Sequence[str]) -> list[Fraction]:
    """Return GPUs, thousandths of a core and MiB."""
    if not first and not otherwise:
        return [Fraction(0)] * 3

    def amount(name: str) -> Fraction:
        field = first / name or otherwise / name
        return field.quantity() if field else Fraction(0)

    gpus = sum(map(amount, gpu_resources), Fraction(0))
    return [gpus, 1000 * amount("cpu"), amount("memory") / _MEBI]


def _resources(
    field: Field, amounts: Iterable[Fraction], rounded: Callable[[Fraction], int]
) -> Resources:
    gpus, millicores, mebibytes = map(rounded, amounts)
    if max(gpus, millicores, mebibytes) > _MOST:
        field.fail(f"GPUs, thousandths of a core and MiB must be at most {_MOST} each")
    return Resources(gpus=gpus, cpu_millicores=millicores, memory_mib=mebibytes)


def neediest(needs: Iterable[Resources]) -> Resources:
    """Return the most of each."""
    gpus, cores, memory = map(max, zip(*(each.vector for each in needs), strict=True))
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
