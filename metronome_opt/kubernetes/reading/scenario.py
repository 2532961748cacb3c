"""A scenario from the objects of a cluster: nodes and links, free resources, jobs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from metronome_opt.errors import InputError, first_few, pluralise, quote, sanitize
from metronome_opt.files.records import dump_document, explain
from metronome_opt.kubernetes.claims.files import dump_objects
from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP
from metronome_opt.kubernetes.reading.costs import read_costs
from metronome_opt.kubernetes.reading.fabrics import Fabric
from metronome_opt.kubernetes.reading.fields import Faults, KubernetesObject, UnsuitableError
from metronome_opt.kubernetes.reading.jobs import ImportedJob, read_jobs
from metronome_opt.kubernetes.reading.limits import NO_NODE, Asked, LimitReader
from metronome_opt.kubernetes.reading.machines import (
    ImportOptions,
    Machine,
    cluster_document,
    links_of,
    read_machines,
)
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.cluster_input import CLUSTER_FORMAT, ClusterSpec, room_of
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.placement_limits import NO_LIMITS, PlacementLimits
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT, Scenario
from metronome_opt.scenario.spreading import place_tasks, spread

_NO_ROOM = "waiting without free GPUs"
_MAX_NOTE = 500  # characters
_FABRIC_GPUS = 8  # of a node of a fabric, unless the number is stated


@dataclass(frozen=True)
class ImportedCluster:
    """A cluster that was read."""

    document: Mapping[str, Any]  # as it is written
    notes: tuple[str, ...]  # on what was ignored, dropped or assumed

    @property
    def summary(self) -> str:
        """A line on its size."""
        sizes = {kind: len(self.document.get(f"{kind}s", ())) for kind in ("node", "rack", "link")}
        return f"a cluster without jobs: {_counted(sizes)}"

    def text(self, suffix: str = ".yaml") -> str:
        """Return a file: JSON, or YAML with the notes as comments before it."""
        if suffix == ".json":
            return dump_document(self.document, one_per_line=["nodes", "racks", "links", "jobs"])
        header = "\n".join(["Read from a cluster.", *(f"- {note}" for note in self.notes)])
        return dump_objects([self.document], header, compact=True)


@dataclass(frozen=True)
class Imported(ImportedCluster):
    """A scenario that was made of a cluster's objects."""

    problem: PlacedInstance

    @property
    def summary(self) -> str:
        """A line on its size."""
        nodes, instance = self.document["cluster"]["nodes"], self.problem.instance
        sizes = {"node": len(nodes), "link": len(instance.links), "job": len(instance.jobs)}
        running = sum("nodes" in job for job in self.document["jobs"])
        return f"{_counted(sizes)}, {running} of them running"


def _counted(sizes: Mapping[str, int]) -> str:
    return ", ".join(pluralise(count, name) for name, count in sizes.items())


def make_cluster(objects: Objects, options: ImportOptions) -> ImportedCluster:
    """Make a cluster file of the nodes of a cluster, where no objects are of jobs."""
    notes: list[str] = []
    machines = _machines(objects, options, notes)
    resources, _ = _resources(machines, [], objects.pods())
    tree = cluster_document(machines, resources, options, notes)
    return _cluster(_with_costs(tree, objects, machines, notes), options, notes)


def make_fabric(fabric: Fabric, options: ImportOptions) -> ImportedCluster:
    """Make a cluster file of equal nodes, by the switches above each of them."""
    if not fabric.uplink_paths:
        raise InputError("no nodes: the fabric names none; is it cut off?")
    if options.nic_mbps is None:
        raise InputError("--nic-gbps: missing; a fabric does not state the interface of its nodes")
    notes = []
    if options.gpus is None:
        notes.append(f"{_FABRIC_GPUS} GPUs in each node are assumed; --gpus states them")
    machines = {}
    for name, uplink_path in fabric.uplink_paths.items():
        source = KubernetesObject({}, name, kind="Node", group="", namespace="", name=name)
        links = links_of([(name, options.nic_mbps)])
        machines[name] = Machine(source, None, links, switches=uplink_path)
    resources = dict.fromkeys(machines, room_of(options.gpus or _FABRIC_GPUS))
    tree = cluster_document(machines, resources, options, notes, has_core=fabric.has_core)
    return _cluster(tree, options, notes)


