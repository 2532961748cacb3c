"""Kinds of Kubernetes objects that are read: import, `inject` and the controller ask one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from metronome_opt.kubernetes.claims.names import CAPACITY, CLAIM, DEFAULT_GROUP, VERSION
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject, replace_item
from metronome_opt.kubernetes.reading.resources import needs_of
from metronome_opt.scenario.cluster import MAX_TASKS
from metronome_opt.scenario.nodes import Resources

TRAFFIC_SOURCES = ("model", "traffic")
"""Annotations that state the traffic of a workload."""

HYPER_NODE, TOPOLOGY, POD_GROUP = "HyperNode", "Topology", "PodGroup"
APP_GROUP, NETWORK_TOPOLOGY = "AppGroup", "NetworkTopology"

_TRAINER = "node"  # the job and the container of a TrainJob in which training happens


@dataclass(frozen=True)
class ObjectKind:
    """A kind of objects that are read."""

    kind: str
    group: str = ""  # the core group has no name
    versions: tuple[str, ...] = ("v1",)  # that are understood
    namespaced: bool = True
    is_of_jobs: bool = False  # whether only jobs have such objects


@dataclass(frozen=True)
class PodTemplate:
    """Pods of one template."""

    title: str
    names: list[str]
    template: Field
    stem: str | None = None  # where their names differ only by random characters

    @cached_property
    def needs(self) -> Resources:
        """Resources that a pod needs."""
        return needs_of(self.template / "spec")


@dataclass(frozen=True)
class WorkloadKind(ObjectKind):
    """A kind of training jobs."""

    _: KW_ONLY
    is_of_jobs: bool = True
    # Returns the pod templates of a workload, with the names of their pods.
    pods: Callable[[KubernetesObject], Iterable[PodTemplate]]
    phases: tuple[str, ...] = ()  # fields that state that it is done, beside its conditions
    job_labels: tuple[str, ...] = ()  # of its pods, with the name of their job
    rank_labels: tuple[str, ...] = ()  # of its pods, with their number in their job
    # Where a workload does not hold the templates of its pods: returns their number, the template
    # to which `inject` writes, and the mapping that has their environment.
    patch: Callable[[KubernetesObject], tuple[int, Field, Field]] | None = None


def _numbered(title: str, spec: Field, prefix: str) -> Iterator[PodTemplate]:
    if spec:
        names = [f"{prefix}-{index}" for index in range(_count(spec / "replicas"))]
        yield PodTemplate(title, names, spec / "template")


def _pods_of_job(title: str, job: str, spec: Field, default: str) -> PodTemplate:
    """Return the pods of a Job; `default` is its mode of completion unless it states one."""
    is_indexed = (spec / "completionMode").text(default) == "Indexed"
    names = [f"{job}-{index}" for index in range(_parallel(spec))]
    return PodTemplate(title, names, spec / "template", None if is_indexed else job)


def _count(field: Field) -> int:
    return field.integer(0, 1, MAX_TASKS)


def _parallel(spec: Field) -> int:
    """Return the number of pods of a Job that run at a time."""
    at_once = _count(spec / "parallelism")
    return min(at_once, (spec / "completions").integer(0, at_once))


# ------------------------------------------------------------------ Kubeflow


def _of_pytorch_job(workload: KubernetesObject) -> Iterator[PodTemplate]:
    for role in ("Master", "Worker"):
        prefix = f"{workload.name}-{role.lower()}"
        yield from _numbered(role, workload.at(f"spec.pytorchReplicaSpecs.{role}"), prefix)


def _of_mpi_job(workload: KubernetesObject) -> Iterator[PodTemplate]:
    roles = workload.at("spec.mpiReplicaSpecs")
    yield PodTemplate("Launcher", [f"{workload.name}-launcher"], roles.at("Launcher.template"))
    yield from _numbered("Worker", roles / "Worker", f"{workload.name}-worker")


def _of_train_job(workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the nodes of a TrainJob, unless it leaves them to its runtime."""
    trainer = workload.at("spec.trainer")
    nodes, resources = trainer / "numNodes", trainer / "resourcesPerNode"
    missing = [field for field in (nodes, resources) if not field]
    if not missing:
        container = {"name": _TRAINER, "resources": resources.value}
        template = Field({"spec": {"containers": [container]}}, workload.where)
        names = [f"{workload.name}-{_TRAINER}-0-{index}" for index in range(_count(nodes))]
        yield PodTemplate(_TRAINER, names, template)
    elif {f"{DEFAULT_GROUP}/{name}" for name in TRAFFIC_SOURCES} & set(workload.annotations):
        missing[0].fail("missing; state it, rather than leave it to the runtime")


