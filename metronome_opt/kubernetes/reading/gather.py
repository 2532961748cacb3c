"""From objects to the jobs that they speak of: workloads, AppGroups, and claims on their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from metronome_opt.kubernetes.crd import CLAIM
from metronome_opt.kubernetes.diktyo import APPGROUP
from metronome_opt.kubernetes.reading.appgroups import read_group
from metronome_opt.kubernetes.reading.inforce import read_claims
from metronome_opt.kubernetes.reading.jobs import Read, jobs_of_claims, read_job
from metronome_opt.kubernetes.reading.needs import Pod
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.running import Running, find_tasks, hand_out
from metronome_opt.kubernetes.reading.weights import Classes
from metronome_opt.kubernetes.reading.workloads import UnsuitableError, Workload, read_workload

_SHOWN = 3


class LeftOut:
    """What is left out, by reason."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)

    def add(self, why: str, kind: str, namespace: str, name: str) -> None:
        """Leave something out."""
        self._names[why].append(f"{kind} {namespace}/{name}")

    def notes(self) -> list[str]:
        """Return a line for each reason."""
        return [
            f"{len(names)} left out, {why}: {', '.join(names[:_SHOWN])}"
            + (", ..." if len(names) > _SHOWN else "")
            for why, names in sorted(self._names.items())
        ]


def gather(
    objects: Objects,
    pods: Sequence[Pod],
    gpu_resources: Sequence[str],
    weights: Mapping[str, int],
    left_out: LeftOut,
) -> list[Read]:
    """Return the jobs whose traffic is known.

    Parameters
    ----------
    objects
        Everything that was read.
    pods
        Those of them that have not ended.
    gpu_resources
        What GPUs are called.
    weights
        Of priority classes, by name.
    left_out
        Gets the others, each with the reason.

    Raises
    ------
    InputError
        If an object cannot be read.
    """
    running = find_tasks(_workloads(objects, pods, gpu_resources, left_out), pods)
    claims = objects.of(CLAIM, objects.group)
    templates = {(claim.namespace, claim.name): claim for claim in claims}
    alone = hand_out(read_claims(claims), running)
    classes = Classes(objects.of("PriorityClass", "scheduling.k8s.io"))
    jobs = []
    for each in running:
        job = read_job(each, objects.group, templates, classes, weights)
        if job is None:
            left_out.add("as their annotation says", *_title(each))
        else:
            jobs.append(job)
    return [job for job in (*jobs, *jobs_of_claims(alone)) if _is_of_use(job, left_out)]


def _title(running: Running) -> tuple[str, str, str]:
    found = running.workload.found
    return found.kind, found.namespace, found.name


def _is_of_use(job: Read, left_out: LeftOut) -> bool:
    if len(job.pods) < 2:
        left_out.add("of a single pod, which sends nothing", job.kind, job.namespace, job.name)
        return False
    if job.traffic is None:
        left_out.add("no traffic known", job.kind, job.namespace, job.name)
        return False
    return True


def _workloads(
    objects: Objects, pods: Sequence[Pod], gpu_resources: Sequence[str], left_out: LeftOut
) -> list[Workload]:
    workloads: list[Workload] = []
    candidates = list(objects.workloads())
    known = {(found.kind, found.namespace, found.name) for found in candidates}
    for found in candidates:
        owner = found.owner
        if owner is not None and (owner[0], found.namespace, owner[1]) in known:
            continue
        try:
            workloads.append(read_workload(found, gpu_resources))
        except UnsuitableError as reason:
            left_out.add(str(reason), found.kind, found.namespace, found.name)
    there = {(pod.found.namespace, pod.found.name): pod for pod in pods}
    taken = {
        (each.workload.found.namespace, name)
        for each in find_tasks(workloads, pods)
        for name in (*each.workload.pods, *each.names)
    }
    for found in objects.of_key(APPGROUP):
        group = read_group(found, there)
        if not group.pods:
            left_out.add("whose members are no pods", found.kind, found.namespace, found.name)
        elif not any((found.namespace, pod) in taken for pod in group.pods):
            workloads.append(group)
    return workloads
