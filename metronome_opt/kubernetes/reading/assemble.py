"""One scenario from all that was read."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from metronome_opt.errors import InputError, show
from metronome_opt.instance import HYPERPERIOD_LIMIT
from metronome_opt.kubernetes.crd import CLAIM
from metronome_opt.kubernetes.diktyo import APPGROUP
from metronome_opt.kubernetes.dump import dump_objects
from metronome_opt.kubernetes.reading.jobs import (
    Claim,
    Job,
    jobs_of_claims,
    named,
    read_claims,
    read_classes,
    read_job,
    weights_of,
)
from metronome_opt.kubernetes.reading.machines import (
    Machine,
    cluster_document,
    read_gpu,
    read_machines,
    read_topology,
)
from metronome_opt.kubernetes.reading.objects import Found, Objects
from metronome_opt.kubernetes.reading.workloads import (
    GPU_RESOURCES,
    Pods,
    UnsuitableError,
    Workload,
    read_group,
    read_workload,
    without_suffix,
)
from metronome_opt.scenario.build import Problem, build_scenario
from metronome_opt.scenario.machines import Resources
from metronome_opt.scenario.model import SCENARIO_FORMAT, Scenario
from metronome_opt.scenario.placement import most_free

_SHOWN = 3

_Amounts = dict[str, list[int]]  # GPUs, thousandths of a core and MiB by node


@dataclass(frozen=True)
class Choices:
    """What the objects of a cluster do not say.

    Parameters
    ----------
    name
        Of the scenario.
    slot_ms
        Length of a slot.
    hyperperiod_ms
        Of which periods become divisors; None for what the periods come to.
    nic_mbps
        The interface of nodes without an STBandwidthCapacity; None to leave these out.
    gpu_tflops
        What a GPU sustains in training, for jobs by model; None if there are none.
    gpu_resources
        What GPUs are called.
    weights
        The weight of priority classes, by name; others get theirs by rank.
    iterations
        Of jobs that do not say; None to leave that open.
    """

    name: str = "cluster"
    slot_ms: int = 5
    hyperperiod_ms: int | None = None
    nic_mbps: int | None = None
    gpu_tflops: Fraction | None = None
    gpu_resources: Sequence[str] = GPU_RESOURCES
    weights: Mapping[str, int] = field(default_factory=dict)
    iterations: int | None = None


@dataclass(frozen=True)
class Imported:
    """A scenario that was made of a cluster's objects.

    Attributes
    ----------
    document
        The scenario as it is written.
    problem
        What it comes to.
    notes
        What was passed over, left out or assumed, a line each.
    """

    document: Mapping[str, Any]
    problem: Problem
    notes: tuple[str, ...]

    def text(self) -> str:
        """Return the scenario as a file, its notes as comments before it."""
        header = "\n".join(["Read from a cluster.", *(f"- {note}" for note in self.notes)])
        return dump_objects([self.document], header, compact=True)


class _LeftOut:
    """What is left out, by reason."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)

    def add(self, why: str, found: Found, name: str | None = None) -> None:
        self._names[why].append(f"{found.kind} {found.namespace}/{name or found.name}")

    def notes(self) -> list[str]:
        """Return a line for each reason."""
        return [
            f"{len(names)} left out, {why}: {', '.join(names[:_SHOWN])}"
            + (", ..." if len(names) > _SHOWN else "")
            for why, names in sorted(self._names.items())
        ]


def make_scenario(objects: Objects, choices: Choices) -> Imported:
    """Make a scenario of a cluster's objects.

    Raises
    ------
    InputError
        If an object cannot be read, or nothing is left to schedule.
    """
    notes: list[str] = []
    left_out = _LeftOut()
    pods = Pods(objects.of("Pod"), choices.gpu_resources)
    jobs = named(_read_jobs(objects, pods, choices, left_out))
    machines = read_machines(objects, choices.gpu_resources, choices.nic_mbps, notes)
    if not machines:
        raise InputError(
            "no nodes: nothing that was read says which nodes have GPUs and what their interfaces "
            "carry; read Nodes with their STBandwidthCapacity, or give --nic-gbps"
        )
    held = _held(machines, jobs)
    has = _has(machines, held, jobs, pods, notes)
    fitting = _fitting(has, held, jobs, left_out)
    cluster = cluster_document(machines, has, read_topology(objects), notes)
    gpu = read_gpu(machines, choices.gpu_tflops, objects.group)
    if gpu is not None:
        cluster["gpu"] = gpu
    notes += left_out.notes()
    passed = ", ".join(f"{count} {kind}" for kind, count in sorted(objects.passed.items()))
    if passed:
        notes.append(f"passed over, of kinds that say nothing here: {passed}")
    if not fitting:
        told = f" ({'; '.join(notes)})" if notes else ""
        raise InputError(
            "no jobs: nothing is left to schedule; annotate workloads with "
            f"{objects.group}/traffic, /model or /claim-template{told}"
        )
    return _finish(cluster, fitting, choices, notes)


