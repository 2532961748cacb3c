"""Which pod is which task of which job, where it runs, and which claims are in force for it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metronome_opt.kubernetes.reading.inforce import InForce
from metronome_opt.kubernetes.reading.needs import Pod
from metronome_opt.kubernetes.reading.workloads import Replicas, Workload

_SUFFIX = re.compile("-[a-z0-9]{5}$")  # what a Job appends to the names of its pods


@dataclass
class Running:
    """The tasks of a workload in the cluster.

    Attributes
    ----------
    workload
        What they work for.
    pods
        The pod of each task; None for one that is not there.
    claims
        Those in force for its pods.
    """

    workload: Workload
    pods: list[Pod | None]
    claims: list[InForce] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """What each task's pod is called, as far as that is known."""
        return tuple(
            name if pod is None else pod.found.name
            for name, pod in zip(self.workload.pods, self.pods, strict=True)
        )

    @property
    def nodes(self) -> tuple[str, ...] | None:
        """The node of each task; None unless all of them run, or are claimed to."""
        claimed = {claim.found.name: claim.node for claim in self.claims}
        nodes = [
            claimed.get(name) if pod is None or pod.node is None else pod.node
            for name, pod in zip(self.names, self.pods, strict=True)
        ]
        known = tuple(node for node in nodes if node is not None)
        return known if len(known) == len(nodes) else None


def find_tasks(workloads: Iterable[Workload], pods: Iterable[Pod]) -> list[Running]:
    """Return each workload with its pods, those that run before those that wait."""
    exact = {}
    made: Mapping[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (pod.node is None, pod.found.name)):
        place = pod.found.namespace, pod.found.name
        exact[place] = pod
        if pod.found.owner is None or pod.found.owner[0] == "Job":
            made[place[0], _SUFFIX.sub("", place[1])].append(pod)
    return [
        Running(
            workload,
            [
                pod
                for replicas in workload.replicas
                for pod in _pods_of(workload.found.namespace, replicas, exact, made)
            ],
        )
        for workload in workloads
    ]


def _pods_of(
    namespace: str,
    replicas: Replicas,
    exact: Mapping[tuple[str, str], Pod],
    made: Mapping[tuple[str, str], list[Pod]],
) -> list[Pod | None]:
    if replicas.naming == "exact":
        return [exact.get((namespace, name)) for name in replicas.names]

    def of_job(prefix: str) -> list[Pod]:
        return [
            pod
            for pod in made.get((namespace, prefix), ())
            if pod.found.owner in (None, ("Job", replicas.job))
        ]

    if replicas.naming == "suffixed":
        return [next(iter(of_job(name)), None) for name in replicas.names]
    there = sorted(of_job(replicas.job), key=lambda pod: pod.found.name)[: len(replicas.names)]
    return [*there, *[None] * (len(replicas.names) - len(there))]


def hand_out(claims: Iterable[InForce], running: Iterable[Running]) -> list[InForce]:
    """Give each claim to the workload whose pod it is called after; return the others."""
    owner: dict[tuple[str, str], Running] = {}
    for each in running:
        for name in (*each.workload.pods, *each.names):
            owner.setdefault((each.workload.found.namespace, name), each)
    left = []
    for claim in claims:
        namespace, name = claim.found.namespace, claim.found.name
        found = owner.get((namespace, name)) or owner.get((namespace, _SUFFIX.sub("", name)))
        if found is None:
            left.append(claim)
        else:
            found.claims.append(claim)
    return left
