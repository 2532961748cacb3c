"""One scenario from all that was read."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metronome_opt.errors import InputError, show
from metronome_opt.instance import HYPERPERIOD_LIMIT
from metronome_opt.kubernetes.files import dump_objects
from metronome_opt.kubernetes.reading.jobs import Choices, Job, read_jobs, weights_of
from metronome_opt.kubernetes.reading.machines import Machine, cluster_document, read_machines
from metronome_opt.kubernetes.reading.objects import Objects, first_few
from metronome_opt.kubernetes.reading.workloads import LeftOut, Pods
from metronome_opt.scenario.build import Problem, build_scenario
from metronome_opt.scenario.machines import Resources, most_free
from metronome_opt.scenario.model import SCENARIO_FORMAT, Scenario

_Amounts = dict[str, Any]  # by node: GPUs, thousandths of a core and MiB, int64 of shape (3,)


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


def make_scenario(objects: Objects, choices: Choices) -> Imported:
    """Make a scenario of a cluster's objects.

    Raises
    ------
    InputError
        If an object cannot be read, or nothing is left to schedule.
    """
    notes: list[str] = []
    left_out: LeftOut = defaultdict(list)
    pods = Pods(objects.of("Pod"), choices.gpu_resources)
    jobs = read_jobs(objects, pods, choices, left_out)
    machines = read_machines(objects, choices, notes)
    if not machines:
        raise InputError(
            "no nodes: nothing that was read says which nodes have GPUs and what their interfaces "
            "carry; read Nodes with their STBandwidthCapacity, or give --nic-gbps"
        )
    held = _held(machines, jobs)
    has = _has(machines, held, jobs, pods, notes)
    fitting = _fitting(has, held, jobs, left_out)
    cluster = cluster_document(objects, machines, has, choices.gpu_tflops, notes)
    for why, titles in sorted(left_out.items()):
        notes.append(f"{len(titles)} left out, {why}: {first_few(titles)}")
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


# ------------------------------------------------------------------ room


def _amounts() -> _Amounts:
    return defaultdict(lambda: np.zeros(3, dtype=np.int64))


def _held(machines: Mapping[str, Machine], jobs: Sequence[Job]) -> _Amounts:
    """Return what the jobs that run hold of each node."""
    held = _amounts()
    for job in jobs:
        for pod, node in zip(job.entry["pods"], job.entry.get("nodes", ()), strict=False):
            if node not in machines:
                raise InputError(
                    f"{job.found.where}: pod {pod} runs on node {show(node)}, of which neither "
                    "GPUs nor an interface were read; read its Node and STBandwidthCapacity, or "
                    "give --nic-gbps"
                )
            held[node] += job.each.vector
    return held


def _has(
    machines: Mapping[str, Machine],
    held: _Amounts,
    jobs: Sequence[Job],
    pods: Pods,
    notes: list[str],
) -> Mapping[str, Resources]:
    """Return what each node has for the jobs.

    That is what it can give to pods, less what pods of other jobs hold. One that takes no new pods,
    or that no Node speaks of, has what the jobs hold there.
    """
    mine = {(job.found.namespace, pod) for job in jobs for pod in job.entry["pods"]}
    others = _amounts()
    for pod in pods.all:
        if pod.node is not None and pod.node in machines and pod.found.key not in mine:
            others[pod.node] += pod.needs.vector
    has = {}
    for name, machine in machines.items():
        amounts = held[name]
        if machine.has is not None and machine.is_open:
            amounts = np.maximum(machine.has.vector - others[name], amounts)
        gpus, cores, memory = amounts.tolist()
        has[name] = Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
    unknown = sum(machine.has is None for machine in machines.values())
    if unknown:
        notes.append(f"{unknown} nodes without a Node: their GPUs are taken to be those in use")
    closed = [name for name, each in machines.items() if each.has and not each.is_open]
    if closed:
        notes.append(f"{len(closed)} nodes take no new pods: {first_few(closed)}")
    tainted = sum(machine.is_tainted for machine in machines.values())
    if tainted:
        notes.append(f"{tainted} nodes are tainted, which is not looked at")
    taken = sum(int(amounts[0]) for amounts in others.values())
    if taken:
        notes.append(f"{taken} GPUs are held by pods of no job here")
    return has


def _fitting(
    has: Mapping[str, Resources], held: _Amounts, jobs: Sequence[Job], left_out: LeftOut
) -> list[Job]:
    """Place jobs that wait as a scenario will, and leave out those without room."""
    free = Counter({name: has[name].gpus - int(held[name][0]) for name in has})
    fitting = []
    for job in jobs:
        each, workers = job.each.gpus, job.entry["workers"]
        if "nodes" not in job.entry:
            if sum(count // each for count in free.values()) < workers:
                left_out["waiting without room"].append(job.found.title)
                continue
            for node in most_free(free, workers, each):
                free[node] -= each
        fitting.append(job)
    return fitting


# ------------------------------------------------------------------ the scenario


def _finish(
    cluster: Mapping[str, Any], jobs: Sequence[Job], choices: Choices, notes: list[str]
) -> Imported:
    """Build what was read twice: only with their periods known do offsets find their place."""
    slot_us = 1000 * choices.slot_ms
    weights = weights_of(job.value for job in jobs if job.value is not None)
    for job in jobs:
        if job.value is not None:
            job.entry["priority"] = weights[job.value]

    def build(hyperperiod_ms: int | None) -> tuple[dict[str, Any], Problem]:
        document = {
            "format": SCENARIO_FORMAT,
            "name": choices.name,
            "slot_ms": choices.slot_ms,
            **({} if hyperperiod_ms is None else {"hyperperiod_ms": hyperperiod_ms}),
            "cluster": cluster,
            "jobs": [job.entry for job in jobs],
        }
        return document, _build(document, jobs)

    hyperperiod_ms = choices.hyperperiod_ms
    _, problem = build(hyperperiod_ms)
    _note_rounding(problem, choices.slot_ms, notes)
    periods = [entry.rounded.period for entry in problem.traffic]
    repeat = math.lcm(*periods)
    if hyperperiod_ms is None and repeat <= HYPERPERIOD_LIMIT:
        hyperperiod_ms = repeat * choices.slot_ms
    elif hyperperiod_ms is None:
        notes.append(
            "the periods repeat together only after more than a million slots; --hyperperiod-ms "
            "lengthens them to divisors, which `place` and `monitor` need"
        )
    moved = []
    for job, period in zip(jobs, periods, strict=True):
        if job.claim is not None:
            longest = period + job.entry.get("max_stretch_ms", 0) // choices.slot_ms
            if job.claim.offset_us >= slot_us * longest:
                moved.append(job.entry["name"])
            else:
                slots = (2 * job.claim.offset_us + slot_us) // (2 * slot_us)
                job.entry["current_offset_ms"] = slots % longest * choices.slot_ms
    if moved:
        notes.append(f"offset in force beyond the period, left out: {', '.join(moved)}")
    return Imported(*build(hyperperiod_ms), tuple(notes))


def _build(document: Mapping[str, Any], jobs: Sequence[Job]) -> Problem:
    """Build a scenario; what is wrong with a job is said of the object that it came from."""
    try:
        return build_scenario(Scenario.from_dict(document))
    except InputError as error:
        match = re.match(r"jobs\[([0-9]+)\]\.", str(error))
        if match is None:
            raise
        where = jobs[int(match[1])].found.where
        raise InputError(f"{where}: {str(error)[match.end() :]}") from None


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
