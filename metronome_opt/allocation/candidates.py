"""Candidate placements of a job on the free nodes of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, zip_longest
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from metronome_opt.allocation.request import JobRequest
from metronome_opt.errors import InputError
from metronome_opt.scenario.cluster import ANY_COST, Cluster, Paths
from metronome_opt.scenario.collectives import Algorithm
from metronome_opt.scenario.flows import Placement, compute_placement
from metronome_opt.scenario.free_resources import FreeResources
from metronome_opt.scenario.spreading import most_free
from metronome_opt.solvers.kernels.compiled_instance import Ints

_MAX_WHOLE = 8  # racks that hold a job, and switches of each tier, that are tried
_MAX_KNOWN = 10_000  # placements
_MAX_RACKS = 4  # that a job is spread over where one has room for it

_Rack = Mapping[str, int]  # tasks that there is room for, by node
_Area = Sequence[Sequence[_Rack]]  # racks below a switch, by the switches right below it


class CandidatePlacements(FreeResources):
    """Free resources of a cluster, and the placements of jobs on them.

    Of several interfaces of a node a task is taken to use those next to the next free GPUs.
    """

    def __init__(
        self, cluster: Cluster, free: Ints | None = None, up: NDArray[np.bool_] | None = None
    ) -> None:
        super().__init__(cluster, free, up)
        racks: dict[str | None, list[int]] = {}  # nodes of each
        for index, node in enumerate(cluster.nodes):
            racks.setdefault(node.rack, []).append(index)
        self._racks = list(racks.values())
        self._rack_of: Ints = np.zeros(len(self.names), dtype=np.int64)
        for at, nodes in enumerate(self._racks):
            self._rack_of[nodes] = at
        carries = cluster.capacities
        self._linked = np.array(
            [min(carries[rail] for rail in node.rails) > 0 for node in cluster.nodes]
        )
        self._has_rails = any(len(node.rails) > 1 for node in cluster.nodes)
        closed = {
            rack
            for rack, ups in cluster.uplinks.items()
            if ups and not any(carries[link] for link in ups)
        }
        self._tiers = _tiers([cluster.uplink_paths[rack] for rack in racks], closed)
        # Kept from one decision to the next.
        self._placements: dict[object, Placement] = cluster.memo.setdefault(CandidatePlacements, {})
        self._groups: dict[int, list[list[int]]] = {}  # of racks, by the cost between them

    def placement(
        self, nodes: Sequence[str], job: JobRequest, paths: Paths | None = None
    ) -> Placement:
        """Return the placement of a job on nodes, free or not.

        Raises
        ------
        InputError
            If a link has less than 1 Mbit/s for a flow, or as of `compute_placement`.
        """
        placement = self.by_paths(nodes, job, paths)
        link = placement.bottleneck
        if not placement.rate and link is not None:
            if not self.cluster.capacities[link]:
                raise InputError(f"{link}: carries nothing; place {job.name} on other nodes")
            raise InputError(
                f"{link}: its {self.cluster.capacities[link]} Mbit/s are less than 1 Mbit/s for "
                f"each of the {placement.links[link]} tasks of a job; widen it or use fewer workers"
            )
        return placement

    def by_paths(
        self, nodes: Sequence[str], job: JobRequest, paths: Paths | None = None
    ) -> Placement:
        """Return the placement of a job on nodes, whatever its links carry."""
        rails, task_gpus = None, job.task_resources.gpus
        if self._has_rails:
            used = {node: self.index[node] for node in nodes}
            used = {node: int(self.total[at, 0] - self.free[at, 0]) for node, at in used.items()}
            rails = tuple(self.cluster.next_rails(nodes, task_gpus, Counter(used)))
        paths_there = self.cluster.steer(job.name, paths)
        return self.on_links(nodes, job.algorithm, task_gpus, rails, paths_there)

    def on_links(
        self,
        nodes: Sequence[str],
        algorithm: Algorithm,
        task_gpus: int,
        rails: tuple[tuple[str, ...], ...] | None = None,
        paths: Paths | str | None = None,
    ) -> Placement:
        """Return `compute_placement` of these nodes, computed once."""
        key = (tuple(nodes), algorithm, task_gpus, rails, paths)
        if key not in self._placements:
            if len(self._placements) >= _MAX_KNOWN:
                self._placements.clear()
            found = compute_placement(
                self.cluster, nodes, algorithm, task_gpus=task_gpus, rails=rails, paths=paths
            )
            self._placements[key] = found
        return self._placements[key]

    def spread(self, job: JobRequest) -> Placement | None:
        """Put every task of a job where most GPUs are free, the first node by name among equals.

        This is what Kubernetes does if it only looks at resources (the LeastAllocated score).
        """
        fits = dict(zip(self.names, self._usable(job).tolist(), strict=True))
        room = max(job.limits.rooms(self.cluster, fits, job.tasks), key=_room, default=None)
        if room is None:
            return None
        nodes = most_free(room, job.tasks)
        there = self.by_paths(nodes, job)
        return self.placement(nodes, job) if there.transport.rate else self.nearest(job)

    def may_hold(self, job: JobRequest) -> bool:
        """Return whether there is room for the tasks of a job, wherever."""
        return (
            job.gpus <= self.free_gpus
            and int(self.task_counts(job.task_resources).sum()) >= job.tasks
        )

    def nearest(self, job: JobRequest) -> Placement | None:
        """Return the placement with the fewest racks, then nodes, that is found.

        The fullest racks that hold the whole job come first; several racks are the last resort.
        """
        if job.nodes is not None:
            return next(iter(self.candidates(job)), None)
        room = self._usable(job)
        rooms = np.bincount(self._rack_of, room)
        whole = [at for at in np.argsort(rooms, kind="stable") if rooms[at] >= job.tasks]
        best: Sequence[str] = ()
        fewest = job.tasks + 1
        for at in whole[:_MAX_WHOLE]:
            counts = room[self._racks[at]].tolist()
            if -(-job.tasks // max(counts)) >= fewest:
                continue
            names = (self.names[node] for node in self._racks[at])
            nodes = _fewest(dict(zip(names, counts, strict=True)), job.tasks)
            if len(set(nodes)) < fewest:
                best, fewest = nodes, len(set(nodes))
        placement = self.try_nodes(self.arrange(best), job) if best else None
        if placement is not None:
            return placement
        return min(self.candidates(job), key=network_cost, default=None)

    def candidates(self, job: JobRequest, limit: int = 64) -> list[Placement]:
        """Return up to `limit` placements of a job, few racks first.

        One rack is tried, then several below one switch: the fullest ones that have room, and the
        emptiest ones. In a rack tasks fill as few nodes as possible, or are shared out evenly among
        as many of the emptiest nodes, or among all; several racks get equal shares, or their nodes
        do. Links that do not carry the traffic of its tasks are not used, nor nodes beyond its
        limits.
        """
        if job.nodes is not None:
            has_room = self.holds(job.nodes, job.task_resources)
            there = self.try_nodes(job.nodes, job) if has_room else None
            return [] if there is None else [there]
        parts = self._parts(job, self._usable(job))
        choices = _in_turn(*(self._choices(job, room) for room in parts))
        tried: set[tuple[str, ...]] = set()
        allowed: list[Placement] = []
        for nodes in map(self.arrange, choices):
            placement = None if nodes in tried else self.try_nodes(nodes, job)
            tried.add(nodes)
            if placement is not None:
                allowed.append(placement)
            if len(allowed) == limit:
                break
        costs = job.limits.max_network_cost
        return sorted(allowed, key=lambda found: (found.spans, self._overhead(found, costs)))

    def _overhead(self, placement: Placement, most: int) -> int:
        """Return the network cost around a ring for a job that limits it, 0 for others."""
        if most == ANY_COST:
            return 0
        from metronome_opt.scenario.overhead import ring_cost  # few jobs need it

        return ring_cost(self.cluster, placement.nodes)

    def _parts(self, job: JobRequest, room: Ints) -> list[Ints]:
        """Return room for a job in parts of the cluster that it has to stay within, if any."""
        domains = job.limits.domains(self.cluster)
        if domains is None:
            return [room]
        _, part_of = np.unique([domains[name] for name in self.names], return_inverse=True)
        totals = np.bincount(part_of, room)
        fitting = [at for at in np.argsort(totals, kind="stable") if totals[at] >= job.tasks]
        chosen = dict.fromkeys([*fitting[:_MAX_WHOLE], *fitting[-_MAX_WHOLE:]])
        return [np.where(part_of == at, room, 0) for at in chosen]

    def _choices(self, job: JobRequest, room: Ints) -> Iterator[Sequence[str]]:
        """Yield nodes for a job, given room for its tasks by node."""
        racks = [
            {self.names[node]: int(room[node]) for node in nodes if room[node]}
            for nodes in self._racks
        ]
        tiers = [
            [[[racks[rack] for rack in part if racks[rack]] for part in area] for area in tier]
            for tier in self._tiers
        ]
        if (most := job.limits.max_network_cost) < ANY_COST:
            from metronome_opt.scenario.overhead import tolerated_groups

            if most not in self._groups:
                firsts = [self.names[rack[0]] for rack in self._racks]
                self._groups[most] = tolerated_groups(self.cluster, firsts, most)
            near = ([[racks[at]] for at in group if racks[at]] for group in self._groups[most])
            tiers.append([*near])
        return _choices([rack for rack in racks if rack], tiers, job.tasks)

    def _usable(self, job: JobRequest) -> Ints:
        """Return how many tasks of a job each node takes, none if its links carry nothing."""
        room = self.task_counts(job.task_resources)
        usable = self._linked | (room >= job.tasks)
        if job.limits.allowed_nodes is not None:
            allowed = job.limits.allowed(self.cluster)
            usable &= np.array([name in allowed for name in self.names])
        return np.where(usable, room, 0)

    def arrange(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes of tasks in the order in which a ring leaves few racks."""
        return tuple(sorted(nodes, key=self.cluster.node_order.__getitem__))

    def try_nodes(self, nodes: Sequence[str], job: JobRequest) -> Placement | None:
        """Return the placement of a job on nodes; None if links or its limits do not allow it."""
        if job.limits.violation(self.cluster, nodes) is not None:
            return None
        placement = self.by_paths(nodes, job)
        choices = [placement]
        if placement.paths and self.cluster.routing == "chosen":  # a link by its hash may be down
            choices += (
                self.by_paths(nodes, job, tuple((spine,) * len(its) for its in placement.paths))
                for spine in range(self.cluster.spines)
            )
        return next((choice for choice in choices if job.fits(choice)), None)


