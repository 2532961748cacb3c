"""Pods that request nodes, and the gangs that they form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from metronome_opt.errors import InputError, error_context
from metronome_opt.kubernetes.reading.annotations import Annotations
from metronome_opt.kubernetes.reading.pods import HOSTNAME, Pod
from metronome_opt.kubernetes.reading.resources import explain_no_gpus, neediest
from metronome_opt.kubernetes.state.records import JOB_FORMAT, Gang, request
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.nodes import Resources


@dataclass(frozen=True)
class GangPods:
    """The pods of a job, in the order of their tasks.

    Attributes
    ----------
    pods
        Pods that have not ended.
    done
        Pods that succeeded on the nodes that we gave them; their tasks are not started again.
    """

    job: str
    pods: tuple[Pod, ...] = ()
    done: tuple[Pod, ...] = ()

    @property
    def placed(self) -> tuple[Pod, ...]:
        """Pods that have their nodes."""
        return tuple(pod for pod in self.pods if pod.place is not None)

    @property
    def waits(self) -> tuple[Pod, ...]:
        """Pods that have no node yet and are not being deleted."""
        return tuple(pod for pod in self.pods if pod.place is None and not pod.leaving)

    @property
    def ready(self) -> tuple[Pod, ...]:
        """Pods that wait for nothing but their nodes."""
        return tuple(pod for pod in self.waits if not pod.held_by_others)

    @property
    def created(self) -> str:
        """Time of the first creation, as text that sorts by time."""
        return min((pod.created for pod in self.pods), default="")

    @property
    def move_cost_s(self) -> int | None:
        """Time that a migration costs, if all pods run and state it; None if they have to stay."""
        if self.done or any(pod.leaving or pod.node is None for pod in self.pods):
            return None
        pod = self.pods[0]
        return Annotations(pod.where, pod.annotations).number("move-cost")


def jobs_of(pods: Iterable[Pod]) -> dict[str, GangPods]:
    """Return the jobs with pods that request a node or have one from us."""
    by_job: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted((pod for pod in pods if pod.asks), key=lambda pod: pod.rank):
        by_job[pod.job].append(pod)
    jobs = {}
    for job, members in sorted(by_job.items()):
        remaining = tuple(pod for pod in members if not pod.is_over)
        done = tuple(pod for pod in members if pod.phase == "Succeeded" and pod.place is not None)
        if remaining:
            jobs[job] = GangPods(job, remaining, done)
    return jobs


def gang_of(members: GangPods, spec: ClusterSpec) -> Gang:
    """Return the gang that a job requests.

    The annotations of its first pod state the number of ``tasks``, and ``traffic`` or ``model`` and
    ``batch``; ``allreduce``, ``priority``, ``most-racks``, ``max-network-cost``, ``iterations``,
    ``jitter`` and ``move-cost`` are optional. Tasks get the maximum of the needs of all pods.

    Raises
    ------
    InputError
        If annotations are missing or cannot be read: the line names pod, annotation and value.
    """
    pod = members.pods[0]
    stated = Annotations(pod.where, pod.annotations)
    tasks = stated.number("tasks")
    if tasks is None:
        stated["tasks"].fail("missing; metronome inject writes it")
    if tasks < 2:
        stated["tasks"].fail("a single pod sends nothing; make it without our scheduling gate")
    traffic = stated.traffic()
    if not traffic:
        stated["traffic"].fail("missing; state what a task sends: traffic, or model and batch")
    stated.number("move-cost")  # which `GangPods` asks once it runs
    document = {
        "format": JOB_FORMAT,
        "name": members.job,
        "workers": tasks,
        "each": _needs(members).model_dump(),
        **stated.job_fields(),
        **traffic,
    }
    with error_context(f"{pod.where}: annotations"):
        return request(document, spec, folder=Path())


def without_place(pod: Pod) -> Pod:
    """Return a pod as it was before the controller gave it a node, which it selects by its name."""
    if pod.place is None:
        return pod
    spec = pod.value["spec"]
    others = {name: of for name, of in (spec.get("nodeSelector") or {}).items() if name != HOSTNAME}
    return replace(pod, value={**pod.value, "spec": {**spec, "nodeSelector": others}})


def _needs(members: GangPods) -> Resources:
    every = [pod.needs for pod in members.pods]
    numbers = sorted({needs.gpus for needs in every})
    if len(numbers) > 1:
        gpus = " and ".join(map(str, numbers))
        raise InputError(f"{members.job}: its pods ask for {gpus} GPUs; tasks need equal numbers")
    if numbers == [0]:
        raise InputError(f"{members.job}: {explain_no_gpus(members.pods[0])}")
    return neediest(every)
