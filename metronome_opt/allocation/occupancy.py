"""Jobs placed in a cluster, and the price of one more placement.

The price is weighted time: what the job runs longer than with a network of its own, and what it and
the jobs that it meets delay each other for as long as both run. Pairs of jobs are looked at one by
one, on the link where they delay each other most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from random import Random
from typing import NamedTuple

from metronome_opt.allocation.candidates import FreeResources, network_cost
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.paths import choose_paths
from metronome_opt.allocation.request import JobRequest
from metronome_opt.scenario.cluster import Paths
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration

CANDIDATES = 24
"""Placements of a job that are priced."""

_FAR = 1e-4  # of its length: price of another rack or switch, which decides between equals
_TRIES, _WITH = 24, 3  # of jobs that lose by their paths, each with so many others
_SAVED = 0.01  # of what a job costs: from so much on its flows change their paths
_EXCHANGES = 32  # nodes that are tried in place of one of the best of them
_EXCHANGED = 8192  # placements that are tried for that, times tasks: it takes a while


@dataclass(frozen=True)
class PlacedJob:
    """A job with its placement."""

    job: JobRequest
    placement: Placement

    @cached_property
    def pattern(self) -> Iteration:
        """Its iteration there."""
        return self.job.traffic(self.placement.transport)

    @cached_property
    def loss(self) -> float:
        """The share by which that is longer than its best one."""
        return self.job.loss(self.placement.transport)


class StartOption(NamedTuple):
    """A placement of a job, and when it begins there.

    Attributes
    ----------
    after_ms
        Time until then; 0 for now.
    cost
        Weighted ms that it costs, its wait included.
    delays
        By what share of its best iteration each job is expected to be slower because of this start,
        the job itself included; those that are not are left out.
    """

    placement: Placement
    after_ms: float
    cost: float
    delays: Mapping[str, float]


class Occupancy:
    """Placed jobs of a cluster, and what is free.

    Parameters
    ----------
    room
        Free resources, without those of the placed jobs.
    placed
        Jobs that run.
    meetings
        What pairs of jobs cost each other.
    candidates
        How many placements of a job are priced; 1 for the nearest one alone.
    """

    def __init__(
        self,
        room: FreeResources,
        placed: Iterable[PlacedJob],
        meetings: PairLosses,
        candidates: int = CANDIDATES,
    ) -> None:
        self.room, self.candidates = room, candidates
        self.placed = {each.job.name: each for each in placed}
        self.meetings = meetings
        self._users: dict[str, dict[str, None]] = {}
        for each in self.placed.values():
            self._cross(each)

    def copy(self) -> Occupancy:
        """Return an occupancy of its own."""
        room, placed = self.room.copy(), self.placed.values()
        return Occupancy(room, placed, self.meetings, self.candidates)

    def add(self, each: PlacedJob) -> None:
        """Place a job."""
        self.room.take(each.placement.nodes, each.job.each)
        self.placed[each.job.name] = each
        self._cross(each)

    def remove(self, name: str) -> PlacedJob:
        """Remove a job, and return it."""
        each = self.placed.pop(name)
        self.room.release(each.placement.nodes, each.job.each)
        for link in each.placement.links:
            del self._users[link][name]
        return each

    def best(
        self, job: JobRequest, after_ms: float = 0.0, limit: float = math.inf
    ) -> StartOption | None:
        """Return the cheapest start of a job after a time; None if none costs less than a limit.

        The jobs that are placed are those of then, and their lengths count from now.
        """
        if self.candidates > 1:
            placements = self.room.candidates(job, self.candidates)
        else:
            placements = [each for each in [self.room.nearest(job)] if each is not None]
        best = self.cheapest(job, placements, after_ms)
        return best if best is not None and best.cost < limit else None

    def nearest(self, job: JobRequest) -> Placement | None:
        """Return the nearest placement of a job, if there is room."""
        placement = self.room.nearest(job)
        return None if placement is None else self.routed(job, placement)

    def routed(
        self, job: JobRequest, placement: Placement, draw: Random | None = None
    ) -> Placement:
        """Return a placement with paths of its own, where they can be chosen; see `paths`."""
        if not placement.paths or self.room.cluster.routing != "chosen":
            return placement
        return choose_paths(self, job, placement, draw)

    def at_nodes(
        self, job: JobRequest, nodes: Sequence[str], paths: Paths | None = None
    ) -> Placement:
        """Return the placement of a job on nodes by some paths, or by chosen ones if None."""
        if paths is None:
            paths = self.routed(job, self.room.by_paths(nodes, job)).paths
        return self.room.placement(nodes, job, paths)

    def rerouted(self, names: list[str]) -> dict[str, Placement]:
        """Let flows of jobs take other paths where they cost less; return what changed, by job.

        One job after the other, then each that loses with some others, spines left out at random.
        """
        changed: dict[str, Placement] = {}
        draw = Random(len(names))  # noqa: S311 (nothing is kept secret)

        def loses(name: str) -> bool:
            return any(map(any, self.pair_losses(self.placed[name]).values()))

        def several() -> Iterator[tuple[str, ...]]:
            losing = [name for name in names if loses(name)]
            for name in filter(loses, losing * _TRIES):
                if others := [other for other in names if other != name]:
                    yield name, *draw.sample(others, min(_WITH, len(others)))

        for group in chain(((name,) for name in names), islice(several(), _TRIES)):
            now = cost = 0.0
            before, after = list[PlacedJob](), list[PlacedJob]()
            for name in group:
                before.append(self.remove(name))
                now += self.start(before[-1].job, before[-1].placement).cost
            for each in before:
                chance = draw if len(group) > 1 else None
                after.append(PlacedJob(each.job, self.routed(each.job, each.placement, chance)))
                cost += self.start(each.job, after[-1].placement).cost
                self.add(after[-1])
            if cost < now * (1 - _SAVED):
                changed |= {each.job.name: each.placement for each in after}
                continue
            for each, other in zip(after, before, strict=True):
                self.remove(each.job.name)
                self.add(other)
        return changed

    def cheapest(
        self,
        job: JobRequest,
        placements: Iterable[Placement],
        after_ms: float = 0.0,
        draw: Random | None = None,
    ) -> StartOption | None:
        """Return the cheapest start at some placements, of equals the nearest.

        Paths are chosen, spines left out at random if there is something to draw with.
        """
        routed = (self.routed(job, placement, draw) for placement in placements)
        starts = (self.start(job, placement, after_ms) for placement in routed)
        return min(
            starts, key=lambda start: (start.cost, network_cost(start.placement)), default=None
        )

    def exchanged(self, job: JobRequest, best: StartOption) -> StartOption:
        """Return a start after one node after the other was exchanged for a cheaper one."""
        room, left = self.room.tasks_of(job.each), _EXCHANGED // job.tasks
        for node, tasks in Counter(best.placement.nodes).items():
            if not best.delays or left <= 0 or self.candidates == 1:
                break
            others = [
                other
                for other, count in room.items()
                if other not in best.placement.nodes and count >= tasks
            ]
            for other in others[: min(left, _EXCHANGES)]:
                left -= 1
                nodes = (other if each == node else each for each in best.placement.nodes)
                placement = self.room.allowed(sorted(nodes), job)
                if placement is None:
                    continue
                start = self.start(job, self.routed(job, placement), best.after_ms)
                if start.cost < best.cost:
                    best = start
                    break
        return best

    def start(self, job: JobRequest, placement: Placement, after_ms: float = 0.0) -> StartOption:
        """Return the start of a job at a placement, with what it costs."""
        placed = PlacedJob(job, placement)
        own = placed.loss
        far = _FAR * (sum(placement.spans) - len(placement.spans)) if placement.links else 0.0
        cost = job.cost_weight * (after_ms + job.expected_ms * (own + far))
        delays = {job.name: own}
        for name, (mine, theirs) in self.pair_losses(placed).items():
            other = self.placed[name].job
            together = min(job.expected_ms, max(0.0, other.expected_ms - after_ms))
            cost += together * (job.cost_weight * mine + other.cost_weight * theirs)
            delays[job.name] += mine
            delays[name] = theirs
        delays = {name: by for name, by in delays.items() if by > 0}
        return StartOption(placement, after_ms, cost, delays)

    def pair_losses(self, each: PlacedJob) -> dict[str, tuple[float, float]]:
        """Return what a job and each one that it meets lose by one another, by name of the other.

        Shares of their best iterations, first of the job. It may be placed or not.
        """
        losses = {}
        for other in self.met(each.placement):
            if other.job.name != each.job.name:
                mine, theirs = self._meet(each, other)
                losses[other.job.name] = mine * (1 + each.loss), theirs * (1 + other.loss)
        return losses

    def met(self, placement: Placement) -> Iterator[PlacedJob]:
        """Yield the jobs on the links of a placement."""
        names: dict[str, None] = {}
        for link in placement.links:
            names |= self._users.get(link, {})
        return (self.placed[name] for name in names)

    def _meet(self, one: PlacedJob, two: PlacedJob) -> tuple[float, float]:
        """Return by what share two jobs slow each other down."""
        mine = theirs = 0.0
        capacities, its = self.room.cluster.capacities, two.placement.links
        alike = {  # links that they share in one way cost the same
            (flows, its[link], capacities[link])
            for link, flows in one.placement.links.items()
            if link in its
        }
        for flows, its_flows, capacity in sorted(alike):
            slower = self.meetings.slowdowns(
                (one.pattern, flows, one.job.cost_weight),
                (two.pattern, its_flows, two.job.cost_weight),
                capacity,
            )
            mine, theirs = max(mine, slower[0]), max(theirs, slower[1])
        return mine, theirs

    def price_on(
        self, link: str, job: JobRequest, pattern: Iteration, flows: int
    ) -> tuple[float, float]:
        """Return what a job of so many flows and those on a link cost each other, and the load."""
        capacity, cost, load = self.room.cluster.capacities[link], 0.0, 0.0
        for name in self._users.get(link, ()):
            other = self.placed[name]
            its_flows = other.placement.links[link]
            mine, theirs = self.meetings.slowdowns(
                (pattern, flows, job.cost_weight),
                (other.pattern, its_flows, other.job.cost_weight),
                capacity,
            )
            together = min(job.expected_ms, other.job.expected_ms)
            cost += together * (job.cost_weight * mine + other.job.cost_weight * theirs)
            sent = float(1000 * other.pattern.volume) / other.pattern.isolated_ms
            load += its_flows * sent / capacity
        return cost, load

    def _cross(self, each: PlacedJob) -> None:
        for link in each.placement.links:
            self._users.setdefault(link, {})[each.job.name] = None
