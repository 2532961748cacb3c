"""Workloads of each kind: which pods they make, by which names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from metronome_opt.kubernetes.reading.objects import Field, Found, Objects
from metronome_opt.kubernetes.reading.resources import container_needs, needs_of
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.network import Resources

_TRAINER = "node"  # the job of a TrainJob in which training happens
_RAY_PREFIX = 50  # characters of a name of a pod that KubeRay keeps


@dataclass(frozen=True)
class Replicas:
    """Pods of one template."""

    title: str
    names: Sequence[str]
    template: Field
    maker: tuple[str, str] | None = None  # what adds random characters to their names
    stem: str | None = None  # where these are all that tells them apart
    group: str = ""  # that they are a job with, where a workload has several
    resources: Field | None = None  # what each needs, where that is not in the template

    def needs(self, gpu_resources: Sequence[str]) -> Resources:
        """Return what each of the pods needs."""
        if self.resources is None:
            return needs_of(self.template / "spec", gpu_resources)
        return container_needs(self.resources, gpu_resources)


def made_by(found: Found, objects: Objects) -> Found | None:
    """Return the object that a workload leaves its pods to; None if it has none, or not yet."""
    kind = {"TrainJob": "JobSet", "RayJob": "RayCluster"}.get(found.kind)
    return next(
        (
            each
            for each in (objects.of(kind) if kind else ())
            if each.namespace == found.namespace and each.owner == (found.kind, found.name)
        ),
        None,
    )


def replicas(found: Found, objects: Objects) -> Iterator[Replicas]:
    """Yield the pods of each template of a workload."""
    made = made_by(found, objects)
    if made is not None:
        yield from replicas(made, objects)
    else:
        yield from _READERS[found.kind, found.group](found, objects)


def _of_pytorch_job(found: Found, _: Objects) -> Iterator[Replicas]:
    for role in ("Master", "Worker"):
        prefix = f"{found.name}-{role.lower()}"
        yield from _numbered(role, found / "spec" / "pytorchReplicaSpecs" / role, prefix)


def _of_mpi_job(found: Found, _: Objects) -> Iterator[Replicas]:
    roles = found / "spec" / "mpiReplicaSpecs"
    name = f"{found.name}-launcher"
    # Since v2beta1 the launcher is the pod of a Job.
    maker = None if found.value["apiVersion"] == "kubeflow.org/v1" else ("Job", name)
    yield Replicas("Launcher", [name], roles / "Launcher" / "template", maker)
    yield from _numbered("Worker", roles / "Worker", f"{found.name}-worker")


def _of_volcano_job(found: Found, _: Objects) -> Iterator[Replicas]:
    for index, task in enumerate((found / "spec" / "tasks").items()):
        title = (task / "name").text(f"default{index}")
        yield from _numbered(title, task, f"{found.name}-{title}")


def _of_job_set(found: Found, _: Objects) -> Iterator[Replicas]:
    for group in (found / "spec" / "replicatedJobs").items():
        title, inner = (group / "name").text(), group / "template" / "spec"
        jobs = _count(group / "replicas")
        if jobs * _parallel(inner) > MAX_TASKS:
            (group / "replicas").fail(f"makes more than {MAX_TASKS} pods")
        for number in range(jobs):
            yield _of_job(title, f"{found.name}-{title}-{number}", inner, "Indexed")


def _of_plain_job(found: Found, _: Objects) -> Iterator[Replicas]:
    yield _of_job("pods", found.name, found / "spec", "NonIndexed")


def _of_ray_job(found: Found, _: Objects) -> Iterator[Replicas]:
    # The name of its cluster ends in random characters.
    name = (found / "status" / "rayClusterName").text(found.name)
    yield from _of_ray(name, found / "spec" / "rayClusterSpec")


def _of_ray_cluster(found: Found, _: Objects) -> Iterator[Replicas]:
    yield from _of_ray(found.name, found / "spec")


def _of_train_job(found: Found, objects: Objects) -> Iterator[Replicas]:
    """Yield the nodes of a TrainJob; what it leaves out its runtime says, if that was read."""
    trainer, reference = found / "spec" / "trainer", found / "spec" / "runtimeRef"
    kind, name = (reference / "kind").text("ClusterTrainingRuntime"), (reference / "name").text()
    where = "" if kind == "ClusterTrainingRuntime" else found.namespace
    runtime = next((each for each in objects.of(kind) if each.key == (where, name)), None)
    template, resources = Field(None, found.where), trainer / "resourcesPerNode"
    nodes = trainer / "numNodes"
    if runtime is not None:
        spec = runtime / "spec"
        nodes = nodes or spec / "mlPolicy" / "numNodes"
        for job in (spec / "template" / "spec" / "replicatedJobs").items():
            if (job / "name").value == _TRAINER:
                template = job / "template" / "spec" / "template"
    else:
        missing = [field for field in (nodes, resources) if not field]
        if missing and objects.sources(found.annotations):
            missing[0].fail(f"missing; state it, or read the {kind} {name} as well")
        if missing:
            return
    maker = f"{found.name}-{_TRAINER}-0"
    names = [f"{maker}-{index}" for index in range(_count(nodes))]
    yield Replicas(_TRAINER, names, template, ("Job", maker), resources=resources or None)


def _of_ray(cluster: str, spec: Field) -> Iterator[Replicas]:
    """Yield head and workers of a RayCluster."""
    maker = "RayCluster", cluster
    if not spec:
        return
    head = spec / "headGroupSpec" / "template"
    yield Replicas("head", [f"{cluster[:_RAY_PREFIX]}-head"], head, maker)
    for group in (spec / "workerGroupSpecs").items():
        title = (group / "groupName").text()
        least = (group / "minReplicas").integer(0, 0)
        count = max(least, (group / "replicas").integer(0, 0, MAX_TASKS))
        hosts = (group / "numOfHosts").integer(1, 1, MAX_TASKS)
        if count * hosts > MAX_TASKS:
            (group / "replicas").fail(f"makes more than {MAX_TASKS} pods")
        if (group / "suspend").flag():
            count = 0
        stem = f"{f'{cluster}-{title}'[:_RAY_PREFIX]}-worker".lower()
        names = [f"{stem}-{index}" for index in range(count * hosts)]
        yield Replicas(title, names, group / "template", maker, stem)


def _of_leaders(found: Found, _: Objects) -> Iterator[Replicas]:
    """Yield leader and workers of each group of a LeaderWorkerSet; each group is a job."""
    spec, templates = found / "spec", found / "spec" / "leaderWorkerTemplate"
    groups, size = _count(spec / "replicas"), (templates / "size").integer(1, 1, MAX_TASKS)
    if groups * size > MAX_TASKS:
        (templates / "size").fail(f"makes more than {MAX_TASKS} pods")
    worker = templates / "workerTemplate"
    leader = templates / "leaderTemplate" or worker
    for number in range(groups):
        name = f"{found.name}-{number}"
        group = name if groups > 1 else ""
        yield Replicas("leader", [name], leader, group=group)
        names = [f"{name}-{index}" for index in range(1, size)]
        yield Replicas("worker", names, worker, group=group)


def _numbered(title: str, spec: Field, prefix: str) -> Iterator[Replicas]:
    if spec:
        names = [f"{prefix}-{index}" for index in range(_count(spec / "replicas"))]
        yield Replicas(title, names, spec / "template")


def _of_job(title: str, job: str, spec: Field, default: str) -> Replicas:
    """Return the pods of a Job; what it leaves out is `default`, its mode of completion."""
    alike = (spec / "completionMode").text(default) != "Indexed"
    names = [f"{job}-{index}" for index in range(_parallel(spec))]
    return Replicas(title, names, spec / "template", ("Job", job), job if alike else None)


def _count(field: Field) -> int:
    return field.integer(0, 1, MAX_TASKS)


def _parallel(spec: Field) -> int:
    """Return how many pods of a Job run at a time."""
    at_once = _count(spec / "parallelism")
    return min(at_once, (spec / "completions").integer(0, at_once))


_READERS: Mapping[tuple[str, str], Callable[[Found, Objects], Iterator[Replicas]]] = {
    ("PyTorchJob", "kubeflow.org"): _of_pytorch_job,
    ("MPIJob", "kubeflow.org"): _of_mpi_job,
    ("Job", "batch.volcano.sh"): _of_volcano_job,
    ("JobSet", "jobset.x-k8s.io"): _of_job_set,
    ("Job", "batch"): _of_plain_job,
    ("TrainJob", "trainer.kubeflow.org"): _of_train_job,
    ("RayJob", "ray.io"): _of_ray_job,
    ("RayCluster", "ray.io"): _of_ray_cluster,
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): _of_leaders,
}
