"""Pods that request a place, and the gangs that they form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from metronome_opt.errors import InputError, error_context
from metronome_opt.kubernetes.reading.annotations import Annotations
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.reading.resources import neediest
from metronome_opt.kubernetes.state.records import JOB_FORMAT, Gang, request
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.nodes import Resources


@dataclass(frozen=True)
class GangPods:
    """The pods of a job, in the order of their tasks.

    Attributes
    ----------
    pods
        Those that have not ended.
    done
        Those that succeeded where we placed them; their tasks are not started again.
    """

    job: str
    pods: tuple[Pod, ...] = ()
    done: tuple[Pod, ...] = ()

    @property
    def placed(self) -> tuple[Pod, ...]:
        """Those that have their place."""
        return tuple(pod for pod in self.pods if pod.place is not None)

    @property
    def waits(self) -> tuple[Pod, ...]:
        """Those that have none yet and are not being deleted."""
        return tuple(pod for pod in self.pods if pod.place is None and not pod.leaving)

    @property
    def created(self) -> str:
        """Time of the first creation, as text that sorts by time."""
        return min((pod.created for pod in self.pods), default="")

    @property
    def move_cost_s(self) -> int | None:
        """Time that a move costs, if all pods run and say so; None if they have to stay."""
        if self.done or any(pod.leaving or pod.node is None for pod in self.pods):
            return None
        pod = self.pods[0]
        return Annotations(pod.where, pod.annotations).number("move-cost")


def jobs_of(pods: Iterable[Pod]) -> dict[str, GangPods]:
    """Return the jobs with pods that request a place or have one from us."""
    by_job: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted((pod for pod in pods if pod.asks), key=lambda pod: pod.rank):
        by_job[pod.job].append(pod)
    jobs = {}
    for job, members in sorted(by_job.items()):
        left = tuple(pod for pod in members if not pod.is_over)
        done = tuple(pod for pod in members if pod.phase == "Succeeded" and pod.place is not None)
        if left:
            jobs[job] = GangPods(job, left, done)
    return jobs


def gang_of(members: GangPods, spec: ClusterSpec) -> Gang:
    """Return the gang that a job requests.

    The annotations of its first pod state the number of ``tasks``, and ``traffic`` or ``model`` and
    ``batch``; ``allreduce``, ``priority``, ``most-racks``, ``max-network-cost``, ``iterations``,
    ``jitter`` and ``move-cost`` are optional. Each task gets the maximum of what its pods need.

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
        stated["traffic"].fail("missing; say what a task sends: traffic, or model and batch")
    stated.number("move-cost")  # which `Members` asks once it runs
    optional = {
        "allreduce": stated["allreduce"].text("") or None,
        "priority": stated.number("priority"),
        "most_racks": stated.number("most-racks"),
        "max_network_cost": stated.number("max-network-cost"),
        "iterations": stated.number("iterations"),
        "jitter": stated.share("jitter"),
    }
    document = {
        "format": JOB_FORMAT,
        "name": members.job,
        "workers": tasks,
        "each": _needs(members).model_dump(),
        **{name: value for name, value in optional.items() if value is not None},
        **traffic,
    }
    with error_context(f"{pod.where}: annotations"):
        return request(document, spec, folder=Path())


def _needs(members: GangPods) -> Resources:
    every = [pod.needs for pod in members.pods]
    unlike = sorted({needs.gpus for needs in every})
    if len(unlike) > 1:
        gpus = " and ".join(map(str, unlike))
        raise InputError(f"{members.job}: its pods ask for {gpus} GPUs; all tasks have to be alike")
    return neediest(every)
