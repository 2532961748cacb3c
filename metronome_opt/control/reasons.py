"""What a decision is told by: findings, claims put right, waits, and why nobody moves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import groupby

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Finding
from metronome_opt.control.plan import Plan


def told(findings: Sequence[Finding]) -> str:
    """Return findings in one line."""
    return "; ".join(map(str, findings))


def as_claimed(claims: Claims, measured: Collection[str]) -> str:
    """Return that nothing was found, of those that were measured: jobs and links."""
    if not measured:
        return "nobody was measured"
    if claims.offsets.keys() <= set(measured):
        return "all is as claimed"
    return "what was measured is as claimed"


def put_right(before: Claims, after: Claims) -> Iterator[str]:
    """Yield what is claimed otherwise than before, job by job, then link by link."""
    slot_ms = before.instance.slot_ms
    for job in before.instance.jobs:
        name = job.name
        if name not in after.offsets:
            yield f"{name}'s claim is given back"
            continue
        changes = []
        if after.offsets[name] != before.offsets[name]:
            changes.append(
                f"offset {before.offsets[name] * slot_ms:,} -> {after.offsets[name] * slot_ms:,} ms"
            )
        if after.period(name) != before.period(name):
            changes.append(
                f"period {before.period(name) * slot_ms:,} -> {after.period(name) * slot_ms:,} ms"
            )
        if after.instance.job(name).phases != job.phases:
            changes.append("bursts as measured")
        if changes:
            yield f"{name}'s claim put right: {', '.join(changes)}"
    carried = {link.name: link.capacity for link in after.instance.links}
    for link in before.instance.links:
        if carried.get(link.name, link.capacity) != link.capacity:
            yield (
                f"{link.name}'s capacity put right: {link.capacity:,} -> "
                f"{carried[link.name]:,} Mbit/s"
            )


def contention(*levels: Fraction) -> str:
    """Return levels of contention one after the other, each once; they are weight * Mbit/s."""
    steps = " -> ".join(f"{float(level):,.6g}" for level, _ in groupby(levels))
    return f"weighted contention {steps} Mbit/s"


def waits(plan: Plan) -> str:
    """Return who waits how long."""
    slot_ms = plan.claims_before.instance.slot_ms
    return ", ".join(
        f"{step.job} waits {step.wait * slot_ms:,} ms ({step.wait} slots)" for step in plan.steps
    )


def nobody_moves(measured: Fraction, most: Fraction, least: Fraction) -> str:
    """Return why it does not pay to move anybody.

    Parameters
    ----------
    measured
        The contention, weight * Mbit/s.
    most, least
        What the best plan would gain and what it has to, moves paid: shares of the weighted
        traffic.
    """
    if not measured:
        return "nobody has to move"
    if not most:
        return "to move anybody would cost more than it gains"
    return f"to move anybody would gain {_percent(most)}, less than {_percent(least)}"


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.2g} %"
