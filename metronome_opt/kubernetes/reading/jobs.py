"""From workloads, annotations and claims in force to jobs as scenarios have them."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from metronome_opt.documents import parse_yaml
from metronome_opt.errors import InputError, quote
from metronome_opt.kubernetes.quantities import milliseconds
from metronome_opt.kubernetes.reading.objects import SOURCES, Field, Found, Objects
from metronome_opt.kubernetes.reading.resources import GPU_RESOURCES
from metronome_opt.kubernetes.reading.workloads import (
    LeftOut,
    Pods,
    UnsuitableError,
    Workload,
    read_workloads,
    without_suffix,
)
from metronome_opt.kubernetes.schemas import CLAIM
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.network import ONE_GPU, Resources
from metronome_opt.scenario.workload import FASTEST

_LONGEST_US = 10**12  # eleven days, as far as a scenario goes
_LARGEST_PRIORITY = 2**31 - 1
# Classes that every cluster has, whether its list of them is read or not.
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NUMBERS = ("batch", "priority", "max-stretch-ms", "iterations")
_ANNOTATIONS = (*SOURCES, *_NUMBERS, "allreduce", "ignore")
_TERMS = {  # what the claims of a job agree on, and where it stands in their spec
    "traffic": "traffic",
    "priority": "traffic.priority",
    "offset_us": "allocation.offsetMicroseconds",
    "stretch_us": "allocation.stretchMicroseconds",
}


@dataclass(frozen=True)
class Choices:
    """What the objects of a cluster do not say."""

    name: str = "cluster"  # of the scenario
    slot_ms: int = 5
    hyperperiod_ms: int | None = None  # periods become its divisors; None: what they come to
    nic_mbps: int | None = None  # of nodes without a capacity; None to leave these out
    uplink_mbps: int | None = None  # of zones whose uplink nobody states; None for no limit
    oversubscription: Fraction | None = None  # what their nodes send over what it carries
    gpu_tflops: Fraction | None = None  # that a GPU sustains in training, for jobs by model
    gpu_resources: Sequence[str] = GPU_RESOURCES
    weights: Mapping[str, int] = field(default_factory=dict)  # by class; others get theirs by rank
    iterations: int | None = None  # of jobs that do not say; None to leave that open


@dataclass(frozen=True)
class Claim:
    """A claim in force, one with an allocation; its traffic is as a scenario has it."""

    found: Found
    job: str
    task: int
    node: str
    traffic: Mapping[str, Any]
    priority: int
    offset_us: int
    stretch_us: int
    crosses: bool  # a link


@dataclass(frozen=True)
class Job:
    """A job that was read."""

    found: Found  # the object that it was read from
    entry: dict[str, Any]  # as a scenario has it, without an offset, or a priority set by `value`
    each: Resources  # what one task needs
    claim: Claim | None  # any of those in force, which agree on how it runs now
    value: int | None  # that of its priority class; None if its weight is stated


def read_jobs(objects: Objects, pods: Pods, choices: Choices, left_out: LeftOut) -> list[Job]:
    """Return the jobs whose traffic is known: of workloads, AppGroups, and claims on their own."""
    workloads = read_workloads(objects, pods, choices.gpu_resources, left_out)
    owner: dict[tuple[str, str], int] = {}
    for index, workload in enumerate(workloads):
        for name in (*workload.expected, *workload.names):
            owner.setdefault((workload.found.namespace, name), index)
    claims: dict[int | None, list[Claim]] = defaultdict(list)
    for claim in _read_claims(objects.of(CLAIM)):
        namespace, name = claim.found.key
        stem = owner.get((namespace, without_suffix(name)))
        claims[owner.get((namespace, name), stem)].append(claim)
    claimed = [(workload, claims[index]) for index, workload in enumerate(workloads)]
    reader = _JobReader(objects, choices)
    jobs = []
    for workload, mine in (*claimed, *_claimed_workloads(claims[None])):
        try:
            jobs.append(reader.read(workload, mine))
        except UnsuitableError as reason:
            left_out[str(reason)].append(workload.found.title)
    return _name_apart(jobs)


class _JobReader:
    """Makes jobs of workloads, by priority classes and claims that workloads may name."""

    def __init__(self, objects: Objects, choices: Choices) -> None:
        self._group, self._choices = objects.group, choices
        self._templates = {each.key: each for each in objects.of(CLAIM)}
        self._classes = _read_classes(objects.of("PriorityClass"))

    def read(self, workload: Workload, claims: Sequence[Claim]) -> Job:
        """Return the job of a workload and of the claims in force for its pods.

        Raises
        ------
        UnsuitableError
            If it is to be ignored, is a single pod, or nothing says what it sends.
        InputError
            If annotations or claims cannot be used.
        """
        found, choices = workload.found, self._choices
        stated = _annotations(workload, self._group)
        if str(stated["ignore"].value).lower() == "true":
            raise UnsuitableError("as their annotation says")
        claim = _agreed(claims) if claims else None
        sends = self._sends(stated, found, claim)
        weight, value = self._priority(stated["priority"], workload, claim)
        nodes = workload.nodes({each.found.name: each.node for each in claims})
        # Of a ring some pods send inside their node; otherwise all cross links, or none do.
        is_ring = len({each.crosses for each in claims}) > 1
        allreduce = stated["allreduce"].text("ring" if is_ring else "") or None
        iterations = stated["iterations"].optional(1) or choices.iterations
        stretch = max(
            (stated["max-stretch-ms"].optional(0) or 0) // choices.slot_ms,
            math.ceil(Fraction(claim.stretch_us if claim else 0, 1000 * choices.slot_ms)),
        )
        if len(workload.names) < 2:
            raise UnsuitableError("of a single pod, which sends nothing")
        if sends is None:
            raise UnsuitableError("no traffic known")
        if claim is not None and found is claim.found:
            name = claim.job
        else:
            name = found.annotations.get(f"{self._group}/original-job", workload.name)
        entry = {
            "name": name,
            **sends,
            "workers": len(workload.names),
            "each": {kind: count for kind, count in workload.each.model_dump().items() if count},
            **({} if allreduce is None else {"allreduce": allreduce}),
            "priority": weight,
            **({} if nodes is None else {"nodes": nodes}),
            "pods": list(workload.names),
            "namespace": found.namespace,
            **({} if iterations is None else {"iterations": iterations}),
            **({"max_stretch_ms": stretch * choices.slot_ms} if stretch else {}),
        }
        return Job(found, entry, workload.each, claim, value)

    def _priority(
        self, stated: Field, workload: Workload, claim: Claim | None
    ) -> tuple[int | None, int | None]:
        """Return the weight of a job, or the value of its priority class."""
        name = workload.priority_class
        weight = stated.optional(0)
        if weight is None:
            weight = self._choices.weights.get(name or "")
        if weight is not None:
            return weight, None
        alone = claim is not None and workload.found is claim.found
        if claim is not None and (alone or (name is None and None not in self._classes)):
            return claim.priority, None
        if name is not None and name not in self._classes:
            raise InputError(
                f"{workload.found.where}: priorityClassName: there is no PriorityClass "
                f"{quote(name)}; read it as well, or give its weight: --weights {name}=2"
            )
        return None, self._classes.get(name, 0)

    def _sends(
        self, stated: Mapping[str, Field], found: Found, claim: Claim | None
    ) -> Mapping[str, Any] | None:
        """Return what annotations say, else what the claims in force do."""
        given = [stated[name] for name in SOURCES if stated[name]]
        if len(given) > 1:
            given[1].fail(f"another of {', '.join(SOURCES)} is there as well; keep one of them")
        model, traffic, template = (stated[name] for name in SOURCES)
        if model:
            return {"model": model.text(), "batch": stated["batch"].integer(1)}
        if stated["batch"]:
            stated["batch"].fail("is for a model; name one")
        if traffic:
            try:
                value = parse_yaml(traffic.text())
            except InputError as error:
                traffic.fail(str(error))
            return {"traffic": read_pattern(Field(value, traffic.where))}
        if template:
            pattern = self._templates.get((found.namespace, template.text()))
            if pattern is None:
                template.fail(f"no such STBandwidthClaim in {found.namespace}; read it as well")
            return {"traffic": read_pattern(pattern / "spec" / "traffic")}
        return None if claim is None else {"traffic": claim.traffic}


def _annotations(workload: Workload, group: str) -> Mapping[str, Field]:
    """Return the annotations that are meant for us, those that are missing as empty fields."""
    where = f"{workload.found.where}: annotation {group}/"
    stated = {name: Field(None, where + name) for name in _ANNOTATIONS}
    for full, text in workload.annotations.items():
        name = full.removeprefix(f"{group}/")
        if name == full or name.startswith("original-"):
            continue
        number = name in _NUMBERS and re.fullmatch("[0-9]{1,18}", text)
        annotation = Field(int(text) if number else text.strip(), where + name)
        if name not in stated:
            near = get_close_matches(name, _ANNOTATIONS, n=1)
            known = f"perhaps {near[0]}" if near else f"known are {', '.join(_ANNOTATIONS)}"
            annotation.fail(f"unknown annotation ({known})")
        stated[name] = annotation
    return stated


def read_pattern(traffic: Field) -> dict[str, Any]:
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
        if not 1 <= rate / 10**6 <= FASTEST:
            (phase / "rate").fail(
                f"no machine sends {float(rate):,g} bit/s; write the unit, 25G for 25 Gbit/s"
            )
        if start_us < end:
            start.fail(f"must be at least {end}, where the burst before it ends")
        end = start_us + length_us
        if end > period:
            length.fail(f"the burst ends at {end}, after the period of {period}")
        phases.append(
            {
                "start_ms": milliseconds(start_us),
                "length_ms": milliseconds(length_us),
                "rate_mbps": math.ceil(rate / 10**6),
            }
        )
    if not phases:
        (traffic / "phases").fail("missing; a pattern has at least one burst")
    return {"period_ms": milliseconds(period), "phases": phases}


def _name_apart(jobs: Iterable[Job]) -> list[Job]:
    """Give each job a name of its own; return them in the order of namespaces and names.

    A name that several have gets its namespace before it, and if that does not do its kind too.
    """

    def where(job: Job) -> tuple[str, ...]:
        return job.found.namespace, job.entry["name"], job.found.kind, job.found.group

    jobs = sorted(jobs, key=where)
    by_name = Counter(job.entry["name"] for job in jobs)
    by_place = Counter(where(job)[:2] for job in jobs)
    for job in jobs:
        namespace, name, kind, group = place = where(job)
        if by_place[place[:2]] > 1:
            job.entry["name"] = f"{namespace}/{kind.lower()}.{group}/{name}"
        elif by_name[name] > 1:
            job.entry["name"] = f"{namespace}/{name}"
    return jobs


def _read_classes(found: Iterable[Found]) -> Mapping[str | None, int]:
    """Return the values of priority classes by name; None stands for the default."""
    classes: dict[str | None, int] = {**_BUILT_IN}  # type: ignore[dict-item]
    for each in found:
        value = (each / "value").integer(-_LARGEST_PRIORITY - 1, most=_LARGEST_PRIORITY)
        classes[each.name] = value
        default = each / "globalDefault"
        if default.flag():
            if None in classes:
                default.fail("another class is the default as well; there is one at most")
            classes[None] = value
    return classes


# ------------------------------------------------------------------ claims in force


def _read_claims(found: Iterable[Found]) -> Iterator[Claim]:
    """Yield the claims in force; one without an allocation is a pattern for others."""
    for each in found:
        spec = each / "spec"
        allocation, traffic = spec / "allocation", spec / "traffic"
        if allocation:
            yield Claim(
                each,
                job=(spec / "job").text(),
                task=(spec / "task").integer(0, most=MAX_TASKS),
                node=(allocation / "node").text(),
                traffic=read_pattern(traffic),
                priority=(traffic / "priority").integer(0),
                offset_us=(allocation / "offsetMicroseconds").integer(0),
                stretch_us=(allocation / "stretchMicroseconds").integer(0),
                crosses=bool(allocation / "link"),
            )


def _claimed_workloads(claims: Iterable[Claim]) -> list[tuple[Workload, list[Claim]]]:
    """Return workloads of claims that no other workload is known for; two may not share a task."""
    jobs: dict[tuple[str, str], dict[int, Claim]] = {}
    for claim in claims:
        tasks = jobs.setdefault((claim.found.namespace, claim.job), {})
        other = tasks.setdefault(claim.task, claim)
        if other is not claim:
            (claim.found / "spec" / "task").fail(f"is that of {other.found.name} too")
    result = []
    for _, tasks in sorted(jobs.items()):
        mine = [tasks[task] for task in sorted(tasks)]
        names = tuple(claim.found.name for claim in mine)
        found = mine[0].found
        workload = Workload(found, found.name, names, (None,) * len(names), ONE_GPU, {}, None)
        result.append((workload, mine))
    return result


def _agreed(claims: Sequence[Claim]) -> Claim:
    """Return the first of a job's claims; refuse one that says anything else."""
    first = claims[0]
    for other in claims:
        for term, path in _TERMS.items():
            if getattr(other, term) != getattr(first, term):
                raise InputError(
                    f"{other.found.where}: spec.{path}: is not that of {first.found.name}, a claim "
                    f"of the same job, got {quote(getattr(other, term))}"
                )
    return first