# ------------------------------------------------------------------ jobs


def _read_jobs(objects: Objects, pods: Pods, choices: Choices, left_out: _LeftOut) -> list[Job]:
    """Return the jobs whose traffic is known: of workloads, AppGroups, and claims on their own."""
    workloads = _read_workloads(objects, pods, choices.gpu_resources, left_out)
    owner: dict[tuple[str, str], int] = {}
    for index, workload in enumerate(workloads):
        for name in (*workload.expected, *workload.names):
            owner.setdefault((workload.found.namespace, name), index)
    found = objects.of(CLAIM, objects.group)
    claims: dict[int | None, list[Claim]] = defaultdict(list)
    for claim in read_claims(found):
        namespace, name = claim.found.key
        mine = owner.get((namespace, name), owner.get((namespace, without_suffix(name))))
        claims[mine].append(claim)
    templates = {each.key: each for each in found}
    classes = read_classes(objects.of("PriorityClass", "scheduling.k8s.io"))
    jobs = []
    for index, workload in enumerate(workloads):
        job = read_job(workload, claims[index], templates, classes, choices.weights, objects.group)
        if job is None:
            left_out.add("as their annotation says", workload.found)
        else:
            jobs.append(job)
    useful = []
    for job in (*jobs, *jobs_of_claims(claims[None])):
        if len(job.pods) < 2:
            left_out.add("of a single pod, which sends nothing", job.found, job.name)
        elif job.sends is None:
            left_out.add("no traffic known", job.found, job.name)
        else:
            useful.append(job)
    return useful


