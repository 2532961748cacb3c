"""Whether an event may happen to a cluster: everything that can be wrong with it, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from metronome_opt.errors import InputError, show
from metronome_opt.kernels.tables import Ints
from metronome_opt.records import explain
from metronome_opt.scheduling.claim import (
    CapacityChanged,
    Claim,
    Event,
    NodeChanged,
    Reserved,
    Revised,
    Unreserved,
)
from metronome_opt.scheduling.cluster import ClusterSpec, Resources
from metronome_opt.scheduling.demand import MOST_DEMAND, MOST_ENTRIES
from metronome_opt.scheduling.gang import flows_of

if TYPE_CHECKING:
    from metronome_opt.scheduling.state import ClusterState


def check_fields(event: Event) -> None:
    """Refuse an event with fields that its record would not take.

    Records are validated when they are made, but not when they are copied with changes.

    Raises
    ------
    InputError
        One line that names the field and its value.
    """
    try:
        type(event).model_validate(event.model_dump(warnings=False))
    except ValidationError as error:
        raise InputError(f"{event.event}: {explain(error)}") from None


def check_event(state: ClusterState, event: Event) -> None:
    """Refuse an event that cannot happen.

    Raises
    ------
    InputError
        One line that says why.
    """
    match event:
        case Reserved(claim=claim):
            _check_new(state, claim)
        case Unreserved(job=job):
            state.claim(job)
        case Revised(claims=claims):
            _check_revised(state, claims)
        case CapacityChanged(link=link, capacity=capacity):
            state.link_index(link)
            check_size(link, capacity)
        case NodeChanged(node=node):
            state.node_index(node)


def _check_new(state: ClusterState, claim: Claim) -> None:
    gang = claim.gang
    if claim.job in state.claims:
        raise InputError(
            f"{claim.job}: has other claims in force already; unreserve it first, or rename it"
        )
    check_claim(state, claim)
    check_layers(state.cluster, [*state.demand.weights, gang.weight])
    hosts = state.cluster.hosts
    racks = len({hosts[node].rack for node in claim.nodes})
    if gang.most_racks is not None and racks > gang.most_racks:
        raise InputError(
            f"{claim.job}: nodes: they stand in {racks} racks, and it may span {gang.most_racks}"
        )
    flows = flows_of(state.cluster, claim.nodes)
    for node, count in sorted(Counter(claim.nodes).items()):
        index = state.node_index(node)
        short = None if state.up[index] else "is down"
        short = short or lacking(state.free[index], gang.each, count)
        if short is not None:
            raise InputError(f"{claim.job}: node {node}: {short}")
    for link, count in flows.items():
        asked, room = count * gang.peak, state.room(link)
        if asked > room:
            raise InputError(f"{claim.job}: {link}: {asked} Mbit/s asked for, {room} to be had")
        check_size(link, state.peak(link) + asked)


def _check_revised(state: ClusterState, claims: Sequence[Claim]) -> None:
    twice = [job for job, count in Counter(claim.job for claim in claims).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]}: is revised twice at once")
    grown: Counter[str] = Counter()
    for claim in claims:
        before = state.claim(claim.job)
        if (claim.nodes, claim.gang.each) != (before.nodes, before.gang.each):
            raise InputError(f"{claim.job}: runs already, and cannot be moved to other nodes")
        check_claim(state, claim)
        for link, count in state.flows(claim.job).items():
            grown[link] += count * (claim.gang.peak - before.gang.peak)
    for link, more in grown.items():
        check_size(link, state.peak(link) + more)
        if state.mode == "exclusive" and more > state.room(link):
            raise InputError(f"{link}: {more} Mbit/s more asked for, {state.room(link)} to be had")
    check_layers(state.cluster, [*state.demand.weights, *(claim.gang.weight for claim in claims)])


def check_claim(state: ClusterState, claim: Claim) -> None:
    """Refuse a claim that contradicts itself, or fits no state of this cluster."""
    for index, node in enumerate(claim.nodes):
        if node not in state.cluster.hosts:
            raise InputError(f"{claim.job}: nodes[{index}]: there is no node {show(node)}")
    if len(claim.nodes) != claim.gang.tasks:
        raise InputError(f"{claim.job}: {len(claim.nodes)} nodes for {claim.gang.tasks} tasks")
    check_size(claim.job, claim.gang.peak)
    hyperperiod = state.cluster.hyperperiod
    if hyperperiod % claim.period:
        raise InputError(
            f"{claim.job}: period: {claim.period} slots do not divide the hyperperiod of "
            f"{hyperperiod}; stretch it"
        )
    if claim.offset >= claim.period:
        raise InputError(
            f"{claim.job}: offset: {claim.offset} must be below the period of {claim.period} slots"
        )


def check_size(where: str, rate: int) -> None:
    """Refuse a bandwidth below 0, or above what numbers have room for."""
    if rate < 0:
        raise InputError(f"{where}: {show(rate)} Mbit/s: must be at least 0")
    if rate >= MOST_DEMAND:
        raise InputError(
            f"{where}: {show(rate)} Mbit/s: must be below {MOST_DEMAND}; use larger units"
        )


def check_layers(cluster: ClusterSpec, weights: Iterable[int] = ()) -> None:
    """Refuse a cluster on which the demand of jobs of some weights takes too much memory."""
    links, layers = len(cluster.links), len(set(weights)) or 1
    if links * layers * cluster.hyperperiod > MOST_ENTRIES:
        raise InputError(
            f"{cluster.name}: hyperperiod: {cluster.hyperperiod} slots on {links} links, "
            f"{layers} times for its weights, are more than {MOST_ENTRIES} numbers; "
            "coarsen the slots or use fewer weights"
        )


def lacking(free: Ints, each: Resources, count: int) -> str | None:
    """Return which resource is short for so many tasks, in words; None if there is enough.

    Parameters
    ----------
    free
        Of one node, shape (3,).
    """
    for has, needs, (name, unit) in zip(free.tolist(), each.vector, _WORDS, strict=True):
        if count * needs > has:
            return f"{name}: {has}{unit} free, {count * needs}{unit} needed"
    return None


_WORDS = (("GPUs", ""), ("CPU", "m"), ("memory", " MiB"))
