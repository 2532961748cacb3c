"""All placements of the jobs of a small cluster; of those that only exchange equal nodes, one.

Jobs are placed one after the other. Nodes of a rack are equal if their links, resources and tasks
are; of equal nodes a later one gets no more tasks of a job. Racks are equal if their links and what
stands in them are; of placements that only exchange equal racks the first one counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import accumulate

from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.paths import route
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.flows import Placement
from metronome_opt.solvers.budget import Budget

_MAX_NODES, _MAX_TRIES = 32, 5000  # of nodes, and of placements of single jobs that are tried


def enumerate_placements(
    jobs: Sequence[JobRequest], occupancy: Occupancy, max_count: int, budget: Budget
) -> list[Mapping[str, Placement]]:
    """Return all placements of jobs beside those that are placed; none if that takes too long."""
    resources, cluster = occupancy.resources, occupancy.resources.cluster
    if len(cluster.nodes) > _MAX_NODES:
        return []
    names = sorted(cluster.nodes_by_name, key=cluster.node_order.__getitem__)
    homes = [cluster.nodes_by_name[name].rack for name in names]
    indices = [resources.index[name] for name in names]
    racks = _rack_kinds(occupancy)
    found, seen, tries = list[Mapping[str, Placement]](), set[Hashable](), 0

    def place(rest: Sequence[JobRequest], states: Sequence[Hashable]) -> None:
        nonlocal tries
        if not rest:
            found.append({name: placed.placement for name, placed in occupancy.placed.items()})
            return
        job, *others = rest
        room = resources.task_counts(job.task_resources)[indices].tolist()
        for counts in _distribute(job.tasks, room, [*zip(homes, states, strict=True)]):
            tries += 1
            if tries > _MAX_TRIES or len(found) > max_count or budget.stopped:
                return
            after = list(zip(states, counts, strict=True))
            key = len(rest), _merge_racks(cluster, homes, after, racks)
            nodes = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
            placement = None if key in seen else resources.try_nodes(nodes, job)
            seen.add(key)
            if placement is not None:
                occupancy.add(PlacedJob(job, route(occupancy, job, placement)))
                place(others, after)
                occupancy.remove(job.name)

    place(jobs, _node_kinds(occupancy, jobs, names))
    is_complete = tries <= _MAX_TRIES and len(found) <= max_count and not budget.stopped
    return found if is_complete else []


def _node_kinds(
    occupancy: Occupancy, jobs: Sequence[JobRequest], names: Sequence[str]
) -> list[Hashable]:
    """Return what equal nodes have in common, with its name for a node that equals no other."""
    cluster = occupancy.resources.cluster
    has_ranks = cluster.spines > 1 and cluster.routing == "ecmp"  # which decide paths
    used = {node for placed in occupancy.placed.values() for node in placed.placement.nodes}
    allowed = [job.limits.allowed(cluster) for job in jobs]
    return [
        (
            name if has_ranks or name in used else "",
            node.region,
            node.has,
            *(cluster.capacities[rail] for rail in node.rails),
            *(name in its for its in allowed),
        )
        for name, node in ((name, cluster.nodes_by_name[name]) for name in names)
    ]


def _rack_kinds(occupancy: Occupancy) -> Mapping[str, Hashable]:
    """Return what equal racks have in common by rack, those farthest from the top first."""
    cluster = occupancy.resources.cluster
    crossed = {link for placed in occupancy.placed.values() for link in placed.placement.links}
    kinds: dict[str, Hashable] = {}
    for rack in sorted(cluster.uplinks, key=lambda rack: -len(cluster.uplink_paths[rack])):
        links = (*cluster.uplinks[rack], *cluster.downlinks[rack])
        is_unequal = cluster.zone_costs or not crossed.isdisjoint(links)
        kinds[rack] = rack if is_unequal else "", *(cluster.capacities[link] for link in links)
    return kinds


def _merge_racks(
    cluster: Cluster,
    homes: Sequence[str | None],
    states: Sequence[Hashable],
    racks: Mapping[str, Hashable],
) -> Hashable:
    """Return what states of nodes that only exchange equal racks have in common."""
    inside = defaultdict[str | None, Counter[Hashable]](Counter)
    for home, state in zip(homes, states, strict=True):
        inside[home][state] += 1
    for rack, kind in racks.items():
        above = next(iter(cluster.uplink_paths[rack][1:]), None)
        inside[above][kind, frozenset(inside[rack].items())] += 1
    return frozenset(inside[None].items())


def _distribute(
    tasks: int, room: Sequence[int], states: Sequence[Hashable]
) -> Iterator[tuple[int, ...]]:
    """Yield numbers of tasks on nodes with room for them, later ones no larger of equal states."""
    left = [*accumulate(reversed(room), initial=0)][-2::-1]  # room on later nodes
    later = [states[at + 1 :].count(state) for at, state in enumerate(states)]
    last = [
        max((n for n in range(at) if states[n] == state), default=-1)
        for at, state in enumerate(states)
    ]

    def fill(chosen: tuple[int, ...], rest: int) -> Iterator[tuple[int, ...]]:
        at = len(chosen)
        if at == len(room):
            yield chosen
            return
        most = min(room[at], rest, chosen[last[at]] if last[at] >= 0 else rest)
        others = left[at] - later[at] * room[at]
        for number in range(most, max(0, -(-(rest - others) // (1 + later[at]))) - 1, -1):
            yield from fill((*chosen, number), rest - number)

    return fill((), tasks)
