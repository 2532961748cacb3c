"""Whether two states are one, to the last number; what was kept up to date has to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import show
from metronome_opt.scheduling.snapshot import Snapshot, restore, snapshot_of
from metronome_opt.scheduling.state import ClusterState


def rebuilt(state: ClusterState) -> ClusterState:
    """Return a state made from scratch, of no more than what the document of another one says."""
    return restore(Snapshot.model_validate_json(snapshot_of(state).model_dump_json()))


def differences(one: ClusterState, other: ClusterState) -> list[str]:
    """Return in which places two states differ, a line each; none if they are the same.

    Everything is compared that decisions are made of: claims and their order, what is free, what
    the links carry, and the demand on them.
    """
    if one.cluster != other.cluster:
        return [f"cluster: {show(one.cluster.name)} and {show(other.cluster.name)} are not alike"]
    nodes = [node.name for node in one.cluster.nodes]
    links = [link.name for link in one.cluster.links]
    found = [*_of_values(one, other), *_of_claims(one, other)]
    for field in ("total", "free", "up", "interface", "uplink", "rack"):
        found += _of_rows("node", nodes, field, getattr(one, field), getattr(other, field))
    found += _of_rows("link", links, "capacity", one.capacity, other.capacity)
    for field in ("highest", "peaks"):
        pair = getattr(one.demand, field), getattr(other.demand, field)
        found += _of_rows("link", links, field, *pair)
    if one.demand.weights == other.demand.weights:
        for layer, weight in enumerate(one.demand.weights or [0]):
            pair = one.demand.layers[:, layer], other.demand.layers[:, layer]
            found += _of_rows("link", links, f"demand of weight {weight} and more", *pair)
    return found


def _of_values(one: ClusterState, other: ClusterState) -> Iterator[str]:
    pairs = {
        "mode": (one.mode, other.mode),
        "sequence": (one.sequence, other.sequence),
        "weights": (one.demand.weights, other.demand.weights),
        "jobs by weight": (dict(one.demand.users), dict(other.demand.users)),
        "layers": (one.demand.layers.shape, other.demand.layers.shape),
        "jobs": (list(one.claims), list(other.claims)),
        "jobs with flows": (set(one.crossed), set(other.crossed)),
    }
    for name, (mine, its) in pairs.items():
        if mine != its:
            yield f"{name}: {mine} and {its}"


def _of_claims(one: ClusterState, other: ClusterState) -> Iterator[str]:
    for job, claim in one.claims.items():
        if job not in other.claims:
            continue
        for field in type(claim).model_fields:
            mine, its = getattr(claim, field), getattr(other.claims[job], field)
            if mine != its:
                yield f"job {job}: {field}: {mine} and {its}"
        if one.crossed.get(job) != other.crossed.get(job):
            yield f"job {job}: flows: {one.crossed.get(job)} and {other.crossed.get(job)}"


def _of_rows(
    kind: str, names: Sequence[str], field: str, one: NDArray[Any], other: NDArray[Any]
) -> Iterator[str]:
    """Compare arrays of one row for each name; the first number that differs is told."""
    if one.dtype != other.dtype:
        yield f"{field}: {one.dtype} and {other.dtype}"
    if one.shape != other.shape:
        yield f"{field}: {one.shape} and {other.shape}"
        return
    apart = (one != other).reshape(len(names), -1)
    for index in np.flatnonzero(apart.any(axis=1)).tolist():
        at = int(apart[index].argmax())
        mine, its = one[index].ravel()[at], other[index].ravel()[at]
        where = f"[{at}]" if apart.shape[1] > 1 else ""
        yield f"{kind} {names[index]}: {field}{where}: {mine} and {its}"