def network_cost(placement: Placement) -> tuple[int, ...]:
    """Return the network cost of a placement: switches from the top, racks, then nodes.

    Diktyo's costs of a pair of pods, 0 on a node, 1 in a rack, more between racks, order placements
    of one job in this way.
    """
    return *placement.spans, len(set(placement.nodes))


def _tiers(ways: Sequence[Sequence[str]], closed: Set[str]) -> list[list[list[list[int]]]]:
    """Return for each tier, the lowest first, the racks below its switches, by the next tier down.

    Closed racks, which carry nothing, are omitted where they would have to reach a switch.
    """
    tiers = []
    for depth in range(max(map(len, ways)) - 1, -1, -1) or [0]:
        below: dict[tuple[str, ...], dict[tuple[str, ...], list[int]]] = {}
        for rack, way in enumerate(ways):
            own, names = max(0, len(way) - depth), tuple(way)
            if closed.isdisjoint(names[:own]):
                part = names[max(0, own - 1) :]
                below.setdefault(names[own:], {}).setdefault(part, []).append(rack)
        tiers.append([list(parts.values()) for parts in below.values()])
    return tiers


def _choices(
    racks: Sequence[_Rack], tiers: Sequence[Sequence[_Area]], tasks: int
) -> Iterator[Sequence[str]]:
    """Yield nodes for tasks in one of some racks and in several below a switch, in turn."""
    whole = [rack for rack in sorted(racks, key=_room) if _room(rack) >= tasks]
    return _in_turn(
        _in_one(whole, tasks), *(_in_turn(*_in_areas(whole, tier, tasks)) for tier in tiers)
    )


