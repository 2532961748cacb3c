"""Kinds of Kubernetes objects that are read: import, `inject` and the controller ask one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.names import CAPACITY, CLAIM, DEFAULT_GROUP, VERSION
from metronome_opt.kubernetes.reading.fields import (
    Field,
    KubernetesObject,
    UnreadableError,
    replace_item,
)
from metronome_opt.kubernetes.reading.resources import DEVICE_GROUP, RUNTIMES, needs_of
from metronome_opt.scenario.cluster import MAX_TASKS
from metronome_opt.scenario.nodes import Resources

TRAFFIC_SOURCES = ("model", "traffic")
"""Annotations that state the traffic of a workload."""

TRAFFIC = frozenset(f"{DEFAULT_GROUP}/{name}" for name in TRAFFIC_SOURCES)
"""Their names in an object."""

IGNORE = f"{DEFAULT_GROUP}/ignore"
"""The annotation of an object that is to be ignored."""

HYPER_NODE, TOPOLOGY, POD_GROUP = "HyperNode", "Topology", "PodGroup"
DEVICE_KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
"""Kinds by which claimed devices are known."""
APP_GROUP, NETWORK_TOPOLOGY = "AppGroup", "NetworkTopology"

_TRAINER = "node"  # the job and the container of a TrainJob in which training happens
_PATCHED = {  # what decides where pods of a runtime run, and what they state
    "metadata": ("annotations", "labels"),
    "spec": (
        *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
        *("resourceClaims", "schedulingGroup"),
    ),
}
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"  # a label of jobs of a runtime


@dataclass(frozen=True)
class ObjectKind:
    """A kind of objects that are read."""

    kind: str
    group: str = ""  # the core group has no name
    versions: tuple[str, ...] = ("v1",)  # that are understood
    namespaced: bool = True
    is_of_jobs: bool = False  # whether only jobs have such objects

    @property
    def plural(self) -> str:
        """Their name in the API, as `DeviceClass` has ``deviceclasses``."""
        return f"{self.kind.lower()}{'es' if self.kind.endswith('s') else 's'}"


@dataclass(frozen=True)
class PodTemplate:
    """Pods of one template."""

    title: str
    names: list[str]
    template: Field
    stem: str | None = None  # where their names differ only by random characters
    job: str | None = None  # that they are tasks of, unless it is called like the workload
    is_named: bool = True  # whether all pods of the template are of this one job
    maker: KubernetesObject | None = None  # the workload inside another one that makes them

    @cached_property
    def stated(self) -> list[Mapping[str, str]]:
        """Their annotations, and before them those of what holds their template inside a workload.

        These are a workload inside another one, and templates of jobs, from the outside in.
        """
        holders: list[Field] = [] if self.maker is None else [self.maker]
        inner: Any = self.template.root
        for step in self.template.path[:-1] if inner else ():
            inner = inner.inside(inner.value[step], step)
            holders += [inner] if isinstance(inner.value, dict) else []
        return [holder.at("metadata.annotations").texts() for holder in (*holders, self.template)]

    @cached_property
    def needs(self) -> Resources:
        """Resources that a pod needs."""
        return needs_of(self.template / "spec")

    @property
    def holds_gpus(self) -> bool:
        """Whether there are pods, with GPUs."""
        return bool(self.names and self.needs.gpus)


@dataclass(frozen=True)
class WorkloadKind(ObjectKind):
    """A kind of training jobs."""

    _: KW_ONLY
    is_of_jobs: bool = True  # also if it states no traffic
    # Returns the pod templates of a workload, with the names of their pods.
    pods: Callable[[KubernetesObject], Iterable[PodTemplate]]
    phases: tuple[str, ...] = ()  # fields that state that it is done, beside its conditions
    # Labels of its pods, with the name of their job; of several in one text, joined by dashes.
    job_labels: tuple[str, ...] = ()
    rank_labels: tuple[str, ...] = ()  # of its pods, with their number in their job
    title_labels: tuple[str, ...] = ()  # of its pods, with the title of their template
    # Where a workload does not hold the templates of its pods: returns the template to which
    # `inject` writes, and the mappings that have the environments of their containers.
    patch: Callable[[KubernetesObject, PodTemplate], tuple[Field, list[Field]]] | None = None


def _numbered(title: str, spec: Field, prefix: str, stem: str | None = None) -> PodTemplate:
    """Return the replicas of a template, with their numbers in their names."""
    first = spec.at("ordinals.start").integer(0, 0)
    names = [f"{prefix}-{first + index}" for index in range(_count(spec / "replicas"))]
    return PodTemplate(title, names, spec / "template", stem)


def _pods_of_job(title: str, job: str, spec: Field, default: str) -> PodTemplate:
    """Return the pods of a Job; `default` is its mode of completion unless it states one."""
    is_indexed = (spec / "completionMode").text(default) == "Indexed"
    names = [f"{job}-{index}" for index in range(_parallel(spec))]
    return PodTemplate(title, names, spec / "template", None if is_indexed else job)


def _count(field: Field, default: int = 1) -> int:
    return field.integer(0, default, MAX_TASKS)


def _multiply(field: Field, *factors: int) -> int:
    """Return a number of pods; refuse more than a job may have."""
    product = 1
    for factor in factors:
        product *= factor
        if product > MAX_TASKS:
            field.fail(f"makes more than {MAX_TASKS} pods")
    return product


def _parallel(spec: Field) -> int:
    """Return the number of pods of a Job that run at a time."""
    at_once = _count(spec / "parallelism")
    return min(at_once, (spec / "completions").integer(0, at_once))


# ------------------------------------------------------------------ Kubeflow


def _of_roles(path: str, workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the pods of roles, which are called after them, with those that lead first."""
    roles = workload.at(path).mapping()
    leaders = ("Launcher", "Master", "Chief", "Scheduler", "Server", "PS")
    for role in sorted(roles, key=lambda role: (role not in leaders, role)):
        spec, prefix = workload.at(f"{path}.{role}"), f"{workload.name}-{role.lower()}"
        if role == "Launcher":
            yield PodTemplate(role, [prefix], spec / "template")
        elif spec:
            yield _numbered(role, spec, prefix)


