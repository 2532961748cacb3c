"""From workloads, annotations and claims in force to jobs as scenarios have them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from metronome_opt.documents import parse_yaml
from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.reading.objects import Field, Found
from metronome_opt.kubernetes.reading.workloads import Workload
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.machines import ONE_GPU, Resources

_LONGEST_US = 10**12  # eleven days, as far as a scenario goes
_LARGEST_PRIORITY = 2**31 - 1
# Classes that every cluster has, whether its list of them is read or not.
_BUILT_IN: Mapping[str | None, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_SOURCES = ("model", "traffic", "claim-template")
_NUMBERS = ("batch", "priority", "max-stretch-ms", "iterations")
_ANNOTATIONS = (*_SOURCES, *_NUMBERS, "ignore")


@dataclass(frozen=True)
class Claim:
    """A claim in force: one with an allocation.

    Attributes
    ----------
    found
        The object.
    job, task, node
        Whose it is, and where the pod runs.
    traffic
        What the pod needs, as a scenario has it.
    priority
        The weight of its job.
    offset_us, stretch_us
        How its pattern is shifted and stretched, in microseconds.
    """

    found: Found
    job: str
    task: int
    node: str
    traffic: Mapping[str, Any]
    priority: int
    offset_us: int
    stretch_us: int


@dataclass(frozen=True)
class Job:
    """A job that was read, not yet on the grid of a scenario.

    Attributes
    ----------
    found
        The object that it was read from.
    name
        Its own name, which others may have too.
    pods, nodes
        What its tasks are called, and where they run; None unless all of them do.
    each
        What one task needs.
    sends
        Its traffic, or a model and its batch, as a scenario has them; None if nothing says.
    claim
        Any of its claims, which agree on how it runs now; None without claims in force.
    weight, value
        Its weight if that is stated, else the value of its priority class.
    max_stretch_ms, iterations
        What its annotations say; None if nothing.
    """

    found: Found
    name: str
    pods: tuple[str, ...]
    nodes: tuple[str, ...] | None
    each: Resources
    sends: Mapping[str, Any] | None
    claim: Claim | None
    weight: int | None
    value: int | None
    max_stretch_ms: int | None = None
    iterations: int | None = None


def read_job(
    workload: Workload,
    claims: list[Claim],
    templates: Mapping[tuple[str, str], Found],
    classes: Mapping[str | None, int],
    weights: Mapping[str, int],
    group: str,
) -> Job | None:
    """Return the job of a workload; None if it is to be ignored.

    Parameters
    ----------
    workload
        The workload with its pods.
    claims
        Those in force for its pods.
    templates
        The claims that a workload may name, by namespace and name.
    classes
        The values of priority classes; of None, the default's.
    weights
        Weights of classes that are given by hand, by name.
    group
        The prefix of annotations.

    Raises
    ------
    InputError
        If annotations or claims cannot be used.
    """
    found, priority_class = workload.found, workload.priority_class
    stated = _annotations(workload, group)
    if str(stated["ignore"].value).lower() == "true":
        return None
    claim = _agreed(claims) if claims else None
    value = None
    weight = stated["priority"].integer(0) if stated["priority"] else None
    if weight is None:
        weight = weights.get(priority_class or "")
    if weight is None:
        if priority_class is None and claim is not None and None not in classes:
            weight = claim.priority
        elif priority_class is None or priority_class in classes:
            value = classes.get(priority_class, 0)
        else:
            raise InputError(
                f"{found.where}: priorityClassName: there is no PriorityClass "
                f"{show(priority_class)}; read it as well, or give its weight: "
                f"--weights {priority_class}=2"
            )
    claimed = {each.found.name: each.node for each in claims}
    nodes = [
        claimed.get(name) if pod is None or pod.node is None else pod.node
        for name, pod in zip(workload.names, workload.pods, strict=True)
    ]
    known = tuple(node for node in nodes if node is not None)
    stretch, iterations = stated["max-stretch-ms"], stated["iterations"]
    return Job(
        found,
        found.annotations.get(f"{group}/original-job", found.name),
        workload.names,
        known if len(known) == len(nodes) else None,
        workload.each,
        _sends(stated, found, templates, claim),
        claim,
        weight,
        value,
        stretch.integer(0) if stretch else None,
        iterations.integer(1) if iterations else None,
    )


def jobs_of_claims(claims: Iterable[Claim]) -> list[Job]:
    """Return the jobs of claims that no workload is known for.

    Raises
    ------
    InputError
        If claims of a job contradict each other, or two are for the same task.
    """
    jobs: dict[tuple[str, str], dict[int, Claim]] = {}
    for claim in claims:
        tasks = jobs.setdefault((claim.found.namespace, claim.job), {})
        other = tasks.setdefault(claim.task, claim)
        if other is not claim:
            (claim.found / "spec" / "task").fail(f"is that of {other.found.name} too")
    result = []
    for _, tasks in sorted(jobs.items()):
        mine = [tasks[task] for task in sorted(tasks)]
        claim = _agreed(mine)
        pods, nodes = zip(*((each.found.name, each.node) for each in mine), strict=True)
        sends = {"traffic": claim.traffic}
        result.append(
            Job(
                *(claim.found, claim.job, pods, nodes, ONE_GPU, sends, claim),
                weight=claim.priority,
                value=None,
            )
        )
    return result


def named(jobs: Iterable[Job]) -> list[tuple[str, Job]]:
    """Return each job with a name of its own, in the order of namespaces and names.

    A name that several have gets its namespace before it, and if that does not do its kind too.
    """
    jobs = list(jobs)
    by_name = Counter(job.name for job in jobs)
    by_place = Counter((job.found.namespace, job.name) for job in jobs)
    result = []

    def place(job: Job) -> tuple[str, ...]:
        return job.found.namespace, job.name, job.found.kind, job.found.group

    for job in sorted(jobs, key=place):
        found, name = job.found, job.name
        if by_place[found.namespace, job.name] > 1:
            name = f"{found.namespace}/{found.kind.lower()}.{found.group}/{job.name}"
        elif by_name[job.name] > 1:
            name = f"{found.namespace}/{job.name}"
        result.append((name, job))
    return result


# ------------------------------------------------------------------ priority


def read_classes(found: Iterable[Found]) -> Mapping[str | None, int]:
    """Return the values of priority classes by name; None stands for the default.

    Raises
    ------
    InputError
        If one cannot be read, or two are the default.
    """
    classes: dict[str | None, int] = dict(_BUILT_IN)
    for each in found:
        value = (each / "value").integer(-_LARGEST_PRIORITY - 1, most=_LARGEST_PRIORITY)
        classes[each.name] = value
        default = each / "globalDefault"
        if default.flag():
            if None in classes:
                default.fail("another class is the default as well; there is one at most")
            classes[None] = value
    return classes


def weights_of(values: Iterable[int]) -> Mapping[int, int]:
    """Return a weight for each value: 1 for the lowest, then twice that of the one below.

    The weights keep the order and say that a class matters more than the one below, not how much
    more: the values of classes do not say that either.
    """
    return {value: 2**rank for rank, value in enumerate(sorted(set(values)))}


# ------------------------------------------------------------------ traffic


def _annotations(workload: Workload, group: str) -> Mapping[str, Field]:
    """Return the annotations that are meant for us, those that are missing as empty fields."""
    where = f"{workload.found.where}: annotation {group}/"
    stated = {name: Field(None, where + name) for name in _ANNOTATIONS}
    for full, text in workload.annotations.items():
        name = full.removeprefix(f"{group}/")
        if name == full or name.startswith("original-"):
            continue
        number = name in _NUMBERS and re.fullmatch("[0-9]{1,18}", text)
        field = Field(int(text) if number else text.strip(), where + name)
        if name not in stated:
            near = get_close_matches(name, _ANNOTATIONS, n=1)
            known = f"perhaps {near[0]}" if near else f"known are {', '.join(_ANNOTATIONS)}"
            field.fail(f"unknown annotation ({known})")
        stated[name] = field
    return stated


def _sends(
    stated: Mapping[str, Field],
    found: Found,
    templates: Mapping[tuple[str, str], Found],
    claim: Claim | None,
) -> Mapping[str, Any] | None:
    """Return what annotations say, else what the claims in force do."""
    given = [stated[name] for name in _SOURCES if stated[name]]
    if len(given) > 1:
        given[1].fail(f"another of {', '.join(_SOURCES)} is there as well; keep one of them")
    model, traffic, template = (stated[name] for name in _SOURCES)
    if model:
        return {"model": model.text(), "batch": stated["batch"].integer(1)}
    if stated["batch"]:
        stated["batch"].fail("is for a model; name one")
    if traffic:
        try:
            value = parse_yaml(traffic.text())
        except InputError as error:
            traffic.fail(str(error))
        return {"traffic": _read_pattern(Field(value, traffic.where))}
    if template:
        pattern = templates.get((found.namespace, template.text()))
        if pattern is None:
            template.fail(
                f"there is no such STBandwidthClaim in namespace {found.namespace}; read it as well"
            )
        return {"traffic": _read_pattern(pattern / "spec" / "traffic")}
    return None if claim is None else {"traffic": claim.traffic}


def _read_pattern(traffic: Field) -> dict[str, Any]:
    """Return ``spec.traffic`` of a claim as a scenario has it; rates are rounded up to Mbit/s."""
    period = (traffic / "periodMicroseconds").integer(1, most=_LONGEST_US)
    phases = []
    end = 0
    for phase in (traffic / "phases").items():
        start, length = phase / "startMicroseconds", phase / "lengthMicroseconds"
        start_us = start.integer(0, most=_LONGEST_US)
        length_us = length.integer(1, most=_LONGEST_US)
        rate = (phase / "rate").quantity()
        if not rate:
            (phase / "rate").fail("must be above 0; leave out a burst that sends nothing")
        if start_us < end:
            start.fail(f"must be at least {end}, where the burst before it ends")
        end = start_us + length_us
        if end > period:
            length.fail(f"the burst ends at {end}, after the period of {period}")
        phases.append(
            {
                "start_ms": _milliseconds(start_us),
                "length_ms": _milliseconds(length_us),
                "rate_mbps": math.ceil(rate / 10**6),
            }
        )
    if not phases:
        (traffic / "phases").fail("missing; a pattern has at least one burst")
    return {"period_ms": _milliseconds(period), "phases": phases}


def _milliseconds(microseconds: int) -> int | float:
    """Return a time in ms, as a decimal that reads back exactly."""
    whole, rest = divmod(microseconds, 1000)
    return microseconds / 1000 if rest else whole


# ------------------------------------------------------------------ claims in force


def read_claims(found: Iterable[Found]) -> list[Claim]:
    """Return the claims in force; one without an allocation is a pattern for others.

    Raises
    ------
    InputError
        If one cannot be read.
    """
    claims = []
    for each in found:
        spec = each / "spec"
        allocation, traffic = spec / "allocation", spec / "traffic"
        if allocation:
            claim = Claim(
                each,
                job=(spec / "job").text(),
                task=(spec / "task").integer(0, most=MAX_TASKS),
                node=(allocation / "node").text(),
                traffic=_read_pattern(traffic),
                priority=(traffic / "priority").integer(0),
                offset_us=(allocation / "offsetMicroseconds").integer(0),
                stretch_us=(allocation / "stretchMicroseconds").integer(0),
            )
            claims.append(claim)
    return claims


def _agreed(claims: Iterable[Claim]) -> Claim:
    """Return the first of a job's claims; refuse one that says anything else."""

    def terms(claim: Claim) -> dict[tuple[str, str], Any]:
        return {
            ("traffic", "periodMicroseconds"): claim.traffic["period_ms"],
            ("traffic", "phases"): claim.traffic["phases"],
            ("traffic", "priority"): claim.priority,
            ("allocation", "offsetMicroseconds"): claim.offset_us,
            ("allocation", "stretchMicroseconds"): claim.stretch_us,
        }

    first, *others = claims
    for other in others:
        for (part, name), value in terms(other).items():
            if value != terms(first)[part, name]:
                field = other.found / "spec" / part / name
                field.fail(f"is not that of {first.found.name}, a claim of the same job")
    return first