def _in_turn(*choices: Iterator[Sequence[str]]) -> Iterator[Sequence[str]]:
    return (nodes for turn in zip_longest(*choices) for nodes in turn if nodes)


def _in_areas(
    whole: Sequence[_Rack], tier: Sequence[_Area], tasks: int
) -> Iterator[Iterator[Sequence[str]]]:
    """Yield what several racks offer: of the fewest parts of an area that have room, and of all."""
    areas = [(sum(map(_room, chain(*area))), area) for area in tier]
    fitting = sorted((area for area in areas if area[0] >= tasks), key=itemgetter(0))
    for _, area in fitting[:_MAX_WHOLE]:
        racks = list(chain(*area))
        if len(area) < len(racks):
            parts = sorted(area, key=lambda part: sum(map(_room, part)))
            rooms = [sum(map(_room, part)) for part in parts]
            fewest = next(n for n in range(1, len(parts) + 1) if sum(rooms[-n:]) >= tasks)
            if fewest > 1:
                yield _in_several(whole, list(chain(*parts[-fewest:])), tasks)
        yield _in_several(whole, racks, tasks)


def _in_one(whole: Sequence[_Rack], tasks: int) -> Iterator[Sequence[str]]:
    for rack in whole[:_MAX_WHOLE]:
        fewest = _fewest(rack, tasks)
        emptiest = sorted(rack, key=lambda node: -rack[node])[: len(set(fewest))]
        yield fewest
        yield most_free({node: rack[node] for node in emptiest}, tasks)
        yield most_free(rack, tasks)


