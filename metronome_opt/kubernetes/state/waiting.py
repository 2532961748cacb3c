"""Reasons why a gang waits, as messages."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from metronome_opt.allocation.admission import AdmissionDecision
from metronome_opt.allocation.request import UNKNOWN_MS
from metronome_opt.errors import first_few, pluralise
from metronome_opt.kubernetes.state.records import Gang
from metronome_opt.kubernetes.state.state import ClusterState, lacking
from metronome_opt.scenario.cluster import ANY_COST

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
    delays = dict(decision.now.losses)
    mine = delays.pop(gang.name, 0.0)
    worst = sorted(delays.items(), key=lambda each: -each[1])
    slowed = [f"{name} by {100 * by:.0f} %" for name, by in worst if by > NOTICED]
    effects = [f"slow {', '.join(slowed[:_MAX_NAMED])}"] if slowed else []
    if mine > NOTICED:
        effects.append(f"take {100 * mine:.0f} % longer itself")
    return WaitDecision(
        f"would {' and '.join(effects) or 'find a better place later'}", True, until
    )


def _until(decision: AdmissionDecision, *, known: bool) -> str:
    """Return the estimated wait of a gang as a message; empty if it is not known."""
    start = decision.start
    if start is None or (start.after_ms >= UNKNOWN_MS and not known):
        return ""
    count = len(set(start.placement.nodes))
    nodes = f"{pluralise(count, 'node')} {'is' if count == 1 else 'are'} free"
    ms = start.after_ms
    duration = f"{ms / 1000:.0f} s" if ms < 100_000 else f"{ms / 60_000:.0f} min"
    return f"about {duration} until {nodes}"


def why_not(state: ClusterState, gang: Gang) -> str:
    """Return in one line why a gang finds no room: numbers of nodes and missing resources."""
    room = state.fits(gang)
    faults = []
    down = np.flatnonzero(~state.up)
    if len(down):
        faults.append(f"{pluralise(len(down), 'node')} {verb_of(len(down), 'take')} no tasks")
    full = np.flatnonzero(state.up & (room == 0)).tolist()
    if full:
        spare = (state.free - state.others).clip(0)
        reasons = Counter(lacking(spare[node], gang.each, 1) for node in full)
        commonest, count = reasons.most_common(1)[0]
        on = "" if count == len(full) else f"{count} of them: "
        faults.append(
            f"{pluralise(len(full), 'node')} {verb_of(len(full), 'lack')} GPUs, CPU or memory "
            f"({on}{commonest})"
        )
    total = sum(room.tolist())
    short = gang.tasks - total
    if short > 0:
        faults.append(f"needs {_more_nodes(state, gang, short)}")
        return f"{total} of {gang.tasks} tasks find room; {'; '.join(faults)}"
    failed = [link for link, capacity in state.capacities.items() if not capacity]
    limits = []
    if gang.most_racks is not None:
        limits.append(f"most_racks is {gang.most_racks}")
    if gang.max_network_cost < ANY_COST:
        limits.append(f"max_network_cost is {gang.max_network_cost}")
    if failed:
        limits.append(f"links that carry nothing: {first_few(failed)}")
    faults += limits
    if not limits:
        faults.append(
            "links are so narrow that its iterations exceed the hyperperiod of "
            f"{state.cluster.hyperperiod} slots"
        )
    return f"no room for {gang.tasks} tasks together; {'; '.join(faults)}"


def verb_of(count: int, verb: str) -> str:
    """Return a verb in the number of its subject."""
    return verb if count > 1 else f"{verb}s"


def _more_nodes(state: ClusterState, gang: Gang, tasks: int) -> str:
    """Return the number of nodes of this cluster's largest size that some tasks need."""
    needs = np.array(gang.each.vector, dtype=np.int64)
    fit = (state.total[:, needs > 0] // needs[needs > 0]).min(axis=1, initial=tasks).max()
    on_each = max(1, int(fit))
    units = (" GPUs" if on_each * needs[0] > 1 else " GPU", "m CPU", " MiB of memory")
    free = [f"{n}{unit}" for n, unit in zip((on_each * needs).tolist(), units, strict=True) if n]
    return f"{pluralise(-(-tasks // on_each), 'more node')} with {', '.join(free)} free"
