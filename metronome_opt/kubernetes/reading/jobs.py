"""From workloads with their pods and claims to jobs as scenarios have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.inforce import InForce, Terms, agreed
from metronome_opt.kubernetes.reading.objects import Found
from metronome_opt.kubernetes.reading.patterns import Annotations, Pattern, read_pattern
from metronome_opt.kubernetes.reading.running import Running
from metronome_opt.kubernetes.reading.weights import Classes
from metronome_opt.scenario.machines import ONE_GPU, Resources


@dataclass(frozen=True)
class Read:
    """A job that was read, not yet on the grid of a scenario.

    Attributes
    ----------
    kind, group, namespace, name, where
        Who it is, and where it was found.
    pods, nodes
        What its tasks are called, and where they run; None unless all of them do.
    each
        What one task needs.
    traffic
        A pattern, or a model and its batch; None if nothing says what is sent.
    terms
        How it runs now; None without claims in force.
    weight, value
        Its weight if that is stated, else the value of its priority class.
    max_stretch_ms, iterations
        What its annotations say; None if nothing.
    """

    kind: str
    group: str
    namespace: str
    name: str
    where: str
    pods: tuple[str, ...]
    nodes: tuple[str, ...] | None
    each: Resources
    traffic: Pattern | tuple[str, int] | None
    terms: Terms | None
    weight: int | None
    value: int | None
    max_stretch_ms: int | None = None
    iterations: int | None = None


def read_job(
    running: Running,
    group: str,
    templates: Mapping[tuple[str, str], Found],
    classes: Classes,
    weights: Mapping[str, int],
) -> Read | None:
    """Return the job of a workload; None if it is to be ignored.

    Parameters
    ----------
    running
        The workload with its pods and claims.
    group
        The prefix of annotations.
    templates
        The claims that a workload may name, by namespace and name.
    classes
        The priority classes.
    weights
        Weights of classes that are given by hand, by name.

    Raises
    ------
    InputError
        If annotations or claims cannot be used.
    """
    workload, found = running.workload, running.workload.found
    annotations = Annotations(workload.annotations, group, found.where)
    if annotations.ignored:
        return None
    terms = agreed(running.claims) if running.claims else None
    weight, value = annotations.integer("priority", 0), None
    if weight is None:
        weight = weights.get(workload.priority_class or "")
    if weight is None:
        if workload.priority_class is None and terms is not None and not classes.has_default:
            weight = terms.priority
        else:
            value = classes.value(workload.priority_class, found.where)
    return Read(
        kind=found.kind,
        group=found.group,
        namespace=found.namespace,
        name=found.annotations.get(f"{group}/original-job", found.name),
        where=found.where,
        pods=running.names,
        nodes=running.nodes,
        each=workload.each,
        traffic=_traffic(annotations, found, templates, terms),
        terms=terms,
        weight=weight,
        value=value,
        max_stretch_ms=annotations.integer("max-stretch-ms", 0),
        iterations=annotations.integer("iterations", 1),
    )


def _traffic(
    annotations: Annotations,
    found: Found,
    templates: Mapping[tuple[str, str], Found],
    terms: Terms | None,
) -> Pattern | tuple[str, int] | None:
    """Return what annotations say, else what the claims in force do."""
    match annotations.source():
        case "model":
            return annotations.text("model") or "", annotations.integer("batch", 1) or 1
        case "traffic":
            return annotations.pattern()
        case "claim-template":
            name = annotations.text("claim-template") or ""
            template = templates.get((found.namespace, name))
            if template is None:
                raise InputError(
                    f"{found.where}: annotation claim-template: there is no STBandwidthClaim "
                    f"{show(name)} in namespace {found.namespace}; read it as well"
                )
            return read_pattern(template.spec / "traffic")
    return None if terms is None else terms.pattern


def jobs_of_claims(claims: Iterable[InForce]) -> list[Read]:
    """Return the jobs of claims that no workload is known for.

    Raises
    ------
    InputError
        If claims of a job contradict each other, or two are for the same task.
    """
    together: dict[tuple[str, str], list[InForce]] = {}
    for claim in claims:
        together.setdefault((claim.found.namespace, claim.job), []).append(claim)
    return [_job_of(namespace, job, mine) for (namespace, job), mine in sorted(together.items())]


def _job_of(namespace: str, job: str, claims: list[InForce]) -> Read:
    claims = sorted(claims, key=lambda claim: claim.task)
    tasks: dict[int, InForce] = {}
    for claim in claims:
        other = tasks.setdefault(claim.task, claim)
        if other is not claim:
            task: Field = claim.found.spec / "task"
            task.fail(f"is that of {other.found.name} too")
    terms = agreed(claims)
    return Read(
        kind=claims[0].found.kind,
        group=claims[0].found.group,
        namespace=namespace,
        name=job,
        where=claims[0].found.where,
        pods=tuple(claim.found.name for claim in claims),
        nodes=tuple(claim.node for claim in claims),
        each=ONE_GPU,
        traffic=terms.pattern,
        terms=terms,
        weight=terms.priority,
        value=None,
    )


def named(jobs: Iterable[Read]) -> list[tuple[str, Read]]:
    """Return each job with a name of its own, in the order of namespaces and names.

    A name that several have gets its namespace before it, and if that does not do its kind too.
    """
    jobs = sorted(jobs, key=lambda job: (job.namespace, job.name, job.kind, job.group))
    by_name = Counter(job.name for job in jobs)
    by_place = Counter((job.namespace, job.name) for job in jobs)
    result = []
    for job in jobs:
        name = job.name
        if by_place[job.namespace, job.name] > 1:
            name = f"{job.namespace}/{job.kind.lower()}.{job.group}/{job.name}"
        elif by_name[job.name] > 1:
            name = f"{job.namespace}/{job.name}"
        result.append((name, job))
    return result