def make_scenario(objects: Objects, options: ImportOptions) -> Imported:
    """Make a scenario of a cluster's objects; refuse objects without jobs to schedule."""
    notes: list[str] = []
    faults, pods = Faults(), objects.pods()
    jobs = read_jobs(objects, pods, options.slot_ms, faults)
    kinds = {kind for job in jobs for kind in job.accelerators}
    machines = _machines(objects, options, notes, kinds)
    resources, free_gpus = _resources(machines, jobs, pods)
    cluster = cluster_document(machines, resources, options, notes)
    cluster = _with_costs(cluster, objects, machines, notes)
    try:
        checked = Cluster.model_validate(cluster)
    except ValidationError as error:
        raise InputError(f"cluster.{explain(error, Cluster)}") from None
    nodes = {name: machine.source for name, machine in machines.items()}
    jobs = _add_limits(jobs, LimitReader(checked, objects, nodes, pods), faults, notes)
    jobs = _drop_unplaceable(jobs, checked, free_gpus, faults)
    for reason, titles in sorted(faults.dropped.items()):
        notes.append(f"{len(titles)} dropped, {reason}: {first_few(titles)}")
    if not jobs:
        told = f"is there to schedule; annotate workloads with {DEFAULT_GROUP}/traffic or /model"
        if any(reason.startswith((_NO_ROOM, NO_NODE)) for reason in faults.dropped):
            told = "can start; free or add nodes, or ask for less"
        raise InputError(f"no jobs: none {told}{_aside(notes)}")
    for job in jobs:
        if "model" in job.entry and "gpu" not in cluster:
            remedy = f"annotate a Node with {DEFAULT_GROUP}/sustained-tflops"
            raise InputError(f"{job.source.where}: model: the speed of GPUs is not known; {remedy}")
    document = {
        "format": SCENARIO_FORMAT,
        "name": options.name,
        "slot_ms": options.slot_ms,
        "cluster": cluster,
        "jobs": [job.entry for job in jobs],
    }
    problem = _problem_of(document, jobs)
    notes += problem.notes
    # Offsets need the periods, which are known only now.
    if _set_offsets(problem, jobs, options.slot_ms, notes):
        problem = _problem_of(document, jobs)
    return Imported(document, _short(notes), problem)


def _machines(
    objects: Objects, options: ImportOptions, notes: list[str], accelerators: Iterable[str] = ()
) -> dict[str, Machine]:
    machines = read_machines(objects, options, notes, accelerators)
    if objects.ignored:
        ignored = (f"{count} {kind}" for kind, count in sorted(objects.ignored.items()))
        notes.append(f"ignored, of kinds that are not read: {', '.join(ignored)}")
    if not machines:
        remedy = "read Nodes with their STBandwidthCapacity, or give --nic-gbps and --gpus"
        raise InputError(f"no nodes: none with GPUs and an interface; {remedy}{_aside(notes)}")
    return machines


def _with_costs(
    cluster: dict[str, Any], objects: Objects, machines: Mapping[str, Machine], notes: list[str]
) -> dict[str, Any]:
    costs = read_costs(objects, machines, cluster, notes)
    return {**cluster, "zone_costs": costs} if costs else cluster


def _cluster(tree: dict[str, Any], options: ImportOptions, notes: Sequence[str]) -> ImportedCluster:
    del tree["topology"]
    document = {"format": CLUSTER_FORMAT, "name": options.name, "slot_ms": options.slot_ms, **tree}
    ClusterSpec.from_dict(document)
    return ImportedCluster(document, _short(notes))


def _aside(notes: Sequence[str]) -> str:
    return f" ({'; '.join(_short(notes))})" if notes else ""


