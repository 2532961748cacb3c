"""A scenario from the objects of a cluster: its nodes and links, room for jobs, the jobs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metronome_opt.errors import InputError, first_few, pluralise, quote, sanitize
from metronome_opt.files.records import dump_document
from metronome_opt.kubernetes.fields import KubernetesObject
from metronome_opt.kubernetes.files import dump_objects
from metronome_opt.kubernetes.names import DEFAULT_GROUP
from metronome_opt.kubernetes.objects import Objects
from metronome_opt.kubernetes.pods import Pod
from metronome_opt.kubernetes.reading.jobs import ImportedJob, LeftOut, read_jobs
from metronome_opt.kubernetes.reading.machines import (
    ImportOptions,
    Machine,
    cluster_document,
    read_machines,
)
from metronome_opt.kubernetes.reading.tree import Way
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.cluster_input import CLUSTER_FORMAT, ClusterSpec, room_of
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT, Scenario
from metronome_opt.scenario.spreading import place_tasks, spread

_MAX_NOTE = 500  # characters
_GPUS = 8  # of a node, where nothing says how many
_Amounts = dict[str, Any]  # by node: GPUs, thousandths of a core and MiB, int64 of shape (3,)


@dataclass(frozen=True)
class ImportedCluster:
    """A cluster that was read."""

    document: Mapping[str, Any]  # as it is written
    notes: tuple[str, ...]  # what was passed over, left out or assumed, a line each

    @property
    def summary(self) -> str:
        """A line on its size."""
        kinds = (("nodes", "node"), ("racks", "rack"), ("links", "link"))
        counts = [pluralise(len(self.document.get(field, ())), name) for field, name in kinds]
        return f"a cluster without jobs: {', '.join(counts)}"

    def text(self, suffix: str = ".yaml") -> str:
        """Return a file: JSON, or YAML with the notes as comments before it."""
        if suffix == ".json":
            return dump_document(self.document, spread=["nodes", "racks", "links", "jobs"])
        header = "\n".join(["Read from a cluster.", *(f"- {note}" for note in self.notes)])
        return dump_objects([self.document], header, compact=True)


@dataclass(frozen=True)
class Imported(ImportedCluster):
    """A scenario that was made of a cluster's objects."""

    problem: PlacedInstance

    @property
    def summary(self) -> str:
        """A line on its size."""
        instance = self.problem.instance
        sizes = {"node": self.document["cluster"]["nodes"]}
        sizes |= {"link": instance.links, "job": instance.jobs}
        running = sum("nodes" in job for job in self.document["jobs"])
        counts = ", ".join(pluralise(len(items), name) for name, items in sizes.items())
        return f"{counts}, {running} of them running"


def make_cluster(objects: Objects, choices: ImportOptions) -> ImportedCluster:
    """Make a cluster file of the nodes of a cluster, where no objects are of jobs.

    Raises
    ------
    InputError
        If an object cannot be read, or there are no nodes.
    """
    notes: list[str] = []
    machines = _machines(objects, choices, notes)
    _note_passed(objects, notes)
    has = _has(machines, _held(machines, []), [], objects.pods())
    return _cluster(machines, has, choices, notes)


def make_fabric(ways: Mapping[str, Way], choices: ImportOptions) -> ImportedCluster:
    """Make a cluster file of nodes that are alike, by the switches above each.

    Raises
    ------
    InputError
        If there are no nodes, or nothing says what they send.
    """
    if not ways:
        raise InputError("no nodes: the fabric names none; is it cut off?")
    if choices.nic_mbps is None:
        raise InputError("--nic-gbps: missing; a fabric does not state the interface of its nodes")
    notes = []
    if choices.gpus is None:
        notes.append(f"{_GPUS} GPUs in each node are assumed; --gpus states them")
    machines = {}
    for name, way in ways.items():
        source = KubernetesObject({}, name, kind="Node", group="", namespace="", name=name)
        interface = ((name, choices.nic_mbps),)
        machines[name] = Machine(source, None, interface, (), None, None, way)
    return _cluster(machines, dict.fromkeys(ways, room_of(choices.gpus or _GPUS)), choices, notes)


def _cluster(
    machines: Mapping[str, Machine],
    has: Mapping[str, Resources],
    choices: ImportOptions,
    notes: list[str],
) -> ImportedCluster:
    tree = cluster_document(machines, has, choices, notes)
    del tree["topology"]
    head = {"format": CLUSTER_FORMAT, "name": choices.name, "slot_ms": choices.slot_ms}
    ClusterSpec.from_dict({**head, **tree})
    return ImportedCluster({**head, **tree}, _short(notes))


def _machines(objects: Objects, choices: ImportOptions, notes: list[str]) -> dict[str, Machine]:
    machines = read_machines(objects, choices, notes)
    if not machines:
        raise InputError(
            "no nodes: no node with GPUs and an interface was read; read Nodes with their "
            f"STBandwidthCapacity, or give --nic-gbps and --gpus{_aside(notes)}"
        )
    return machines


