"""Training jobs of a cluster as jobs of a scenario."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.names import CLAIM, DEFAULT_GROUP
from metronome_opt.kubernetes.reading.annotations import Annotations, merge, read_pattern
from metronome_opt.kubernetes.reading.fields import (
    Faults,
    Field,
    KubernetesObject,
    UnreadableError,
    UnsuitableError,
)
from metronome_opt.kubernetes.reading.kinds import (
    APP_GROUP,
    POD_GROUP,
    TRAFFIC,
    PodTemplate,
    kind_of,
    labelled,
    pods_of,
    states_traffic,
)
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.pods import Pod, group_of
from metronome_opt.kubernetes.reading.resources import (
    accelerators_of,
    check_claims,
    explain_no_gpus,
    neediest,
)
from metronome_opt.scenario.cluster import ANY_COST, MAX_TASKS
from metronome_opt.scenario.nodes import ONE_GPU, Resources

_DONE = {"Succeeded", "Complete", "Completed", "Failed", "Aborted", "Terminated"}
_OF_CONTROLLER = {f"{DEFAULT_GROUP}/{name}" for name in ("node", "task", "claim", "slots")}
_MAX_PODS = 10 * MAX_TASKS  # of all workloads
_SUFFIX = re.compile("-[a-z0-9]{5}$")  # that a Job appends to the names of its pods


@dataclass(frozen=True)
class ClaimInForce:
    """A claim with an allocation; its traffic is as a scenario has it."""

    source: KubernetesObject
    job: str
    task: int
    node: str
    traffic: Mapping[str, Any]
    priority: int
    offset_us: int
    stretch_us: int
    crosses: bool  # a link


@dataclass
class ImportedJob:
    """A training job of a cluster, and the job of the scenario that it becomes."""

    source: KubernetesObject  # the object that it was read from
    name: str
    expected: Sequence[str]  # names of pods that hold GPUs, as far as known beforehand
    pods: Sequence[str]  # names of the pods that are there, else the expected names
    nodes: Sequence[str | None]  # where they run
    task_resources: Resources = ONE_GPU  # cores and memory of the neediest pod
    annotations: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None  # the PodGroup of its pods
    accelerators: frozenset[str] = frozenset()  # resources of its GPUs
    templates: Sequence[Field] = ()  # of its pods, or these
    claims: list[ClaimInForce] = field(default_factory=list)
    entry: dict[str, Any] = field(default_factory=dict)  # the job of the scenario

    @property
    def claim(self) -> ClaimInForce | None:
        """The first of its claims; None if it has none."""
        return next(iter(self.claims), None)


def read_jobs(
    objects: Objects, pods: Sequence[Pod], slot_ms: int, faults: Faults
) -> list[ImportedJob]:
    """Return the jobs whose traffic is known: of workloads, and of claims without workload.

    `pods` have not ended. `faults` takes what becomes no job; what cannot be used is refused.
    """
    candidates = _in_gangs(objects, _read_workloads(objects, pods, faults), pods, faults)
    owner: dict[tuple[str, str], ImportedJob] = {}
    for job in candidates:
        for name in (*job.expected, *job.pods):
            owner.setdefault((job.source.namespace, name), job)
    unowned: list[ClaimInForce] = []
    for claim in filter(None, map(_read_claim, objects.of(CLAIM))):
        namespace, name = claim.source.key
        job_of = owner.get((namespace, name), owner.get((namespace, _without_suffix(name))))
        (unowned if job_of is None else job_of.claims).append(claim)
    tolerated = _tolerated_costs(objects.of(APP_GROUP))
    jobs = []
    for job in (*candidates, *_claimed_jobs(unowned)):
        is_stated = states_traffic(job.source.value)
        with faults.collect(job.source.title, job.source.where if is_stated else ""):
            job.entry = _entry_of(job, slot_ms, tolerated)
            jobs.append(job)
    faults.refuse()
    return _rename(jobs)


# ------------------------------------------------------------------ workloads and their pods


def _without_suffix(name: str) -> str:
    return _SUFFIX.sub("", name)


def _read_workloads(objects: Objects, pods: Sequence[Pod], faults: Faults) -> list[ImportedJob]:
    """Return the workloads that no other one makes."""
    untaken: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (pod.node is None, pod.name)):  # running ones first
        for name in {pod.name, _without_suffix(pod.name)}:
            untaken[pod.namespace, name].append(pod)
        if pod.owner and pod.owner[0] == "ReplicaSet":  # names with two random ends
            untaken[pod.namespace, pod.job.partition("/")[2]].append(pod)
    jobs: list[ImportedJob] = []
    count = 0
    for workload in objects.workloads():
        if not objects.has_owner_of(workload):
            where = workload.where if states_traffic(workload.value) else ""
            with faults.collect(workload.title, where):
                _check_state(workload)
                by_job: dict[str, list[PodTemplate]] = defaultdict(list)
                for template in pods_of(workload):
                    count += len(template.names)
                    if count > _MAX_PODS:
                        raise InputError(
                            f"{workload.where}: more than {_MAX_PODS} pods in all; read fewer"
                        )
                    by_job[template.job or workload.name].append(template)
                holding = {
                    name: templates
                    for name, templates in by_job.items()
                    if any(pods.holds_gpus for pods in templates)
                }
                if not by_job:
                    raise UnreadableError("without templates of pods")
                for name, templates in (holding or by_job).items():
                    jobs.append(_read_job(workload, name, templates, untaken))
    return jobs


def _check_state(workload: KubernetesObject) -> None:
    """Refuse a workload that is done."""
    kind = kind_of(workload)
    states = [workload.at(path).value for path in kind.phases] + [
        (condition / "type").value
        for condition in workload.at("status.conditions").items()
        if (condition / "status").value == "True"
    ]
    if any(isinstance(state, str) and state in _DONE for state in states):
        raise UnsuitableError("done")


def _read_job(
    workload: KubernetesObject,
    name: str,
    every: Sequence[PodTemplate],
    untaken: Mapping[tuple[str, str], list[Pod]],
) -> ImportedJob:
    """Read a job of a workload, whose pods hold equal numbers of GPUs."""
    holding = [pods for pods in every if pods.holds_gpus]
    if not any(pods.names for pods in every):
        raise UnsuitableError("without pods")
    if not holding and any(pods.needs.gpus for pods in every):
        raise UnsuitableError("without pods that hold GPUs")
    if not holding:
        raise explain_no_gpus(every[-1].template)
    if len({pods.needs.gpus for pods in holding}) > 1:
        different = ", ".join(f"{pods.title} {pods.needs.gpus}" for pods in holding)
        raise UnreadableError(f"with different numbers of GPUs ({different})")
    for pods in holding:
        check_claims(pods.template / "spec")
    expected = [name for pods in holding for name in pods.names]
    stems = [pods.stem or name for pods in holding for name in pods.names]
    taken = [_take(untaken, workload.namespace, stem) for stem in stems]
    templates = [labelled(workload, pods) for pods in holding]
    stated = [mapping for pods in holding for mapping in pods.stated]
    groups = [group_of(pod) for pod in (*templates, *filter(None, taken))]
    return ImportedJob(
        workload,
        name,
        expected,
        [name if pod is None else pod.name for name, pod in zip(expected, taken, strict=True)],
        [None if pod is None else pod.node for pod in taken],
        neediest(pods.needs for pods in holding),
        merge(workload.annotations, *stated),
        next(filter(None, groups), None),
        accelerators=frozenset().union(
            *(accelerators_of(template / "spec") for template in templates)
        ),
        templates=templates,
    )


def _take(untaken: Mapping[tuple[str, str], list[Pod]], namespace: str, name: str) -> Pod | None:
    """Take the pod called `name`, else the next one with this name and a suffix."""
    pods = untaken.get((namespace, name), [])
    pod = min(pods, key=lambda pod: pod.name != name, default=None)
    if pod is not None:
        pods.remove(pod)
    return pod


# ------------------------------------------------------------------ gangs


def _in_gangs(
    objects: Objects, jobs: Sequence[ImportedJob], pods: Sequence[Pod], faults: Faults
) -> list[ImportedJob]:
    """Return jobs; all jobs and pods of one PodGroup are one job.

    Pods that state traffic, and whose workload was not read, are one job with the others of their
    owner.
    """
    known = {(job.source.namespace, name) for job in jobs for name in job.pods}
    read = {f"{job.source.namespace}/{job.name}" for job in jobs}
    read |= {"/".join(workload.key) for workload in objects.workloads()}
    sources = {group.key: group for group in objects.of(POD_GROUP, "scheduling.k8s.io")}
    result = [job for job in jobs if job.group is None]
    gangs: dict[tuple[str, str, bool], list[ImportedJob]] = defaultdict(list)
    for job in jobs:
        if job.group is not None:
            gangs[job.source.namespace, job.group, True].append(job)
    for pod in sorted(pods, key=lambda pod: pod.rank):
        if pod.key in known or not (pod.gang or pod.states_traffic):
            continue
        if pod.gang or (pod.job not in read and not objects.has_owner_of(pod)):
            names, every = [pod.name], pod.annotations.items()
            own = {name: text for name, text in every if name not in _OF_CONTROLLER}
            alone = ImportedJob(
                pod, pod.name, names, names, [pod.node], pod.needs, own, templates=[pod]
            )
            alone.accelerators = frozenset(accelerators_of(pod / "spec"))
            gang = pod.gang or pod.job.partition("/")[2]
            gangs[pod.namespace, gang, bool(pod.gang)].append(alone)
    for (space, name, is_group), members in gangs.items():
        source = (is_group and sources.get((space, name))) or members[0].source
        stated = {*source.annotations, *(key for job in members for key in job.annotations)}
        with faults.collect(source.title, source.where if stated & TRAFFIC else ""):
            result.append(_join(source, name, members))
    return result


def _join(source: KubernetesObject, name: str, members: Sequence[ImportedJob]) -> ImportedJob:
    """Return the workloads and pods of a PodGroup as one job; a workload alone is one already."""
    every, members = members, [job for job in members if job.task_resources.gpus]
    if not members:
        raise explain_no_gpus(every[0].source)
    if len({job.task_resources.gpus for job in members}) > 1:
        raise UnreadableError("in a gang with different numbers of GPUs")
    if members[0].source.kind != "Pod" and len(members) == 1:
        return members[0]
    return ImportedJob(
        source,
        name,
        [name for job in members for name in job.expected],
        [name for job in members for name in job.pods],
        [node for job in members for node in job.nodes],
        neediest(job.task_resources for job in members),
        merge(source.annotations, *(job.annotations for job in members)),
        name,
        accelerators=frozenset().union(*(job.accelerators for job in members)),
        templates=[template for job in members for template in job.templates],
    )


# ------------------------------------------------------------------ the job of the scenario


def _entry_of(
    job: ImportedJob, slot_ms: int, tolerated: Mapping[tuple[str, str], int]
) -> dict[str, Any]:
    """Return the entry of a job in a scenario, from annotations and claims in force."""
    stated = Annotations(job.source.where, job.annotations)
    if stated.ignored:
        raise UnsuitableError("by their annotation")
    stated.check()
    claim, source, optional = job.claim, job.source, stated.job_fields()
    traffic = stated.traffic()
    if not traffic and claim is not None:
        traffic = {"traffic": claim.traffic}
    if len(job.expected) < 2:
        raise UnsuitableError("of a single pod, which sends nothing")
    if not traffic:
        if states_traffic(source.value):
            raise UnreadableError("only of pods without GPUs; annotate the whole, or other pods")
        raise UnsuitableError("no traffic known")
    # In a ring some pods send inside their node; otherwise all cross links, or none do.
    if len({claim.crosses for claim in job.claims}) > 1:
        optional.setdefault("allreduce", "ring")
    names = (source.name, *job.expected, *job.pods)
    cost = min(tolerated.get((source.namespace, name), ANY_COST) for name in names)
    if optional.setdefault("max_network_cost", cost) == ANY_COST:
        del optional["max_network_cost"]
    stretch = max(
        (stated.number("max-stretch-ms") or 0) // slot_ms,
        math.ceil(Fraction(claim.stretch_us if claim else 0, 1000 * slot_ms)),
    )
    claimed = {claim.source.name: claim.node for claim in job.claims}
    nodes = [node or claimed.get(pod) for pod, node in zip(job.pods, job.nodes, strict=True)]
    original = source.annotations.get(f"{DEFAULT_GROUP}/original-job", job.name)
    return {
        "name": job.claims[0].job if source.kind == CLAIM else original,
        **traffic,
        "workers": len(job.expected),
        "each": job.task_resources.model_dump(exclude_defaults=True),
        "priority": optional.pop("priority", claim.priority if claim else 1),
        "pods": list(job.pods),
        "namespace": source.namespace,
        **optional,
        **({"nodes": nodes} if all(nodes) else {}),
        **({"max_stretch_ms": stretch * slot_ms} if stretch else {}),
    }


def _tolerated_costs(groups: Iterable[KubernetesObject]) -> dict[tuple[str, str], int]:
    """Return the least `maxNetworkCost` of dependencies, by namespace and name of workloads."""
    least: dict[tuple[str, str], int] = {}
    for group in groups:
        for item in group.at("spec.workloads").items():
            workload = item / "workload"
            key = (workload / "namespace").text(group.namespace), (workload / "name").text()
            for dependency in (item / "dependencies").items():
                cost = (dependency / "maxNetworkCost").integer(0, 0, ANY_COST)  # 0 as upstream
                least[key] = min(cost, least.get(key, cost))
    return least


def _rename(jobs: Iterable[ImportedJob]) -> list[ImportedJob]:
    """Return jobs by namespace and name; a name of several gets its namespace or kind before it."""

    def names(job: ImportedJob) -> tuple[str, str, str]:
        source, name = job.source, job.entry["name"]
        place = f"{source.namespace}/{source.kind.lower()}.{source.group}/{name}"
        return name, f"{source.namespace}/{name}", place

    jobs = sorted(jobs, key=lambda job: (job.source.namespace, job.entry["name"], job.source.title))
    counts = Counter(name for job in jobs for name in names(job))
    for job in jobs:
        job.entry["name"] = next((name for name in names(job) if counts[name] == 1), names(job)[-1])
    return jobs


# ------------------------------------------------------------------ claims in force


def _read_claim(claim: KubernetesObject) -> ClaimInForce | None:
    """Return a claim; None if it has no allocation."""
    spec, allocation = claim / "spec", claim.at("spec.allocation")
    if not allocation:
        return None
    return ClaimInForce(
        claim,
        job=(spec / "job").text(),
        task=(spec / "task").integer(0, maximum=MAX_TASKS),
        node=(allocation / "node").text(),
        traffic=read_pattern(spec / "traffic"),
        priority=spec.at("traffic.priority").integer(0),
        offset_us=(allocation / "offsetMicroseconds").integer(0),
        stretch_us=(allocation / "stretchMicroseconds").integer(0),
        crosses=bool(allocation / "link"),
    )


def _claimed_jobs(claims: Iterable[ClaimInForce]) -> list[ImportedJob]:
    """Return the jobs of claims without a workload; two claims may not share a task."""
    jobs: dict[tuple[str, str], dict[int, ClaimInForce]] = {}
    for claim in claims:
        tasks = jobs.setdefault((claim.source.namespace, claim.job), {})
        other = tasks.setdefault(claim.task, claim)
        if other is not claim:
            claim.source.at("spec.task").fail(f"is that of {other.source.name} too")
    result = []
    for _, tasks in sorted(jobs.items()):
        mine = [tasks[task] for task in sorted(tasks)]
        names, source = [claim.source.name for claim in mine], mine[0].source
        nodes = [claim.node for claim in mine]
        result.append(ImportedJob(source, source.name, names, names, nodes, claims=mine))
    return result
