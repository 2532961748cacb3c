"""One scenario from all that was read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.instance import HYPERPERIOD_LIMIT
from metronome_opt.kubernetes.crd import CAPACITY
from metronome_opt.kubernetes.diktyo import NETWORK_TOPOLOGY
from metronome_opt.kubernetes.dump import dump_scenario
from metronome_opt.kubernetes.reading.fabric import cluster_document, wire
from metronome_opt.kubernetes.reading.gather import LeftOut, gather
from metronome_opt.kubernetes.reading.jobs import Read, named
from metronome_opt.kubernetes.reading.machines import (
    gpu_of,
    read_capacities,
    read_nodes,
    read_topology,
)
from metronome_opt.kubernetes.reading.needs import GPU_RESOURCES, read_pods
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.patterns import Pattern
from metronome_opt.kubernetes.reading.room import share_out
from metronome_opt.kubernetes.reading.weights import weights_of
from metronome_opt.scenario.build import Problem, build_scenario
from metronome_opt.scenario.model import SCENARIO_FORMAT, Scenario


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
        told = (f"- {note}" for note in self.notes)
        return dump_scenario(self.document, "\n".join(["Read from a cluster.", *told]))


def make_scenario(objects: Objects, choices: Choices) -> Imported:
    """Make a scenario of a cluster's objects.

    Raises
    ------
    InputError
        If an object cannot be read, or nothing is left to schedule.
    """
    notes: list[str] = []
    left_out = LeftOut()
    pods = read_pods(objects.of("Pod"), choices.gpu_resources)
    jobs = gather(objects, pods, choices.gpu_resources, choices.weights, left_out)
    capacities = objects.of(CAPACITY, objects.group)
    machines = read_nodes(objects.of("Node"), choices.gpu_resources, objects.group)
    wired = wire(machines, read_capacities(capacities), capacities, choices.nic_mbps, notes)
    if not wired:
        raise InputError(
            "no nodes: nothing that was read says which nodes have GPUs and what their interfaces "
            "carry; read Nodes with their STBandwidthCapacity, or give --nic-gbps"
        )
    has, fitting = share_out(wired, named(jobs), pods, left_out, notes)
    cluster = cluster_document(wired, has, read_topology(objects.of_key(NETWORK_TOPOLOGY)), notes)
    gpu = gpu_of(machines.values(), choices.gpu_tflops)
    if gpu is not None:
        cluster["gpu"] = gpu
    notes += left_out.notes()
    notes += _passed(objects.passed)
    if not fitting:
        told = f" ({'; '.join(notes)})" if notes else ""
        raise InputError(
            "no jobs: nothing is left to schedule; annotate workloads with "
            f"{objects.group}/traffic, /model or /claim-template{told}"
        )
    return _finish(cluster, fitting, choices, notes)


def _passed(passed: Counter[str]) -> list[str]:
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(passed.items()))
    return [f"passed over, of kinds that say nothing here: {told}"] if told else []


def _finish(
    cluster: Mapping[str, Any],
    jobs: Sequence[tuple[str, Read]],
    choices: Choices,
    notes: list[str],
) -> Imported:
    """Build what was read twice: only with their periods known do offsets find their place."""
    weights = weights_of(job.value for _, job in jobs if job.value is not None)
    entries = [_entry(name, job, weights, choices) for name, job in jobs]
    document: dict[str, Any] = {
        "format": SCENARIO_FORMAT,
        "name": choices.name,
        "slot_ms": choices.slot_ms,
        **({} if choices.hyperperiod_ms is None else {"hyperperiod_ms": choices.hyperperiod_ms}),
        "cluster": cluster,
        "jobs": entries,
    }
    places = [job.where for _, job in jobs]
    problem = _build(document, places)
    periods = [entry.rounded.period for entry in problem.traffic]
    _note_rounding(problem, choices.slot_ms, notes)
    repeat = math.lcm(*periods)
    if choices.hyperperiod_ms is None and repeat <= HYPERPERIOD_LIMIT:
        document = {
            **{field: document[field] for field in ("format", "name", "slot_ms")},
            "hyperperiod_ms": repeat * choices.slot_ms,
            **document,
        }
    elif choices.hyperperiod_ms is None:
        notes.append(
            "the periods repeat together only after more than a million slots; --hyperperiod-ms "
            "lengthens them to divisors, which `place` and `monitor` need"
        )
    moved = []
    for entry, (name, job), period in zip(entries, jobs, periods, strict=True):
        if job.terms is None:
            continue
        slots = (2 * job.terms.offset_us + 1000 * choices.slot_ms) // (2000 * choices.slot_ms)
        longest = period + entry.get("max_stretch_ms", 0) // choices.slot_ms
        if job.terms.offset_us >= 1000 * choices.slot_ms * longest:
            moved.append(name)
        else:
            entry["current_offset_ms"] = slots % longest * choices.slot_ms
    if moved:
        notes.append(f"offset in force beyond the period, left out: {', '.join(moved)}")
    return Imported(document, _build(document, places), tuple(notes))


def _entry(name: str, job: Read, weights: Mapping[int, int], choices: Choices) -> dict[str, Any]:
    """Return a job as a scenario has it, without its offset."""
    if isinstance(job.traffic, Pattern):
        sends: dict[str, Any] = {"traffic": job.traffic.document()}
    else:
        model, batch = job.traffic or ("", 0)
        sends = {"model": model, "batch": batch}
    stretched_us = 0 if job.terms is None else job.terms.stretch_us
    slot_us = 1000 * choices.slot_ms
    stretch = max((job.max_stretch_ms or 0) // choices.slot_ms, -(-stretched_us // slot_us))
    weight = job.weight
    if weight is None and job.value is not None:
        weight = weights[job.value]
    iterations = choices.iterations if job.iterations is None else job.iterations
    return {
        "name": name,
        **sends,
        "workers": len(job.pods),
        "each": {field: value for field, value in job.each.model_dump().items() if value},
        "priority": weight,
        **({} if job.nodes is None else {"nodes": list(job.nodes)}),
        "pods": list(job.pods),
        "namespace": job.namespace,
        **({} if iterations is None else {"iterations": iterations}),
        **({"max_stretch_ms": stretch * choices.slot_ms} if stretch else {}),
    }


def _build(document: Mapping[str, Any], places: Sequence[str]) -> Problem:
    """Build a scenario; what is wrong with a job is said of the object that it came from."""
    try:
        return build_scenario(Scenario.from_dict(document))
    except InputError as error:
        match = re.match(r"jobs\[([0-9]+)\]\.", str(error))
        if match is None:
            raise
        raise InputError(f"{places[int(match[1])]}: {str(error)[match.end() :]}") from None


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
