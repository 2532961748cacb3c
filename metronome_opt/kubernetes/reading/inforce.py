"""Claims: those in force, which say how a job runs now, and those that are patterns for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.objects import Found
from metronome_opt.kubernetes.reading.patterns import Pattern, read_pattern
from metronome_opt.scenario.deployment import MAX_TASKS


@dataclass(frozen=True)
class InForce:
    """A claim with an allocation.

    Attributes
    ----------
    found
        The object.
    job, task
        Whose it is.
    pattern, priority
        What the pod needs, and the weight of its job.
    node
        Where the pod runs.
    offset_us, stretch_us
        How its pattern is shifted and stretched, in microseconds.
    """

    found: Found
    job: str
    task: int
    pattern: Pattern
    priority: int
    node: str
    offset_us: int
    stretch_us: int


@dataclass(frozen=True)
class Terms:
    """What all claims of a job agree on."""

    pattern: Pattern
    priority: int
    offset_us: int
    stretch_us: int


def read_claims(found: Iterable[Found]) -> list[InForce]:
    """Return the claims in force; one without an allocation is a pattern for others.

    Raises
    ------
    InputError
        If one cannot be read.
    """
    claims = []
    for each in found:
        allocation = each.spec / "allocation"
        if not allocation:
            continue
        claims.append(
            InForce(
                each,
                (each.spec / "job").text(),
                (each.spec / "task").integer(0, most=MAX_TASKS),
                read_pattern(each.spec / "traffic"),
                (each.spec / "traffic" / "priority").integer(0),
                (allocation / "node").text(),
                (allocation / "offsetMicroseconds").integer(0),
                (allocation / "stretchMicroseconds").integer(0),
            )
        )
    return claims


def agreed(claims: Iterable[InForce]) -> Terms:
    """Return what the claims of one job say together.

    Raises
    ------
    InputError
        If one says anything else than the first.
    """
    first, *others = claims
    told: list[tuple[str, Callable[[InForce], object]]] = [
        ("traffic.periodMicroseconds", lambda claim: claim.pattern.period_us),
        ("traffic.phases", lambda claim: claim.pattern.bursts),
        ("traffic.priority", lambda claim: claim.priority),
        ("allocation.offsetMicroseconds", lambda claim: claim.offset_us),
        ("allocation.stretchMicroseconds", lambda claim: claim.stretch_us),
    ]
    for other in others:
        for path, value in told:
            if value(other) != value(first):
                _at(other.found, path).fail(
                    f"is not that of {first.found.name}, a claim of the same job"
                )
    return Terms(first.pattern, first.priority, first.offset_us, first.stretch_us)


def _at(found: Found, path: str) -> Field:
    field = found.spec
    for name in path.split("."):
        field = field / name
    return field
