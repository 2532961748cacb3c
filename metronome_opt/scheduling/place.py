"""A place for a job: the best nodes and the best rotation that a search finds.

Searches task by task are here: one place after the other, or several partial places side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import get_args

import numpy as np

from metronome_opt.cluster.gang import Gang
from metronome_opt.cluster.state import ClusterState
from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.model import Scenario
from metronome_opt.scheduling.cpsat import place_exactly
from metronome_opt.scheduling.cycle import Cycle, First, Partial, PlaceDecision, decide
from metronome_opt.scheduling.nodes import (
    filter_nodes,
    network_costs,
    normalise,
    normalised,
    score_nodes,
)
from metronome_opt.scheduling.tree import place_on_tree

_TIME_LIMIT = 60.0
_WIDTH = 8  # partial places that a beam search keeps for each number of tasks
_BRANCHING = 8  # nodes that it tries for the next task of each


def place_greedily(cycle: Cycle) -> PlaceDecision | None:
    """Filter, score, normalise and take the best node for each task, as a scheduler of pods does.

    None if there is no room: the filter lets no node pass that leaves none for the others.
    """
    partial = Partial()
    for _ in range(cycle.gang.tasks):
        ranking = rank_nodes(cycle, partial)
        if not ranking:
            return None
        partial = cycle.add(partial, ranking[0])
    return decide(cycle, partial)


def rank_nodes(cycle: Cycle, partial: Partial) -> list[int]:
    """Return the nodes that can take the next task of a gang, the best first."""
    nodes = filter_nodes(cycle, partial)
    scores = score_nodes(cycle, partial, nodes).score
    network = normalised(network_costs(cycle, partial, nodes))
    hosts = cycle.state.cluster.nodes
    order = normalise([hosts[node].name for node in nodes.tolist()], scores, network)
    return [int(nodes[index]) for index in order]


def place_by_beam(cycle: Cycle) -> PlaceDecision | None:
    """Return the best place that a beam search finds, None if there is no room.

    Tasks are alike, so that a partial place is how many are on which node. It is ranked by what its
    tasks cost at some offset at least. That of `place_greedily` is looked at too, so that it is
    never worse.
    """
    greedy = place_greedily(cycle)
    if greedy is None:
        return None
    beam = [Partial()]
    for _ in range(cycle.gang.tasks):
        children = {}
        for partial in beam:
            for node in _candidates(cycle, partial):
                child = cycle.add(partial, node)
                children[frozenset(child.nodes.items())] = child
        beam = sorted(children.values(), key=lambda place: _rank(cycle, place))[:_WIDTH]
    found = [greedy, *(decide(cycle, place) for place in beam)]
    return min(found, key=lambda decision: decision.price)


def _candidates(cycle: Cycle, partial: Partial) -> Iterator[int]:
    """Yield nodes for the next task, no more than half of them in one rack."""
    nodes = filter_nodes(cycle, partial)
    costs = score_nodes(cycle, partial, nodes).least
    rack = cycle.state.rack[nodes]
    roomiest = -np.minimum(cycle.holds, cycle.lifted)[rack]
    network = network_costs(cycle, partial, nodes)
    ranking = np.lexsort((nodes, cycle.room[nodes], roomiest, network, costs))
    in_rack = Counter[int]()
    for node in nodes[ranking].tolist():
        index = int(cycle.state.rack[node])
        if 2 * in_rack[index] < _BRANCHING:
            in_rack[index] += 1
            yield node
        if in_rack.total() == _BRANCHING:
            return


def _rank(cycle: Cycle, partial: Partial) -> tuple[int, int, int, tuple[tuple[int, int], ...]]:
    """Return what partial places of as many tasks are compared by, the least being the best."""
    fragments = sum(cycle.fragments(node, tasks) for node, tasks in partial.nodes.items())
    key = tuple(sorted(partial.nodes.items()))
    costs = np.zeros(cycle.period, dtype=np.int64)
    node, rack = next(iter(partial.nodes)), next(iter(partial.racks))
    if len(partial.nodes) > 1 or cycle.room[node] < cycle.gang.tasks:
        for node, tasks in partial.nodes.items():
            costs += cycle.row(int(cycle.state.interface[node]), tasks)
        if len(partial.racks) > 1 or not cycle.whole[rack]:
            costs += cycle.lift(partial.racks)
    return int(costs.min()), len(partial.racks), fragments, key


_SEARCHES: Mapping[str, tuple[str, Callable[[Cycle], PlaceDecision | None]]] = {
    "tree": (
        "the best place there is, by dynamic programming over nodes and racks",
        place_on_tree,
    ),
    "beam": ("task by task, with several partial places side by side", place_by_beam),
    "greedy": (
        "task by task, each on the node of the best score, as a scheduler of pods does",
        place_greedily,
    ),
    "cpsat": (
        "one model of placement and rotation; for small clusters",
        lambda cycle: place_exactly(cycle, time_limit=_TIME_LIMIT)[0],
    ),
}

SEARCHES: Mapping[str, str] = {name: about for name, (about, _) in _SEARCHES.items()}
"""What each search does."""

FIRST: tuple[First, ...] = get_args(First)
"""What places may be compared by first, the default first."""


def place_job(
    state: ClusterState, gang: Gang, *, search: str = "tree", first: First = "compatibility"
) -> PlaceDecision | None:
    """Find a place for all tasks of a job together; nothing is reserved yet.

    Parameters
    ----------
    search
        One of `SEARCHES`.
    first
        Whether the best place is one with the fewest conflicts, or one of least contention.

    Returns
    -------
    PlaceDecision or None
        None if there is no room; `why_not` says why.

    Raises
    ------
    InputError
        If the job does not fit the cluster's hyperperiod, runs already, or the search or what comes
        first is not known.
    """
    if search not in SEARCHES:
        raise InputError(f"search: must be one of {', '.join(SEARCHES)}, got {quote(search)}")
    if first not in FIRST:
        raise InputError(f"first: must be {' or '.join(FIRST)}, got {quote(first)}")
    if gang.name in state.claims:
        raise InputError(f"{gang.name}: runs already; unreserve it first, or rename it")
    _, find = _SEARCHES[search]
    return find(Cycle(state, gang, first=first))


def place_scenario(
    state: ClusterState, scenario: Scenario, *, first: First = "compatibility"
) -> None:
    """Reserve for the jobs of a scenario the nodes that its instance has, one after the other.

    They send what they send there, from the offset on that the scenario gives, else in the rotation
    that is best if every task counts in full, as for all searches here. If there is no room for one
    of them, that is an `InputError`; those before it stay.
    """
    problem = build_scenario(scenario)
    nodes: dict[str, list[str]] = {}
    for task in problem.deployment.tasks:
        nodes.setdefault(task.job, []).append(task.node)
    for work, job in zip(scenario.jobs, problem.instance.jobs, strict=True):
        gang = Gang(
            name=job.name,
            tasks=len(nodes[job.name]),
            each=work.each,
            period=job.period,
            phases=job.phases,
            allreduce=work.algorithm,
            weight=job.weight,
            ready=job.ready,
            max_stretch=job.max_stretch,
        )
        cycle = Cycle(state, gang, first=first)
        there = tuple(nodes[job.name])
        claim = decide(cycle, cycle.partial([state.node_index(node) for node in there])).claim
        offset = job.current_offset if job.fixed_offset is None else job.fixed_offset
        changes = {"nodes": there, "offset": claim.offset if offset is None else offset}
        state.reserve(claim.model_copy(update=changes))