def _patch_train_job(workload: KubernetesObject) -> tuple[int, Field, Field]:
    """Patch the runtime of a TrainJob, which holds the templates of its pods."""
    trainer = workload.at("spec.trainer")
    nodes = (trainer / "numNodes").integer(1)
    template: dict[str, Any] = {"spec": {"containers": [{"name": _TRAINER}]}}
    job = {"name": _TRAINER, "template": {"spec": {"template": template}}}
    patch = {
        "manager": f"{DEFAULT_GROUP}/inject",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    replace_item(workload / "spec", "runtimePatches", patch, key="manager")
    return nodes, Field(template, workload.where), trainer


# ------------------------------------------------------------------ Volcano, JobSet, Job


def _of_volcano_job(workload: KubernetesObject) -> Iterator[PodTemplate]:
    for index, task in enumerate(workload.at("spec.tasks").items()):
        title = (task / "name").text(f"default{index}")
        yield from _numbered(title, task, f"{workload.name}-{title}")


def _of_job_set(workload: KubernetesObject) -> Iterator[PodTemplate]:
    for group in workload.at("spec.replicatedJobs").items():
        title, inner = (group / "name").text(), group.at("template.spec")
        jobs = _count(group / "replicas")
        if jobs * _parallel(inner) > MAX_TASKS:
            (group / "replicas").fail(f"makes more than {MAX_TASKS} pods")
        for number in range(jobs):
            yield _pods_of_job(title, f"{workload.name}-{title}-{number}", inner, "Indexed")


# ------------------------------------------------------------------ the records

_GANG_VERSIONS = ("v1alpha2", "v1alpha3", "v1beta1")
_KUBEFLOW = "kubeflow.org"
_TRAINING_OPERATOR: Mapping[str, Any] = {
    "job_labels": ("training.kubeflow.org/job-name",),
    "rank_labels": ("training.kubeflow.org/replica-index",),
}
_KINDS = (
    ObjectKind("Node", namespaced=False),
    ObjectKind(CAPACITY, DEFAULT_GROUP, (VERSION,), namespaced=False),
    ObjectKind(HYPER_NODE, "topology.volcano.sh", ("v1alpha1",), namespaced=False),
    ObjectKind(TOPOLOGY, "kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), namespaced=False),
    ObjectKind(TOPOLOGY, "kai.scheduler", ("v1alpha1",), namespaced=False),
    ObjectKind("Pod"),
    ObjectKind(POD_GROUP, "scheduling.k8s.io", _GANG_VERSIONS, is_of_jobs=True),
    ObjectKind(POD_GROUP, "scheduling.volcano.sh", ("v1beta1",)),
    ObjectKind(POD_GROUP, "scheduling.run.ai", ("v2alpha2",)),  # of KAI
    ObjectKind(CLAIM, DEFAULT_GROUP, (VERSION,), is_of_jobs=True),
    ObjectKind(APP_GROUP, "appgroup.diktyo.x-k8s.io", ("v1alpha1",)),
    ObjectKind(NETWORK_TOPOLOGY, "networktopology.diktyo.x-k8s.io", ("v1alpha1",)),
    # Pods also have the labels of the objects that their workload makes, so that these come last.
    WorkloadKind(
        "JobSet",
        "jobset.x-k8s.io",
        ("v1alpha2",),
        pods=_of_job_set,
        job_labels=("jobset.sigs.k8s.io/jobset-name",),
        rank_labels=("jobset.sigs.k8s.io/job-global-index",),
    ),
    WorkloadKind(
        "TrainJob",
        "trainer.kubeflow.org",
        ("v1alpha1",),
        pods=_of_train_job,
        patch=_patch_train_job,
    ),
    WorkloadKind("PyTorchJob", _KUBEFLOW, pods=_of_pytorch_job, **_TRAINING_OPERATOR),
    WorkloadKind("MPIJob", _KUBEFLOW, ("v1", "v2beta1"), pods=_of_mpi_job, **_TRAINING_OPERATOR),
    WorkloadKind(
        "Job",
        "batch.volcano.sh",
        ("v1alpha1",),
        pods=_of_volcano_job,
        phases=("status.state.phase",),
        job_labels=("volcano.sh/job-name",),
    ),
    WorkloadKind(
        "Job",
        "batch",
        pods=lambda job: [_pods_of_job("pods", job.name, job / "spec", "NonIndexed")],
        job_labels=("scheduling.x-k8s.io/pod-group", "batch.kubernetes.io/job-name", "job-name"),
        rank_labels=("batch.kubernetes.io/job-completion-index",),
    ),
)

KINDS: dict[tuple[str, str], ObjectKind] = {(kind.kind, kind.group): kind for kind in _KINDS}
"""The kinds of objects that are read, by kind and group."""


def workload_kinds() -> list[WorkloadKind]:
    """Return the kinds of workload; a kind that others are made of comes last."""
    return [kind for kind in KINDS.values() if isinstance(kind, WorkloadKind)]


def kind_of(workload: KubernetesObject) -> WorkloadKind:
    """Return the record of a workload's kind."""
    kind = KINDS[workload.kind, workload.group]
    assert isinstance(kind, WorkloadKind)  # noqa: S101 (other kinds make no pods)
    return kind