def _short(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(sanitize(note, _MAX_NOTE) for note in notes)


# ------------------------------------------------------------------ resources


def _resources(
    machines: Mapping[str, Machine], jobs: Sequence[ImportedJob], pods: Sequence[Pod]
) -> tuple[Mapping[str, Resources], Mapping[str, int]]:
    """Return resources of nodes for the jobs, without other pods, and the GPUs that no job holds.

    A node that takes no new pods, or whose Node was not read, has only what the jobs hold there.
    """
    held, others = (defaultdict[str, Any](lambda: np.zeros(3, dtype=np.int64)) for _ in range(2))
    for job in jobs:
        for pod_name, node in zip(job.entry["pods"], job.entry.get("nodes", ()), strict=False):
            if node not in machines:
                fault = "which was not read; read its STBandwidthCapacity, or give --nic-gbps"
                place = f"{job.source.where}: pod {pod_name} runs on node {quote(node)}"
                raise InputError(f"{place}, {fault}")
            held[node] += job.task_resources.vector
    of_jobs = {(job.source.namespace, name) for job in jobs for name in job.entry["pods"]}
    for pod in pods:
        if pod.node is not None and pod.node in machines and pod.key not in of_jobs:
            others[pod.node] += pod.needs.vector
    resources = {}
    for name, machine in machines.items():
        amounts = held[name]
        if machine.has is not None and machine.is_open:
            amounts = np.maximum(machine.has.vector - others[name], amounts)
        gpus, cores, memory = amounts.tolist()
        resources[name] = Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
    free_gpus = {name: has.gpus - int(held[name][0]) for name, has in resources.items()}
    return resources, free_gpus


def _add_limits(
    jobs: Sequence[ImportedJob], reader: LimitReader, faults: Faults, notes: list[str]
) -> list[ImportedJob]:
    """Return jobs with limits on their nodes; running ones keep theirs, whatever is asked."""
    limited = []
    for job in jobs:
        source, runs = job.source, job.entry.get("nodes", ())
        asked = Asked(
            source,
            job.templates,
            job.annotations,
            job.entry["workers"],
            job.task_resources,
            job.group,
            runs,
        )
        with faults.collect(source.title):
            try:
                limits, preferred = reader.read(asked)
            except (InputError, UnsuitableError) as error:
                if not runs:
                    raise
                limits, preferred = {}, []
                notes.append(f"{source.title} keeps its nodes: {error}")
            if preferred:
                few = first_few([*dict.fromkeys(preferred)])
                notes.append(f"{source.title}: preferred, and placements are chosen by loss: {few}")
            job.entry |= limits
            limited.append(job)
    faults.refuse()
    return limited


def _drop_unplaceable(
    jobs: Sequence[ImportedJob], cluster: Cluster, free_gpus: Mapping[str, int], faults: Faults
) -> list[ImportedJob]:
    """Return the jobs that run, and the waiting ones for which GPUs are free."""
    waiting = [job for job in jobs if "nodes" not in job.entry]
    limits = [
        NO_LIMITS._replace(**{k: job.entry[k] for k in PlacementLimits._fields if k in job.entry})
        for job in waiting
    ]
    requests = [
        (job.entry["workers"], job.task_resources.gpus, its)
        for job, its in zip(waiting, limits, strict=True)
    ]
    places = iter(zip(limits, place_tasks(cluster, free_gpus, requests), strict=True))
    placeable = []
    for job in jobs:
        its, nodes = (NO_LIMITS, job.entry["nodes"]) if "nodes" in job.entry else next(places)
        if nodes is not None:
            placeable.append(job)
        else:
            told = its.describe(cluster)
            where = f" where it may run ({told})" if told else ""
            faults.dropped[f"{_NO_ROOM}{where}"].append(job.source.title)
    return placeable


# ------------------------------------------------------------------ the scenario


def _set_offsets(
    problem: PlacedInstance, jobs: Sequence[ImportedJob], slot_ms: int, notes: list[str]
) -> bool:
    """Give jobs with claims the offsets at which they run; return whether any has one."""
    slot_us, dropped = 1000 * slot_ms, []
    for job, made in zip(jobs, problem.instance.jobs, strict=True):
        if job.claim is not None:
            longest = made.period + job.entry.get("max_stretch_ms", 0) // slot_ms
            if job.claim.offset_us >= slot_us * longest:
                dropped.append(job.entry["name"])
            else:
                slots = (2 * job.claim.offset_us + slot_us) // (2 * slot_us)
                job.entry["current_offset_ms"] = slots % longest * slot_ms
    if dropped:
        notes.append(f"offset in force beyond the period, dropped: {first_few(dropped)}")
    return any("current_offset_ms" in job.entry for job in jobs)


def _problem_of(document: Mapping[str, Any], jobs: Sequence[ImportedJob]) -> PlacedInstance:
    """Build a scenario; faults of a job name the object that it came from."""
    try:
        # Only periods of running jobs matter: `solve` will choose the nodes of the others.
        return build_scenario(spread(Scenario.from_dict(document)))
    except InputError as error:
        first, *others = (
            re.sub(r"^jobs\[([0-9]+)\]\.", lambda at: f"{jobs[int(at[1])].source.where}: ", line)
            for line in error.lines
        )
        raise InputError(first, others) from None