def make_scenario(objects: Objects, choices: ImportOptions) -> Imported:
    """Make a scenario of a cluster's objects.

    Raises
    ------
    InputError
        If an object cannot be read, or nothing is left to schedule.
    """
    notes: list[str] = []
    left_out: LeftOut = defaultdict(list)
    pods = objects.pods()
    jobs = read_jobs(objects, pods, choices.slot_ms, left_out)
    machines = _machines(objects, choices, notes)
    held = _held(machines, jobs)
    has = _has(machines, held, jobs, pods)
    jobs = _fitting(has, held, jobs, left_out)
    cluster = cluster_document(machines, has, choices, notes)
    for why, titles in sorted(left_out.items()):
        notes.append(f"{len(titles)} left out, {why}: {first_few(titles)}")
    _note_passed(objects, notes)
    if not jobs:
        raise InputError(
            "no jobs: nothing is left to schedule; annotate workloads with "
            f"{DEFAULT_GROUP}/traffic or /model{_aside(notes)}"
        )
    for job in jobs:
        if "model" in job.entry and "gpu" not in cluster:
            raise InputError(
                f"{job.source.where}: model: the speed of GPUs is not known; annotate a Node with "
                f"{DEFAULT_GROUP}/sustained-tflops"
            )
    return _build(cluster, jobs, choices, notes)


def _aside(notes: Sequence[str]) -> str:
    return f" ({'; '.join(_short(notes))})" if notes else ""


# ------------------------------------------------------------------ room


def _held(machines: Mapping[str, Machine], jobs: Sequence[ImportedJob]) -> _Amounts:
    """Return what the jobs that run hold of each node."""
    held: _Amounts = defaultdict(lambda: np.zeros(3, dtype=np.int64))
    for job in jobs:
        for pod, node in zip(job.entry["pods"], job.entry.get("nodes", ()), strict=False):
            if node not in machines:
                raise InputError(
                    f"{job.source.where}: pod {pod} runs on node {quote(node)}, of which neither "
                    "GPUs nor an interface were read; read its Node and STBandwidthCapacity, or "
                    "give --nic-gbps"
                )
            held[node] += job.each.vector
    return held


def _has(
    machines: Mapping[str, Machine],
    held: _Amounts,
    jobs: Sequence[ImportedJob],
    pods: Sequence[Pod],
) -> Mapping[str, Resources]:
    """Return what each node has for the jobs.

    That is what it can give to pods, less what pods of other jobs hold. One that takes no new pods,
    or whose Node was not read, has what the jobs hold there.
    """
    mine = {(job.source.namespace, pod) for job in jobs for pod in job.entry["pods"]}
    others: _Amounts = defaultdict(lambda: np.zeros(3, dtype=np.int64))
    for pod in pods:
        if pod.node is not None and pod.node in machines and pod.key not in mine:
            others[pod.node] += pod.needs.vector
    has = {}
    for name, machine in machines.items():
        amounts = held[name]
        if machine.has is not None and machine.is_open:
            amounts = np.maximum(machine.has.vector - others[name], amounts)
        gpus, cores, memory = amounts.tolist()
        has[name] = Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
    return has


def _fitting(
    has: Mapping[str, Resources],
    held: _Amounts,
    jobs: Sequence[ImportedJob],
    left_out: LeftOut,
) -> list[ImportedJob]:
    """Leave out jobs that wait and find no room."""
    free = {name: has[name].gpus - int(held[name][0]) for name in has}
    waiting = [job for job in jobs if "nodes" not in job.entry]
    places = iter(place_tasks(free, [(job.entry["workers"], job.each.gpus) for job in waiting]))
    fitting = []
    for job in jobs:
        if "nodes" in job.entry or next(places) is not None:
            fitting.append(job)
        else:
            left_out["waiting without room"].append(job.source.title)
    return fitting


# ------------------------------------------------------------------ the scenario


def _build(
    cluster: Mapping[str, Any],
    jobs: Sequence[ImportedJob],
    choices: ImportOptions,
    notes: list[str],
) -> Imported:
    """Build what was read: only with their periods known do offsets find their place."""
    document = {
        "format": SCENARIO_FORMAT,
        "name": choices.name,
        "slot_ms": choices.slot_ms,
        "cluster": cluster,
        "jobs": [job.entry for job in jobs],
    }
    problem = _problem_of(document, jobs)
    notes += problem.notes
    if _set_offsets(problem, jobs, choices.slot_ms, notes):
        problem = _problem_of(document, jobs)
    return Imported(document, _short(notes), problem)


def _note_passed(objects: Objects, notes: list[str]) -> None:
    passed = [f"{count} {kind}" for kind, count in sorted(objects.passed.items())]
    if passed:
        notes.append(f"passed over, of kinds that say nothing here: {', '.join(passed)}")


def _short(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(sanitize(note, _MAX_NOTE) for note in notes)


def _set_offsets(
    problem: PlacedInstance, jobs: Sequence[ImportedJob], slot_ms: int, notes: list[str]
) -> bool:
    """Give jobs with claims the offsets at which they run; return whether there are any."""
    slot_us, moved = 1000 * slot_ms, []
    for job, made in zip(jobs, problem.instance.jobs, strict=True):
        if job.claim is not None:
            longest = made.period + job.entry.get("max_stretch_ms", 0) // slot_ms
            if job.claim.offset_us >= slot_us * longest:
                moved.append(job.entry["name"])
            else:
                slots = (2 * job.claim.offset_us + slot_us) // (2 * slot_us)
                job.entry["current_offset_ms"] = slots % longest * slot_ms
    if moved:
        notes.append(f"offset in force beyond the period, left out: {first_few(moved)}")
    return any("current_offset_ms" in job.entry for job in jobs)


def _problem_of(document: Mapping[str, Any], jobs: Sequence[ImportedJob]) -> PlacedInstance:
    """Build a scenario; faults of a job name the object that it came from."""
    try:
        # Only the periods of jobs that run matter: where others will run is for `solve` to choose.
        return build_scenario(spread(Scenario.from_dict(document)))
    except InputError as error:
        first, *others = (
            re.sub(r"^jobs\[([0-9]+)\]\.", lambda at: f"{jobs[int(at[1])].source.where}: ", line)
            for line in error.lines
        )
        raise InputError(first, others) from None
