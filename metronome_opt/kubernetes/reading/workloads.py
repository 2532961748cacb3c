"""Workloads of all kinds down to the pods that hold GPUs: what these need, and where they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.kinds import Replicas, made_by, replicas
from metronome_opt.kubernetes.reading.objects import Found, Objects
from metronome_opt.kubernetes.reading.resources import neediest, needs_of
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.network import ONE_GPU, Resources

LeftOut = dict[str, list[str]]  # titles of what is left out, by reason

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

    def take(
        self, namespace: str, name: str, maker: tuple[str, str] | None = None
    ) -> LivePod | None:
        """Return the pod called `name`; if it has a maker the next one with a suffix too.

        A maker is the kind and name of what gives its pods five random characters.
        """
        left = self._left.get((namespace, name), [])
        for pod in left:
            if pod.found.owner in (None, maker) if maker else pod.found.name == name:
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
    name: str  # that of the object, but for one of several groups
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
            every = list(replicas(found, objects))
            for name in dict.fromkeys(each.group for each in every) or ("",):
                mine = [each for each in every if each.group == name]
                workloads.append(_read_workload(found, name, mine, objects, pods, gpu_resources))
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


def _read_workload(
    found: Found,
    group: str,
    of_group: Iterable[Replicas],
    objects: Objects,
    pods: Pods,
    gpu_resources: Sequence[str],
) -> Workload:
    """Read a workload of any kind, or one group of its pods.

    Raises
    ------
    UnsuitableError
        If it is done, holds no GPUs, or its pods are too unlike one another.
    InputError
        If it cannot be read: the line names object, place and value.
    """
    if _is_done(found):
        raise UnsuitableError("done")
    every = [(each, each.needs(gpu_resources)) for each in of_group]
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
            there.append(pods.take(found.namespace, each.stem or name, each.maker))
    made = made_by(found, objects)
    if made is not None:
        annotations = {**annotations, **made.annotations}
    return Workload(
        found,
        group or found.name,
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
    return Workload(
        found, found.name, tuple(names), tuple(there), each, found.annotations, priority_class
    )


def _is_done(found: Found) -> bool:
    status = found / "status"
    if found.group == "batch.volcano.sh" and (status / "state" / "phase").value in _OVER:
        return True
    if found.group == "ray.io" and (status / "jobDeploymentStatus").value in _OVER:
        return True
    return any(
        (condition / "type").value in _OVER and (condition / "status").value == "True"
        for condition in (status / "conditions").items()
    )
