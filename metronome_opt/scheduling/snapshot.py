"""A state as a document, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import Field

from metronome_opt.errors import InputError, place
from metronome_opt.records import FrozenMap, Name, NonNegative, Record, build
from metronome_opt.scheduling.admission import check_claim, check_layers, check_size
from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.cluster import ClusterSpec
from metronome_opt.scheduling.gang import flows_of
from metronome_opt.scheduling.state import ClusterState, Mode

STATE_FORMAT = "metronome-state/1"


class Snapshot(Record):
    """A state as a document.

    Parameters
    ----------
    cluster
        As it was described.
    mode
        As in `ClusterState`.
    sequence
        How many events have led to it.
    claims
        In force, in the order in which they came.
    capacities
        Of links that do not carry what the cluster's description says, in Mbit/s.
    down
        Nodes that take no tasks.
    """

    format: Literal["metronome-state/1"] = "metronome-state/1"
    cluster: ClusterSpec
    mode: Mode = "shared"
    sequence: NonNegative = 0
    claims: Annotated[tuple[Claim, ...], Field(strict=False)] = ()
    capacities: FrozenMap[Name, NonNegative] = Field(default_factory=dict)
    down: Annotated[tuple[Name, ...], Field(strict=False)] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Snapshot:
        """Build a snapshot from a document of format ``metronome-state/1``."""
        return build(cls, data, STATE_FORMAT)


def snapshot_of(state: ClusterState) -> Snapshot:
    """Return a state as a document."""
    links, nodes = state.cluster.links, state.cluster.nodes
    return Snapshot(
        cluster=state.cluster,
        mode=state.mode,
        sequence=state.sequence,
        claims=tuple(state.claims.values()),
        capacities={
            link.name: carries
            for link, carries in zip(links, state.capacity.tolist(), strict=True)
            if link.capacity != carries
        },
        down=tuple(node.name for node, up in zip(nodes, state.up, strict=True) if not up),
    )


def restore(snapshot: Snapshot) -> ClusterState:
    """Build a state from its document.

    Claims that were in force stay so, even if today there would be no bandwidth for them.

    Raises
    ------
    InputError
        If the document contradicts itself.
    """
    state = ClusterState(snapshot.cluster, mode=snapshot.mode)
    for index, claim in enumerate(snapshot.claims):
        with _at(f"claims[{index}]"):
            _take(state, claim)
    for link, capacity in snapshot.capacities.items():
        with _at(place(["capacities", link])):
            index = state.link_index(link)
            check_size(link, capacity)
            state.capacity[index] = capacity
    for index, node in enumerate(snapshot.down):
        with _at(f"down[{index}]"):
            state.up[state.node_index(node)] = False
    state.sequence = snapshot.sequence
    return state


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Let errors begin with the place in the document."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _take(state: ClusterState, claim: Claim) -> None:
    if claim.job in state.claims:
        raise InputError(f"{claim.job}: is there twice")
    check_claim(state, claim)
    check_layers(state.cluster, [*state.demand.weights, claim.gang.weight])
    for link, count in flows_of(state.cluster, claim.nodes).items():
        check_size(link, state.peak(link) + count * claim.gang.peak)
    state.take(claim)
    for node in claim.nodes:
        if (state.free[state.node_index(node)] < 0).any():
            raise InputError(f"{claim.job}: node {node}: has less than its tasks take")
