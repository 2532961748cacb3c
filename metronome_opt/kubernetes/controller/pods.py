"""Pods that request a place, and the gangs that they form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from metronome_opt.cluster.gang import JOB_FORMAT, Gang, request
from metronome_opt.documents import parse_yaml
from metronome_opt.errors import InputError, quote
from metronome_opt.kubernetes.inject import SCHEDULING_GATE
from metronome_opt.kubernetes.names import DEFAULT_GROUP
from metronome_opt.kubernetes.reading.jobs import read_pattern
from metronome_opt.kubernetes.reading.objects import Field
from metronome_opt.kubernetes.reading.resources import GPU_RESOURCES, neediest, needs_of
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scenario.network import Resources

SCHEDULER = "metronome"
"""The scheduler that pods name where scheduling gates are not known."""

# Labels that name the job of a pod; the first that is there counts.
_JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/group-key",
    "ray.io/cluster",
    "scheduling.x-k8s.io/pod-group",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_RANKS = (  # where controllers number the pods of a job; annotations and labels
    f"{DEFAULT_GROUP}/task",
    "jobset.sigs.k8s.io/job-global-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
)
_OVER = ("Succeeded", "Failed")
_LAST = 10**9


@dataclass(frozen=True)
class Pod:
    """A pod that requests a place or has got one from us.

    Attributes
    ----------
    value
        The object as the API server gave it.
    """

    value: Mapping[str, Any]

    @property
    def _metadata(self) -> Mapping[str, Any]:
        return self.value["metadata"]  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._metadata["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self._metadata["namespace"])

    @property
    def uid(self) -> str:
        """Its identity among pods of this name."""
        return str(self._metadata["uid"])

    @property
    def version(self) -> str:
        """Its version, which changes with it."""
        return str(self._metadata.get("resourceVersion") or "")

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self._metadata.get("annotations") or {}

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self._metadata.get("labels") or {}

    @property
    def waits(self) -> bool:
        """True if it waits for us: behind our scheduling gate, or for us as its scheduler."""
        return self.has_scheduling_gate or (self.binds and self.node is None)

    @property
    def has_scheduling_gate(self) -> bool:
        """True if our scheduling gate holds it."""
        return SCHEDULING_GATE in self._scheduling_gates

    @property
    def asks(self) -> bool:
        """True if it waits for us or has its place from us."""
        return self.waits or self.place is not None

    @property
    def held_by_others(self) -> bool:
        """True if other scheduling gates than ours hold it."""
        return any(gate != SCHEDULING_GATE for gate in self._scheduling_gates)

    @property
    def _scheduling_gates(self) -> list[str]:
        return [gate["name"] for gate in self.value["spec"].get("schedulingGates") or ()]

    @property
    def binds(self) -> bool:
        """True if we are its scheduler and bind it to a node."""
        return bool(self.value["spec"].get("schedulerName") == SCHEDULER)

    @property
    def node(self) -> str | None:
        """The node that it is bound to; None if it is not yet."""
        return self.value["spec"].get("nodeName") or None

    @property
    def place(self) -> str | None:
        """The node that we gave it; None if we did not yet."""
        return self.annotations.get(f"{DEFAULT_GROUP}/node")

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return (self.value.get("status") or {}).get("phase") or "Unknown"

    @property
    def is_over(self) -> bool:
        """True if it has ended, well or not."""
        return self.phase in _OVER

    @property
    def needs(self) -> Resources:
        """Resources that it needs; an `InputError` if they cannot be read."""
        spec = Field(self.value["spec"], f"Pod {self.namespace}/{self.name}", ("spec",))
        return needs_of(spec, GPU_RESOURCES)

    @property
    def leaving(self) -> bool:
        """True if it is being deleted."""
        return self._metadata.get("deletionTimestamp") is not None

    @property
    def created(self) -> str:
        """Time of its creation, as text that sorts by time."""
        return str(self._metadata.get("creationTimestamp") or "")

    @property
    def owner(self) -> Mapping[str, Any] | None:
        """The object that controls it."""
        references = self._metadata.get("ownerReferences") or ()
        return next((each for each in references if each.get("controller")), None)

    @property
    def references(self) -> list[dict[str, Any]]:
        """References to it and to its owner, for events."""
        own = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}
        keys = ("apiVersion", "kind", "name", "uid")
        owner = [{key: self.owner[key] for key in keys}] if self.owner else []
        return [{**each, "namespace": self.namespace} for each in (own, *owner)]

    @property
    def job(self) -> str:
        """Its job, by our annotation, a label or its owner."""
        stated = self.annotations.get(f"{DEFAULT_GROUP}/job")
        labels = (self.labels.get(label) for label in _JOB_LABELS)
        owner = self.owner
        name = stated or next(filter(None, labels), None) or (owner and owner["name"]) or self.name
        return f"{self.namespace}/{name}"

    @property
    def rank(self) -> tuple[int, str]:
        """Its position among the tasks of its job."""
        for key in _RANKS:
            stated = self.annotations.get(key) or self.labels.get(key)
            if stated is not None and stated.isascii() and stated.isdigit():
                return int(stated[:9]), self.name
        return _LAST, self.name


@dataclass(frozen=True)
class Members:
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


def jobs_of(pods: Iterable[Pod]) -> dict[str, Members]:
    """Return the jobs with pods that request a place or have one from us."""
    by_job: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted((pod for pod in pods if pod.asks), key=lambda pod: pod.rank):
        by_job[pod.job].append(pod)
    jobs = {}
    for job, members in sorted(by_job.items()):
        left = tuple(pod for pod in members if not pod.is_over)
        done = tuple(pod for pod in members if pod.phase == "Succeeded" and pod.place is not None)
        if left:
            jobs[job] = Members(job, left, done)
    return jobs


def gang_of(members: Members, spec: ClusterSpec) -> Gang:
    """Return the gang that a job requests.

    The annotations of its first pod state the number of ``tasks``, and ``traffic`` or ``model`` and
    ``batch``; ``priority`` and ``most-racks`` are optional. Each task gets the maximum of what its
    pods need.

    Raises
    ------
    InputError
        If annotations are missing or cannot be read: the line names pod, annotation and value.
    """
    first = _Stated(members.pods[0])
    pod = members.pods[0]
    if pod.binds and pod.has_scheduling_gate:
        raise InputError(
            f"{first.where}: has our scheduling gate and names {SCHEDULER} as its scheduler; "
            "keep one of the two"
        )
    tasks = first.number("tasks")
    if tasks < 2:
        first.fail(
            "tasks", f"{tasks}: a single pod sends nothing; make it without our scheduling gate"
        )
    document: dict[str, Any] = {
        "format": JOB_FORMAT,
        "name": members.job,
        "workers": tasks,
        "each": _needs(members).model_dump(),
    }
    for field, name in (("priority", "priority"), ("most_racks", "most-racks")):
        if first.text(name) is not None:
            document[field] = first.number(name)
    if first.text("traffic") is not None:
        document["traffic"] = first.traffic()
    elif first.text("model") is not None:
        document |= {"model": first.text("model"), "batch": first.number("batch")}
    else:
        first.fail("traffic", "missing; say what a task sends: traffic, or model and batch")
    try:
        return request(document, spec, folder=Path())
    except InputError as error:
        raise InputError(f"{first.where}: annotations: {error}") from None


def _needs(members: Members) -> Resources:
    every = [pod.needs for pod in members.pods]
    unlike = sorted({needs.gpus for needs in every})
    if len(unlike) > 1:
        gpus = " and ".join(map(str, unlike))
        raise InputError(f"{members.job}: its pods ask for {gpus} GPUs; all tasks have to be alike")
    return neediest(every)


class _Stated:
    """Annotations of a pod."""

    def __init__(self, pod: Pod) -> None:
        self.where = f"Pod {pod.namespace}/{pod.name}"
        self._annotations = pod.annotations

    def text(self, name: str) -> str | None:
        return self._annotations.get(f"{DEFAULT_GROUP}/{name}")

    def number(self, name: str) -> int:
        text = self.text(name)
        if text is None:
            self.fail(name, "missing; metronome inject writes it")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            self.fail(name, f"must be a whole number, got {quote(text)}")
        return int(text)

    def traffic(self) -> Mapping[str, Any]:
        try:
            pattern = parse_yaml(self.text("traffic") or "")
        except InputError as error:
            self.fail("traffic", str(error))
        where = f"{self.where}: annotation {DEFAULT_GROUP}/traffic"
        return read_pattern(Field(pattern, where))

    def fail(self, name: str, message: str) -> NoReturn:
        raise InputError(f"{self.where}: annotation {DEFAULT_GROUP}/{name}: {message}")