def _in_several(
    whole: Sequence[_Rack], lifted: Sequence[_Rack], tasks: int
) -> Iterator[Sequence[str]]:
    racks = sorted(lifted, key=_room)
    enough = len(racks) if not whole else min(len(racks), _MAX_RACKS)
    for count in range(2, min(enough, tasks) + 1):
        for chosen in (racks[-count:], _tightest(racks, count, tasks)):
            if chosen and sum(map(_room, chosen)) >= tasks:
                nodes = {node: free for rack in chosen for node, free in rack.items()}
                yield _balanced(chosen, tasks)
                yield _fewest(nodes, tasks)
                yield most_free(nodes, tasks)


def _room(rack: _Rack) -> int:
    return sum(rack.values())


def _tightest(racks: Sequence[_Rack], count: int, tasks: int) -> Sequence[_Rack]:
    """Return the fullest `count` racks in a row, by how full they are, that have room."""
    for first in range(len(racks) - count + 1):
        chosen = racks[first : first + count]
        if sum(map(_room, chosen)) >= tasks:
            return chosen
    return ()


def _balanced(racks: Sequence[_Rack], tasks: int) -> tuple[str, ...]:
    """Give racks equal shares as far as they have room, in each where most GPUs are free."""
    chosen: list[str] = []
    left = tasks
    for number, rack in enumerate(sorted(racks, key=_room)):
        share = min(_room(rack), -(-left // (len(racks) - number)))
        chosen += most_free(rack, share)
        left -= share
    return tuple(chosen)


def _fewest(free: Mapping[str, int], tasks: int) -> tuple[str, ...]:
    """Fill nodes one after the other: the one that just fits, else the one with most room."""
    left = tasks
    chosen: list[str] = []
    pool = sorted((node for node in free if free[node]), key=lambda node: (-free[node], node))
    for index, node in enumerate(pool):
        if free[node] >= left:
            fitting = [other for other in pool[index:] if free[other] >= left]
            return (*chosen, *[fitting[-1]] * left)
        chosen += [node] * free[node]
        left -= free[node]
    return tuple(chosen)
