"""Reasons why a gang waits, as messages."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from metronome_opt.allocation.admission import AdmissionDecision
from metronome_opt.allocation.request import UNKNOWN_MS
from metronome_opt.errors import pluralise
from metronome_opt.kubernetes.state.records import Gang
from metronome_opt.kubernetes.state.state import ClusterState, lacking

NOTICED = 0.005
"""Smaller delays, as a share of an iteration, are not reported."""

_MAX_NAMED = 3


class WaitDecision(NamedTuple):
    """The decision that a gang waits.

    Attributes
    ----------
    cause
        The reason, as a message.
    deferred
        Whether there is room for the gang.
    until
        The estimated wait, as a message; empty if it is not known.
    """

    cause: str
    deferred: bool
    until: str = ""

    @property
    def reason(self) -> str:
        """Cause and time in one line."""
        return f"{self.cause}; {self.until}" if self.until else self.cause


def wait_of(
    state: ClusterState, gang: Gang, decision: AdmissionDecision, *, known: bool
) -> WaitDecision:
    """Return why a gang waits; `known` says whether remaining times of all jobs are known."""
    until = _until(decision, known=known)
    if decision.now is None:
        return WaitDecision(why_not(state, gang), False, until)
    losses = dict(decision.now.losses)
    mine = losses.pop(gang.name, 0.0)
    worst = sorted(losses.items(), key=lambda pair: -pair[1])
    slowed = [f"{name} by {100 * loss:.0f} %" for name, loss in worst if loss > NOTICED]
    effects = [f"slow {', '.join(slowed[:_MAX_NAMED])}"] if slowed else []
    if mine > NOTICED:
        effects.append(f"take {100 * mine:.0f} % longer itself")
    said = " and ".join(effects) or "find a better placement later"
    return WaitDecision(f"would {said}", True, until)


def _until(decision: AdmissionDecision, *, known: bool) -> str:
    """Return the estimated wait of a gang as a message; empty if it is not known."""
    start = decision.start
    if start is None or (start.after_ms >= UNKNOWN_MS and not known):
        return ""
    count, ms = len(set(start.placement.nodes)), start.after_ms
    duration = f"{ms / 1000:.0f} s" if ms < 100_000 else f"{ms / 60_000:.0f} min"
    return f"about {duration} until {_nodes(count, 'is', 'are')} free"


def why_not(state: ClusterState, gang: Gang) -> str:
    """Return in one line why a gang finds no room: numbers of nodes and missing resources."""
    room, faults = state.fits(gang), []
    if down := int((~state.up).sum()):
        faults.append(f"{_nodes(down, 'takes', 'take')} no tasks")
    if full := np.flatnonzero(state.up & (room == 0)).tolist():
        spare = (state.free - state.others).clip(0)
        reasons = Counter(lacking(spare[node], gang.each, 1) for node in full)
        ((commonest, count),) = reasons.most_common(1)
        on = "" if count == len(full) else f"{count} of them: "
        lack = _nodes(len(full), "lacks", "lack")
        faults.append(f"{lack} GPUs, CPU or memory ({on}{commonest})")
    total = int(room.sum())
    if total < gang.tasks:
        faults.append(f"needs {_more_nodes(state, gang, gang.tasks - total)}")
        return f"{total} of {gang.tasks} tasks find room; {'; '.join(faults)}"
    narrow = (
        "links are so narrow that its iterations exceed the hyperperiod of "
        f"{state.cluster.hyperperiod} slots"
    )
    faults.append(gang.limits.describe(state.present) or narrow)
    return f"no room for {gang.tasks} tasks together; {'; '.join(faults)}"


def _nodes(count: int, singular: str, plural: str) -> str:
    """Return a number of nodes with a verb."""
    return f"{pluralise(count, 'node')} {singular if count == 1 else plural}"


def _more_nodes(state: ClusterState, gang: Gang, tasks: int) -> str:
    """Return the number of nodes of this cluster's largest size that some tasks need."""
    needs = np.array(gang.each.vector, dtype=np.int64)
    fit = (state.total[:, needs > 0] // needs[needs > 0]).min(axis=1, initial=tasks).max()
    on_each = max(1, int(fit))
    units = (" GPUs" if on_each * needs[0] > 1 else " GPU", "m CPU", " MiB of memory")
    free = [f"{n}{unit}" for n, unit in zip((on_each * needs).tolist(), units, strict=True) if n]
    return f"{pluralise(-(-tasks // on_each), 'more node')} with {', '.join(free)} free"