def _read_workloads(
    objects: Objects, pods: Pods, gpu_resources: Sequence[str], left_out: _LeftOut
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
            workloads.append(read_workload(found, pods, gpu_resources))
        except UnsuitableError as reason:
            left_out.add(str(reason), found)
    taken = {
        (each.found.namespace, name) for each in workloads for name in (*each.expected, *each.names)
    }
    for found in objects.of_key(APPGROUP):
        group = read_group(found, pods)
        if not group.expected:
            left_out.add("whose members are no pods", found)
        elif not any((found.namespace, pod) in taken for pod in group.expected):
            workloads.append(group)
    return workloads


# ------------------------------------------------------------------ room


def _held(machines: Mapping[str, Machine], jobs: Sequence[tuple[str, Job]]) -> _Amounts:
    """Return what the jobs that run hold of each node."""
    held: _Amounts = defaultdict(lambda: [0, 0, 0])
    for _, job in jobs:
        for pod, node in zip(job.pods, job.nodes or (), strict=job.nodes is not None):
            if node not in machines:
                raise InputError(
                    f"{job.found.where}: pod {pod} runs on node {show(node)}, of which neither "
                    "GPUs nor an interface were read; read its Node and STBandwidthCapacity, or "
                    "give --nic-gbps"
                )
            _add(held[node], job.each)
    return held


def _has(
    machines: Mapping[str, Machine],
    held: _Amounts,
    jobs: Sequence[tuple[str, Job]],
    pods: Pods,
    notes: list[str],
) -> Mapping[str, Resources]:
    """Return what each node has for the jobs.

    That is what it can give to pods, less what pods of other jobs hold. One that takes no new pods,
    or that no Node speaks of, has what the jobs hold there.
    """
    mine = {(job.found.namespace, pod) for _, job in jobs for pod in job.pods}
    others: _Amounts = defaultdict(lambda: [0, 0, 0])
    for pod in pods.all:
        if pod.node is not None and pod.node in machines and pod.found.key not in mine:
            _add(others[pod.node], pod.needs)
    has = {}
    for name, machine in machines.items():
        amounts = held[name]
        if machine.has is not None and machine.is_open:
            left = zip(machine.has.vector, others[name], strict=True)
            amounts = [
                max(all_ - taken, used)
                for (all_, taken), used in zip(left, held[name], strict=True)
            ]
        gpus, cores, memory = amounts
        has[name] = Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
    unknown = sum(machine.has is None for machine in machines.values())
    if unknown:
        notes.append(f"{unknown} nodes without a Node: their GPUs are taken to be those in use")
    closed = [name for name, each in machines.items() if each.node and not each.is_open]
    if closed:
        notes.append(f"{len(closed)} nodes take no new pods: {', '.join(closed[:_SHOWN])}")
    tainted = sum(machine.is_tainted for machine in machines.values())
    if tainted:
        notes.append(f"{tainted} nodes are tainted, which is not looked at")
    taken = sum(amounts[0] for amounts in others.values())
    if taken:
        notes.append(f"{taken} GPUs are held by pods of no job here")
    return has


def _fitting(
    has: Mapping[str, Resources],
    held: _Amounts,
    jobs: Sequence[tuple[str, Job]],
    left_out: _LeftOut,
) -> list[tuple[str, Job]]:
    """Place jobs that wait as a scenario will, and leave out those without room."""
    free = Counter({name: has[name].gpus - held[name][0] for name in has})
    fitting = []
    for name, job in jobs:
        each = job.each.gpus
        if job.nodes is None:
            if sum(count // each for count in free.values()) < len(job.pods):
                left_out.add("waiting without room", job.found, job.name)
                continue
            for node in most_free(free, len(job.pods), each):
                free[node] -= each
        fitting.append((name, job))
    return fitting


def _add(amounts: list[int], needs: Resources) -> None:
    for column, amount in enumerate(needs.vector):
        amounts[column] += amount


# ------------------------------------------------------------------ the scenario


def _finish(
    cluster: Mapping[str, Any],
    jobs: Sequence[tuple[str, Job]],
    choices: Choices,
    notes: list[str],
) -> Imported:
    """Build what was read twice: only with their periods known do offsets find their place."""
    slot_ms, hyperperiod_ms = choices.slot_ms, choices.hyperperiod_ms
    weights = weights_of(job.value for _, job in jobs if job.value is not None)
    entries = [_entry(name, job, weights, choices) for name, job in jobs]

    def document(hyperperiod_ms: int | None) -> dict[str, Any]:
        return {
            "format": SCENARIO_FORMAT,
            "name": choices.name,
            "slot_ms": slot_ms,
            **({} if hyperperiod_ms is None else {"hyperperiod_ms": hyperperiod_ms}),
            "cluster": cluster,
            "jobs": entries,
        }

    problem = _build(document(hyperperiod_ms), jobs)
    _note_rounding(problem, slot_ms, notes)
    periods = [entry.rounded.period for entry in problem.traffic]
    repeat = math.lcm(*periods)
    if hyperperiod_ms is None and repeat <= HYPERPERIOD_LIMIT:
        hyperperiod_ms = repeat * slot_ms
    elif hyperperiod_ms is None:
        notes.append(
            "the periods repeat together only after more than a million slots; --hyperperiod-ms "
            "lengthens them to divisors, which `place` and `monitor` need"
        )
    moved = []
    for entry, (name, job), period in zip(entries, jobs, periods, strict=True):
        if job.claim is None:
            continue
        offset_us = job.claim.offset_us
        slots = (2 * offset_us + 1000 * slot_ms) // (2000 * slot_ms)
        longest = period + entry.get("max_stretch_ms", 0) // slot_ms
        if offset_us >= 1000 * slot_ms * longest:
            moved.append(name)
        else:
            entry["current_offset_ms"] = slots % longest * slot_ms
    if moved:
        notes.append(f"offset in force beyond the period, left out: {', '.join(moved)}")
    finished = document(hyperperiod_ms)
    return Imported(finished, _build(finished, jobs), tuple(notes))


def _entry(name: str, job: Job, weights: Mapping[int, int], choices: Choices) -> dict[str, Any]:
    """Return a job as a scenario has it, without its offset."""
    stretched_us = 0 if job.claim is None else job.claim.stretch_us
    stretch = max(
        (job.max_stretch_ms or 0) // choices.slot_ms,
        math.ceil(Fraction(stretched_us, 1000 * choices.slot_ms)),
    )
    iterations = choices.iterations if job.iterations is None else job.iterations
    return {
        "name": name,
        **(job.sends or {}),
        "workers": len(job.pods),
        "each": {kind: amount for kind, amount in job.each.model_dump().items() if amount},
        "priority": job.weight if job.value is None else weights[job.value],
        **({} if job.nodes is None else {"nodes": list(job.nodes)}),
        "pods": list(job.pods),
        "namespace": job.found.namespace,
        **({} if iterations is None else {"iterations": iterations}),
        **({"max_stretch_ms": stretch * choices.slot_ms} if stretch else {}),
    }


def _build(document: Mapping[str, Any], jobs: Sequence[tuple[str, Job]]) -> Problem:
    """Build a scenario; what is wrong with a job is said of the object that it came from."""
    try:
        return build_scenario(Scenario.from_dict(document))
    except InputError as error:
        match = re.match(r"jobs\[([0-9]+)\]\.", str(error))
        if match is None:
            raise
        _, job = jobs[int(match[1])]
        raise InputError(f"{job.found.where}: {str(error)[match.end() :]}") from None


def _note_rounding(problem: Problem, slot_ms: int, notes: list[str]) -> None:
    errors = {
        entry.job: entry.rounded.period_error
        for entry in problem.traffic
        if entry.setting is None and entry.rounded.period_error
    }
    if errors:
        worst = max(errors, key=lambda job: abs(errors[job]))
        notes.append(
            f"rounded to slots of {slot_ms} ms and to the hyperperiod: {len(errors)} jobs, the "
            f"iteration of {worst} by {float(100 * errors[worst]):+.2g} %"
        )
