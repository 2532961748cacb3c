"""Cluster during a simulation: free GPUs, and flows of placements on links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from metronome_opt.errors import InputError
from metronome_opt.scenario.cluster import most_free
from metronome_opt.scenario.model import DescribedJob
from metronome_opt.scenario.network import Cluster, Placement

_Rack = Mapping[str, int]  # tasks that there are GPUs for, by node
_WHOLE_RACKS = 8  # tried where several have room for a job
_MAX_RACKS = 4  # of a job that has room in one rack


class Machines:
    """Nodes of a scenario's cluster, their free GPUs and their racks.

    Attributes
    ----------
    network, capacities
        The machines one by one, and the capacity of each link in Mbit/s.
    gpus, free
        GPUs in all, and those that are free, by node.
    racks
        The nodes of each.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.network = cluster
        for index, node in enumerate(self.network.nodes):
            if len(node.rails) > 1:
                raise InputError(
                    f"cluster.nodes[{index}].interfaces: {len(node.rails)} of them, and policies "
                    "know nodes with one; write one interface with the bandwidth of all"
                )
        self.capacities = self.network.capacities
        self.gpus = sum(self.network.gpus_of.values())
        self.free: Counter[str] = Counter(self.network.gpus_of)
        self.racks: dict[str | None, list[str]] = {}
        for node in self.network.nodes:
            self.racks.setdefault(node.rack, []).append(node.name)

    @property
    def free_gpus(self) -> int:
        """The number of free GPUs in all."""
        return self.free.total()

    def placement(self, nodes: Sequence[str], work: DescribedJob) -> Placement:
        """Return the placement of the tasks of a job on nodes, one per task.

        An `InputError` if a link does not have 1 Mbit/s for each of the tasks.
        """
        placement = work.placement(self.network, nodes)
        link = placement.limit
        if not placement.rate and link is not None:
            raise InputError(
                f"{link}: its {self.capacities[link]} Mbit/s are less than 1 Mbit/s for each "
                f"of the {placement.links[link]} tasks of a job; widen it or use fewer workers"
            )
        return placement

    def fits(self, nodes: Sequence[str], each: int = 1) -> bool:
        """Return True if a task of so many GPUs has room on each of these nodes."""
        return all(self.free[node] >= each * count for node, count in Counter(nodes).items())

    def take(self, placement: Placement) -> None:
        """Take the GPUs of a placement."""
        self.free.subtract(placement.gpus_of)

    def release(self, placement: Placement) -> None:
        """Give the GPUs of a placement back."""
        self.free.update(placement.gpus_of)

    def spread(self, work: DescribedJob) -> Placement | None:
        """Put every task of a job where most GPUs are free, the first node by name among equals.

        Kubernetes does so by its LeastAllocated score of resources.
        """
        each = work.each.gpus
        if work.workers > sum(free // each for free in self.free.values()):
            return None
        return self.placement(most_free(self.free, work.workers, each), work)

    def candidates(self, work: DescribedJob, limit: int) -> list[Placement]:
        """Return up to `limit` placements of a job, few racks first.

        One rack each, then several: the fullest ones that have room, and the emptiest ones. In a
        rack tasks are put on as few nodes as possible, or on as many; several racks get equal
        shares.
        """
        choices = _choices(self, work.workers, work.each.gpus)
        different = dict.fromkeys(tuple(sorted(nodes)) for nodes in choices)
        placements = [self.placement(nodes, work) for nodes in islice(different, limit)]
        return sorted(placements, key=lambda placement: placement.racks)


def _choices(machines: Machines, workers: int, each: int) -> Iterator[Sequence[str]]:
    free = [
        {node: machines.free[node] // each for node in nodes} for nodes in machines.racks.values()
    ]
    racks = sorted((rack for rack in free if any(rack.values())), key=_room)
    whole = [rack for rack in racks if _room(rack) >= workers]
    for rack in whole[:_WHOLE_RACKS]:
        yield _fewest(rack, workers)
        yield most_free(rack, workers)
    enough = len(racks) if not whole else min(len(racks), _MAX_RACKS)
    for count in range(2, min(enough, workers) + 1):
        for chosen in (racks[-count:], _tightest(racks, count, workers)):
            if chosen and sum(map(_room, chosen)) >= workers:
                yield _balanced(chosen, workers)
                yield _fewest({n: free for rack in chosen for n, free in rack.items()}, workers)


def _room(rack: Mapping[str, int]) -> int:
    return sum(rack.values())


def _tightest(racks: Sequence[_Rack], count: int, workers: int) -> Sequence[_Rack]:
    """Return the fullest `count` racks in a row, by how full they are, that have room."""
    for first in range(len(racks) - count + 1):
        chosen = racks[first : first + count]
        if sum(map(_room, chosen)) >= workers:
            return chosen
    return ()


def _balanced(racks: Sequence[_Rack], workers: int) -> tuple[str, ...]:
    """Give racks equal shares as far as they have room, in each where most GPUs are free."""
    chosen: list[str] = []
    left = workers
    for number, rack in enumerate(sorted(racks, key=_room)):
        share = min(_room(rack), -(-left // (len(racks) - number)))
        chosen += most_free(rack, share)
        left -= share
    return tuple(chosen)


def _fewest(free: Mapping[str, int], workers: int) -> tuple[str, ...]:
    """Fill nodes one after the other: the one that just fits, else the one with most room."""
    left = workers
    chosen: list[str] = []
    pool = sorted((node for node in free if free[node]), key=lambda node: (-free[node], node))
    while left:
        fitting = [node for node in pool if free[node] >= left]
        node = fitting[-1] if fitting else pool[0]
        count = min(left, free[node])
        chosen += [node] * count
        pool.remove(node)
        left -= count
    return tuple(chosen)
