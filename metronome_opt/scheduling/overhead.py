"""Normalise: network costs, exactly as Diktyo's NetworkOverhead has them, to break ties.

Source: kubernetes-sigs/scheduler-plugins, plugin NetworkOverhead. A pod depends on workloads of its
group. A node costs what the ways from it to the pods of those workloads cost that have a node
already; regions and zones say what a way costs, and a zone is a rack here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.cycle import Cycle, Partial

SAME_ZONE = 1
UNKNOWN = 100
_BEST = 100

Ways = Mapping[tuple[str, str], int]
"""Costs from an origin to a destination."""


class Locale(NamedTuple):
    """Where a node stands; None where it is not labelled."""

    region: str | None
    zone: str | None


NOWHERE = Locale(None, None)


class Placed(NamedTuple):
    """A pod that has a node."""

    workload: str
    node: str


class Dependency(NamedTuple):
    """A workload that a pod depends on, and the network cost that it bears."""

    workload: str
    max_network_cost: int = 0


class Overhead(NamedTuple):
    """What a node is worth to a pod.

    Attributes
    ----------
    cost
        Of all ways to the pods it depends on; the raw score.
    satisfied, violated
        Dependencies on single pods whose way is cheap enough, and too dear. A way of which nothing
        is known is neither.
    """

    cost: int
    satisfied: int
    violated: int

    @property
    def passes(self) -> bool:
        """Whether the filter lets the node pass."""
        return self.violated <= self.satisfied


def overhead(
    node: str,
    locales: Mapping[str, Locale],
    placed: Iterable[Placed],
    dependencies: Sequence[Dependency],
    zones: Ways,
    regions: Ways,
) -> Overhead:
    """Return what a node is worth to a pod.

    Parameters
    ----------
    node
        The candidate.
    locales
        Of all nodes.
    placed
        The pods of the group that have a node; with none of them every node passes and costs 0.
    dependencies
        Of the pod.
    zones, regions
        Costs between zones of one region, and between regions.
    """
    total = satisfied = violated = 0
    for pod in placed:
        for dependency in dependencies:
            if dependency.workload != pod.workload:
                continue
            if pod.node == node:
                satisfied += 1
                continue
            here, there = locales[node], locales[pod.node]
            cost = _cost(here, there, zones, regions)
            total += UNKNOWN if cost is None else cost
            if there == NOWHERE:
                violated += 1
            elif here == there:
                satisfied += 1
            elif cost is not None:
                satisfied += cost <= dependency.max_network_cost
                violated += cost > dependency.max_network_cost
    return Overhead(total, satisfied, violated)


def _cost(here: Locale, there: Locale, zones: Ways, regions: Ways) -> int | None:
    """Return what the way between two hosts costs, None where nothing is known of it."""
    if there == NOWHERE:
        return UNKNOWN
    if here == there:
        return SAME_ZONE
    if here.region == there.region:
        return zones.get((here.zone or "", there.zone or ""))
    return regions.get((here.region or "", there.region or ""))


def normalised(costs: Ints) -> Ints:
    """Return network scores: 100 for the nodes that cost least, 0 for those that cost most.

    If all nodes cost nothing, all have 0; if all cost the same, all have 100.

    Parameters
    ----------
    costs
        Of the nodes that passed the filter, shape (n,).
    """
    if not costs.any():
        return costs
    least, most = costs.min(), costs.max()
    if least == most:
        return np.full_like(costs, _BEST)
    share: Ints = (float(_BEST) * (costs - least) / (most - least)).astype(np.int64)
    return _BEST - share


def normalise(names: Sequence[str], scores: Ints, network: Ints) -> list[int]:
    """Return the order of nodes, the best first: by score, then network score, then name.

    Parameters
    ----------
    names, scores, network
        One for each node; `network` as `normalised` has it.
    """
    keys = zip((-scores).tolist(), (-network).tolist(), names, range(len(names)), strict=True)
    return [index for *_, index in sorted(keys)]


def gang_costs(cycle: Cycle, partial: Partial, nodes: Ints) -> Ints:
    """Return what nodes cost the next task of a gang, which depends on each that has a node.

    Parameters
    ----------
    partial
        Where the tasks before it are to run.
    nodes
        Indices of the candidates, shape (n,).

    Returns
    -------
    Ints
        Raw costs, shape (n,). All tasks being of one workload, costs depend on who else is on the
        node and in the rack, and on nothing more.
    """
    cluster = cycle.state.cluster
    locales = [Locale(*labels) for labels in cluster.locales]
    tasks_in: Counter[int] = Counter()
    for node, tasks in partial.nodes.items():
        tasks_in[cluster.locale_of[node]] += tasks
    locale_of = np.array(cluster.locale_of, dtype=np.int64)[nodes]
    every: Ints = np.zeros(len(nodes), dtype=np.int64)
    for there, tasks in tasks_in.items():
        ways = (
            _cost(here, locales[there], cluster.zone_ways, cluster.region_ways) for here in locales
        )
        costs = np.array([UNKNOWN if way is None else way for way in ways], dtype=np.int64)
        every += tasks * costs[locale_of]
    for node, tasks in partial.nodes.items():
        # A way that does not leave the node costs nothing.
        unlabelled = locales[cluster.locale_of[node]] == NOWHERE
        every[nodes == node] -= tasks * (UNKNOWN if unlabelled else SAME_ZONE)
    return every
