"""AppGroups whose members are pods: jobs, unless other workloads speak for these pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.needs import Pod
from metronome_opt.kubernetes.reading.objects import Found
from metronome_opt.kubernetes.reading.workloads import Replicas, Workload
from metronome_opt.scenario.machines import ONE_GPU, Resources


def read_group(found: Found, pods: Mapping[tuple[str, str], Pod]) -> Workload:
    """Read an AppGroup as a workload of the pods that it names.

    Parameters
    ----------
    found
        The AppGroup.
    pods
        Those that are there, by namespace and name.

    Returns
    -------
    Workload
        Without replicas' names if no member of the group is a pod.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    names = []
    for member in (found.spec / "workloads").items():
        workload = member / "workload"
        if (workload / "kind").text() == "Pod":
            names.append((workload / "name").text())
    places = [(found.namespace, name) for name in names]
    there = [pods[place] for place in places if place in pods]
    classes = [pod.found.spec / "priorityClassName" for pod in there]
    return Workload(
        found,
        (Replicas("workloads", tuple(names), Field(None, found.where)),),
        _neediest([pod.needs for pod in there]),
        found.annotations,
        next((each.text() for each in classes if each), None),
    )


def _neediest(needs: Iterable[Resources]) -> Resources:
    """Return the most of each; one GPU where no pod says."""
    vectors = [each.vector for each in (*needs, ONE_GPU)]
    gpus, cores, memory = map(max, zip(*vectors, strict=True))
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