def _of_train_job(workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the pods of a TrainJob: those of its runtime, but for what it states itself."""
    trainer, reference = workload.at("spec.trainer"), workload.at("spec.runtimeRef")
    kind, name = (reference / "kind").text(RUNTIMES[0]), (reference / "name").text("?")
    runtime, prefix = workload.find(kind, workload.group, name), f"{workload.name}-"
    if runtime is None:
        count = _count(_require(workload, "numNodes"))
        container = {"name": _TRAINER, "resources": _require(workload, "resourcesPerNode").value}
        template = workload.inside({"spec": {"containers": [container]}}, "spec", "trainer")
        names = [f"{prefix}{_TRAINER}-0-{index}" for index in range(count)]
        yield PodTemplate(_TRAINER, names, _patched(workload, _TRAINER, template))
        return
    resources, mpi = trainer / "resourcesPerNode", runtime.at("spec.mlPolicy.mpi")
    count = _count(trainer / "numNodes", _count(runtime.at("spec.mlPolicy.numNodes")))
    leads = (mpi / "runLauncherAsNode").flag()  # the launcher is one of the nodes
    for group in runtime.at("spec.template.spec.replicatedJobs").items():
        title, inner = (group / "name").text(), group.at("template.spec")
        template = inner / "template"
        trains = group.at("template.metadata.labels").texts().get(_STEP) == "trainer"
        has_nodes = title == _TRAINER or (trains and not mpi)
        number = max(count - leads, 1) if has_nodes else _parallel(inner)
        template = _patched(workload, title, template)
        for part in template.at("spec.containers").items() if has_nodes or trains else ():
            if resources and (part / "name").value == _TRAINER:
                part.value["resources"] = resources.value
        names = [f"{prefix}{title}-0-{index}" for index in range(number)]
        yield PodTemplate(title, names, template)


def _patched(workload: KubernetesObject, title: str, template: Field) -> Field:
    """Return a template of a TrainJob's runtime with what the TrainJob writes over it."""
    parts = {part: {**(template / part).mapping()} for part in _PATCHED}
    value = deepcopy({**template.mapping(), **parts})
    for jobs, patch in _patches(workload):
        names = [(job / "name").text() for job in jobs.items()]
        stated = [(part, key) for part, keys in _PATCHED.items() for key in keys]
        for part, key in stated if title in (names or [title]) else ():
            if field := patch / part / key:
                _write_over(value[part], key, field.value)
    return replace(template, value=value)


def _patches(workload: KubernetesObject) -> Iterator[tuple[Field, Field]]:
    """Yield patches of pod templates in a runtime, with the list of their jobs, empty for all."""
    for override in workload.at("spec.podTemplateOverrides").items():
        yield override / "targetJobs", override
    for override in workload.at("spec.podSpecOverrides").items():  # of older releases
        yield override / "targetJobs", override.inside({"spec": override.value})
    for patch in workload.at("spec.runtimePatches").items():
        for job in patch.at("trainingRuntimeSpec.template.spec.replicatedJobs").items():
            yield job.inside([job.value]), job.at("template.spec.template")


def _write_over(target: dict[str, Any], key: str, value: Any) -> None:
    """Write a value into a mapping; a mapping over another one adds to it."""
    if isinstance(value, dict) and isinstance(target.get(key), dict):
        for name, inner in value.items():
            _write_over(target[key], name, inner)
    else:
        target[key] = deepcopy(value)


def _require(workload: KubernetesObject, name: str) -> Field:
    """Return a field of a TrainJob that it may leave to its runtime, which was not read."""
    if field := workload.at(f"spec.trainer.{name}"):
        return field
    remedy = f"state it, or read the runtime {workload.at('spec.runtimeRef.name').text('?')} too"
    raise UnreadableError(f"spec.trainer.{name}: missing; {remedy}")


def _patch_train_job(workload: KubernetesObject, pods: PodTemplate) -> tuple[Field, list[Field]]:
    """Patch the runtime of a TrainJob, which holds the templates of its pods.

    The environment of the container that trains is that of the trainer.
    """
    names = [(part / "name").text() for part in pods.template.at("spec.containers").items()]
    template = Field({"spec": {"containers": [{"name": name} for name in names]}}, workload.where)
    own, spec = f"{DEFAULT_GROUP}/inject", workload / "spec"
    patches = (spec / "runtimePatches").items()
    path = "trainingRuntimeSpec.template.spec"
    found = (patch for patch in patches if (patch / "manager").value == own and patch.at(path))
    new = {"manager": own, "trainingRuntimeSpec": {"template": {"spec": {}}}}
    patch = next((its.value for its in found), new)
    job = {"name": pods.title, "template": {"spec": {"template": template.value}}}
    jobs = Field(patch, workload.where).at(path)
    replace_item(jobs, "replicatedJobs", job)
    replace_item(spec, "runtimePatches", patch, key="manager")
    containers = template.at("spec.containers").items()
    others = [part for part in containers if (part / "name").value != _TRAINER]
    if not spec / "trainer":
        spec.value["trainer"] = {}
    return template, [spec / "trainer"] * (len(others) < len(containers)) + others


# ------------------------------------------------------------------ Ray


def _of_ray(path: str, workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the head and the workers of a Ray cluster; a RayJob states the name of its own."""
    spec = workload.at(path)
    if not spec:
        raise UnreadableError(f"{path}: missing; annotate the RayCluster that it selects")
    name = workload.at("status.rayClusterName").text("") or workload.name
    yield PodTemplate("head", [f"{name}-head"], spec.at("headGroupSpec.template"))
    for group in (spec / "workerGroupSpecs").items():
        title = (group / "groupName").text()
        least, most = _count(group / "minReplicas", 0), _count(group / "maxReplicas", MAX_TASKS)
        replicas = min(max(_count(group / "replicas", 0), least), most)
        hosts = 0 if (group / "suspend").flag() else _count(group / "numOfHosts")
        pods = range(_multiply(group / "replicas", replicas, hosts))
        stem = f"{name}-{title}-worker"
        yield PodTemplate(title, [f"{stem}-{i}" for i in pods], group / "template", stem)


# ------------------------------------------------------------------ sets of pods, Volcano, JobSet


def _of_groups(workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the groups of a LeaderWorkerSet, each a job of its own."""
    spec = workload.at("spec.leaderWorkerTemplate")
    groups, size = _count(workload.at("spec.replicas")), _count(spec / "size")
    _multiply(spec / "size", groups, size)
    worker = spec / "workerTemplate"
    leader = spec / "leaderTemplate"
    for job in (f"{workload.name}-{number}" for number in range(groups)):
        first = leader if leader else worker
        yield PodTemplate("leader", [job], first, job=job, is_named=False)
        names = [f"{job}-{index}" for index in range(1, size)]
        yield PodTemplate("worker", names, worker, job=job, is_named=False)


def _of_replicas(workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the pods of a set; but for a StatefulSet, they differ by random characters."""
    stem = None if workload.kind == "StatefulSet" else workload.name
    yield _numbered("pods", workload / "spec", workload.name, stem)


def _of_list(path: str, workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the pods of a list of templates with names and numbers of replicas."""
    for index, task in enumerate(workload.at(path).items()):
        title = (task / "name").text(f"default{index}")
        yield _numbered(title, task, f"{workload.name}-{title}")


def _of_job_set(workload: KubernetesObject) -> Iterator[PodTemplate]:
    for group in workload.at("spec.replicatedJobs").items():
        title, inner = (group / "name").text(), group.at("template.spec")
        jobs = _count(group / "replicas")
        _multiply(group / "replicas", jobs, _parallel(inner))
        for number in range(jobs):
            yield _pods_of_job(title, f"{workload.name}-{title}-{number}", inner, "Indexed")


def _of_wrapper(workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the pods of the workloads in an AppWrapper; each of these is a job of its own."""
    for component in workload.at("spec.components").items():
        root = component / "template"
        group, _, _ = (root / "apiVersion").text().rpartition("/")
        inner = KubernetesObject(
            root.value,
            root.position,
            kind=(root / "kind").text(),
            group=group,
            namespace=root.at("metadata.namespace").text(workload.namespace),
            name=(root.at("metadata.name") or root.at("metadata.generateName")).text(),
            is_generated=not root.at("metadata.name"),
            context=workload.context,
        )
        if inner.kind == "Pod":
            yield PodTemplate("pod", [inner.name], inner)
        elif isinstance(kind := KINDS.get((inner.kind, group)), WorkloadKind):
            for pods in kind.pods(inner):
                named = pods.is_named and not inner.is_generated
                yield replace(pods, job=pods.job or inner.name, is_named=named, maker=inner)
        elif states_traffic(inner.value):
            raise UnreadableError(f"{inner.title} in it is of no kind that is read")


def states_traffic(document: Any) -> bool:
    """Return whether annotations in an object state traffic, unless it is to be ignored."""
    return not _is_ignored(document) and _has_traffic(document)


def _is_ignored(document: Any) -> bool:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    stated = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(stated, dict) and str(stated.get(IGNORE)).lower() == "true"


def _has_traffic(value: Any) -> bool:
    if isinstance(value, dict):
        stated = value.get("annotations")
        return (isinstance(stated, dict) and not TRAFFIC.isdisjoint(stated)) or any(
            map(_has_traffic, value.values())
        )
    return isinstance(value, list) and any(map(_has_traffic, value))


# ------------------------------------------------------------------ the records

_GANG_VERSIONS = ("v1alpha2", "v1alpha3", "v1beta1")
_DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_TRAINER_GROUP = "trainer.kubeflow.org"
_TRAINING_OPERATOR: Mapping[str, Any] = {
    "job_labels": ("training.kubeflow.org/job-name",),
    "rank_labels": ("training.kubeflow.org/replica-index",),
    "title_labels": ("training.kubeflow.org/replica-type",),
}
_OPERATORS = ("PyTorch", "MPI", "TF", "JAX", "XGBoost", "Paddle", "MX")  # with roles
_FIELDS = {"XGBoost": "xgb"}  # of roles, where these are not called like the kind
_RAY: Mapping[str, Any] = {"job_labels": ("ray.io/cluster",), "title_labels": ("ray.io/group",)}
_KINDS = (
    ObjectKind("Node", namespaced=False),
    ObjectKind(CAPACITY, DEFAULT_GROUP, (VERSION,), namespaced=False),
    ObjectKind(HYPER_NODE, "topology.volcano.sh", ("v1alpha1",), namespaced=False),
    ObjectKind(TOPOLOGY, "kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), namespaced=False),
    ObjectKind(TOPOLOGY, "kai.scheduler", ("v1", "v1alpha1"), namespaced=False),
    ObjectKind("Pod"),
    ObjectKind(POD_GROUP, "scheduling.k8s.io", _GANG_VERSIONS, is_of_jobs=True),
    ObjectKind(POD_GROUP, "scheduling.volcano.sh", ("v1beta1",)),
    ObjectKind(POD_GROUP, "scheduling.run.ai", ("v2alpha2",)),  # of KAI
    ObjectKind(CLAIM, DEFAULT_GROUP, (VERSION,), is_of_jobs=True),
    ObjectKind(APP_GROUP, "appgroup.diktyo.x-k8s.io", ("v1alpha1",)),
    *(
        ObjectKind(kind, DEVICE_GROUP, _DEVICE_VERSIONS, namespaced="Claim" in kind)
        for kind in DEVICE_KINDS
    ),
    *(
        ObjectKind(kind, _TRAINER_GROUP, ("v1alpha1",), namespaced=kind == "TrainingRuntime")
        for kind in RUNTIMES
    ),
    ObjectKind(NETWORK_TOPOLOGY, "networktopology.diktyo.x-k8s.io", ("v1alpha1",)),
    # Pods also have the labels of the objects that their workload makes, so that these come last.
    WorkloadKind(
        "AppWrapper",
        "workload.codeflare.dev",
        ("v1beta2",),
        pods=_of_wrapper,
        phases=("status.phase",),
    ),
    WorkloadKind(
        "JobSet",
        "jobset.x-k8s.io",
        ("v1alpha2",),
        pods=_of_job_set,
        job_labels=("jobset.sigs.k8s.io/jobset-name",),
        rank_labels=("jobset.sigs.k8s.io/job-global-index",),
        title_labels=("jobset.sigs.k8s.io/replicatedjob-name",),
    ),
    WorkloadKind(
        "TrainJob", _TRAINER_GROUP, ("v1alpha1",), pods=_of_train_job, patch=_patch_train_job
    ),
    *(
        WorkloadKind(
            f"{name}Job",
            "kubeflow.org",
            ("v1", "v2beta1") if name == "MPI" else ("v1",),
            pods=partial(_of_roles, f"spec.{_FIELDS.get(name, name.lower())}ReplicaSpecs"),
            **_TRAINING_OPERATOR,
        )
        for name in _OPERATORS
    ),
    *(
        WorkloadKind(kind, "sagemaker.amazonaws.com", pods=partial(_of_list, "spec.replicaSpecs"))
        for kind in ("HyperPodPyTorchJob", "HyperPodPytorchJob")  # documents have both spellings
    ),
    WorkloadKind(
        "RayJob",
        "ray.io",
        ("v1", "v1alpha1"),
        pods=partial(_of_ray, "spec.rayClusterSpec"),
        phases=("status.jobDeploymentStatus",),
        **_RAY,
    ),
    WorkloadKind("RayCluster", "ray.io", ("v1", "v1alpha1"), pods=partial(_of_ray, "spec"), **_RAY),
    WorkloadKind(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io",
        pods=_of_groups,
        job_labels=("leaderworkerset.sigs.k8s.io/name leaderworkerset.sigs.k8s.io/group-index",),
        rank_labels=("leaderworkerset.sigs.k8s.io/worker-index",),
    ),
    WorkloadKind(
        "Job",
        "batch.volcano.sh",
        ("v1alpha1",),
        pods=partial(_of_list, "spec.tasks"),
        phases=("status.state.phase",),
        job_labels=("volcano.sh/job-name",),
        title_labels=("volcano.sh/task-spec",),
    ),
    WorkloadKind(
        "Job",
        "batch",
        pods=lambda job: [_pods_of_job("pods", job.name, job / "spec", "NonIndexed")],
        job_labels=(
            "scheduling.x-k8s.io/pod-group",
            "kueue.x-k8s.io/pod-group-name",
            "batch.kubernetes.io/job-name",
            "job-name",
        ),
        rank_labels=("batch.kubernetes.io/job-completion-index",),
    ),
    WorkloadKind(
        "StatefulSet",
        "apps",
        is_of_jobs=False,
        pods=_of_replicas,
        rank_labels=("apps.kubernetes.io/pod-index",),
    ),
    WorkloadKind("Deployment", "apps", is_of_jobs=False, pods=_of_replicas),
    WorkloadKind("ReplicaSet", "apps", is_of_jobs=False, pods=_of_replicas),
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


def labelled(workload: KubernetesObject, pods: PodTemplate) -> Field:
    """Return a template with the labels that its pods get by the kind of their workload."""
    maker = pods.maker or workload
    kind, metadata = kind_of(maker), pods.template / "metadata"
    labels = {
        "ray.io/node-type": "head" if pods.title == "head" else "worker",  # of no other kind
        **{label.split()[0]: maker.name for label in kind.job_labels},
        **dict.fromkeys(kind.title_labels, pods.title.lower()),
        **(metadata / "labels").texts(),
    }
    value = {**pods.template.mapping(), "metadata": {**metadata.mapping(), "labels": labels}}
    return replace(pods.template, value=value)


def pods_of(workload: KubernetesObject) -> Iterator[PodTemplate]:
    """Yield the pod templates of a workload; refuse more pods than a job may have."""
    count = 0
    for pods in kind_of(workload).pods(workload):
        count += len(pods.names)
        if count > MAX_TASKS:
            raise InputError(f"{workload.where}: has more than {MAX_TASKS} pods; remove it")
        yield pods
