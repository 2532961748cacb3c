"""State of a cluster: free resources, capacities, and the claims in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.records import explain
from metronome_opt.kubernetes.state.records import (
    CapacityChanged,
    Gang,
    NodeChanged,
    Reservation,
    Reserved,
    Revised,
    StateEvent,
    Unreserved,
)
from metronome_opt.scenario.cluster_file import ClusterSpec
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.overhead import is_tolerated
from metronome_opt.solvers.kernels.compiled_instance import Ints

_MAX_RATE = 2**30  # Mbit/s of a link or a task: all that is sent on a link then fits 64 bits


class ClusterState:
    """Nodes and links of a cluster, with the claims that are in force on them.

    Whatever changes it is an event. An event is checked in full first, then noted, then applied;
    so one that is refused, or cannot be noted, leaves everything as it was.

    Parameters
    ----------
    cluster
        Nodes, links and the grid of time.

    Attributes
    ----------
    note
        Called with an event before it is applied, by a `Store`, say.
    claims, crossed
        In force, by job; and how many tasks of each job cross which link, by index of the link.
    sequence
        Number of events that have been applied.
    total, free
        GPUs, CPU in millicores and memory in MiB, in all and free, shape (nodes, 3).
    others
        What is used there by others, without a claim: no place is looked for in it. It is
        no part of what is kept. Shape (nodes, 3).
    up
        Whether each node takes tasks, shape (nodes,).
    capacity
        What each link carries, in Mbit/s, shape (links,).
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        for link in cluster.links:
            _check_size(link.name, link.capacity)
        self.cluster = cluster
        self.note: Callable[[StateEvent], None] = lambda _: None
        self.claims: dict[str, Reservation] = {}
        self.sequence = 0
        self._links = {link.name: index for index, link in enumerate(cluster.links)}
        self._nodes = {node.name: index for index, node in enumerate(cluster.nodes)}
        self.total: Ints = np.array([node.has.vector for node in cluster.nodes], dtype=np.int64)
        self.free: Ints = self.total.copy()
        self.others: Ints = np.zeros_like(self.total)
        self.up: NDArray[np.bool_] = np.ones(len(cluster.nodes), dtype=np.bool_)
        self.capacity: Ints = np.array([*cluster.capacities.values()], dtype=np.int64)
        self.crossed: dict[str, dict[int, int]] = {}

    # ------------------------------------------------------------------ names and numbers

    def node_index(self, name: str) -> int:
        """Return the index of a node."""
        if name not in self._nodes:
            raise InputError(f"there is no node {quote(name)}")
        return self._nodes[name]

    def link_index(self, name: str) -> int:
        """Return the index of a link."""
        if name not in self._links:
            raise InputError(f"there is no link {quote(name)}")
        return self._links[name]

    def claim(self, job: str) -> Reservation:
        """Return the claim of a job that runs."""
        if job not in self.claims:
            raise InputError(f"there is no job {quote(job)} with claims in force")
        return self.claims[job]

    def placement(self, claim: Reservation) -> Placement:
        """Return the flows of a claim on links."""
        gang = claim.gang
        paths = self.cluster.steer(claim.job, claim.paths)
        with error_context(claim.job):
            return self.cluster.placement(
                claim.nodes, gang.allreduce, each=gang.each.gpus, paths=paths
            )

    def flows(self, job: str) -> Mapping[str, int]:
        """Return how many tasks of a job in force cross each link."""
        links = self.cluster.links
        return {links[link].name: count for link, count in self.crossed[job].items()}

    def peak(self, link: str) -> int:
        """Return what the jobs on a link would send if all burst at once, in Mbit/s."""
        index = self.link_index(link)
        return sum(flows * claim.gang.peak for claim, flows in self._users(index))

    def _users(self, index: int) -> Iterator[tuple[Reservation, int]]:
        """Yield the claims of the jobs on a link, with their flows there."""
        for job, flows in self.crossed.items():
            if index in flows:
                yield self.claims[job], flows[index]

    def room(self, link: str) -> int:
        """Return how fast one more job may send on a link, in Mbit/s."""
        return int(self.capacity[self.link_index(link)])

    def residual(self, link: str) -> Ints:
        """Return the capacity of a link less its claims, slot by slot, shape (H,), in Mbit/s."""
        index = self.link_index(link)
        residual: Ints = np.full(self.cluster.hyperperiod, self.capacity[index], dtype=np.int64)
        for claim, flows in self._users(index):
            pattern = np.zeros(claim.period, dtype=np.int64)  # of one flow
            for phase in claim.gang.phases:
                pattern[phase.start : phase.end] = phase.rate
            rows = residual.reshape(-1, claim.period)
            rows -= flows * np.roll(pattern, claim.offset)
        return residual

    def fits(self, gang: Gang) -> Ints:
        """Return how many tasks of a gang each node has resources for, shape (nodes,)."""
        needs = np.array(gang.each.vector, dtype=np.int64)
        spare = self.free - self.others
        counts = np.where(needs > 0, spare // np.maximum(needs, 1), gang.tasks)
        return np.where(self.up, counts.min(axis=1).clip(0, gang.tasks), 0)

    def jobs_on(self, node: str) -> list[str]:
        """Return the jobs that have tasks on a node."""
        return [job for job, claim in self.claims.items() if node in claim.nodes]

    # ------------------------------------------------------------------ events

    def reserve(self, claim: Reservation) -> bool:
        """Bring all claims of a job into force, or none; return whether they were not yet.

        Raises
        ------
        InputError
            If the job has another claim, or there is no room for this one.
        """
        if self.claims.get(claim.job) == claim:
            return False
        self.apply(Reserved(claim=claim))
        return True

    def unreserve(self, job: str) -> bool:
        """Give back all that a job has; return whether it had anything."""
        if job not in self.claims:
            return False
        self.apply(Unreserved(job=job))
        return True

    def revise(self, claims: Iterable[Reservation]) -> bool:
        """Change what running jobs claim, all at once; return whether that changes anything.

        Raises
        ------
        InputError
            If one of them does not run, or would move to where there is no room.
        """
        changed = tuple(claim for claim in claims if self.claims.get(claim.job) != claim)
        if changed:
            self.apply(Revised(claims=changed))
        return bool(changed)

    def set_capacity(self, link: str, capacity: int) -> bool:
        """Let a link carry so many Mbit/s from now on; return whether that is a change."""
        if self.capacity[self.link_index(link)] == capacity:
            return False
        _check_size(link, capacity)
        self.apply(CapacityChanged(link=link, capacity=capacity))
        return True

    def set_node(self, node: str, *, up: bool) -> bool:
        """Let a node take tasks from now on, or no more; return whether that is a change."""
        if bool(self.up[self.node_index(node)]) == up:
            return False
        self.apply(NodeChanged(node=node, up=up))
        return True

    def apply(self, event: StateEvent) -> None:
        """Check an event, note it, and apply it.

        Raises
        ------
        InputError
            If it cannot be; everything is as before. (An exception from outside, Ctrl-C say, may
            come in the middle; the state is then of no use, and `sequence` is as before.)
        """
        self.check(event)
        self.note(event)
        self._change(event)

    def check(self, event: StateEvent) -> None:
        """Raise an `InputError` of one line if an event cannot happen."""
        try:  # records are validated when they are made, but not when copied with changes
            type(event).model_validate(event.model_dump(warnings=False))
        except ValidationError as error:
            raise InputError(explain(error)) from None
        match event:
            case Reserved(claim=claim):
                self._check_new(claim)
            case Unreserved(job=job):
                self.claim(job)
            case Revised(claims=claims):
                self._check_revised(claims)
            case CapacityChanged(link=link, capacity=capacity):
                self.link_index(link)
                _check_size(link, capacity)
            case NodeChanged(node=node):
                self.node_index(node)

    def restore(self, claim: Reservation) -> None:
        """Take a claim in that is in force, even if today there would be no bandwidth for it.

        Raises an `InputError` if it fits no state of this cluster.
        """
        if claim.job in self.claims:
            raise InputError(f"{claim.job}: is there twice")
        self._check_claim(claim)
        self.take(claim)
        for node in claim.nodes:
            if (self.free[self._nodes[node]] < 0).any():
                raise InputError(f"{claim.job}: node {node}: has less than its tasks take")

    def _check_new(self, claim: Reservation) -> None:
        if claim.job in self.claims:
            raise InputError(
                f"{claim.job}: has other claims in force already; unreserve it first, or rename it"
            )
        self._check_claim(claim)
        self._check_place(claim, self.free)

    def _check_place(self, claim: Reservation, free: Ints) -> None:
        """Refuse a place without room, if each node has so much free, of shape (nodes, 3)."""
        gang, hosts = claim.gang, self.cluster.hosts
        racks = len({hosts[node].rack for node in claim.nodes})
        if gang.most_racks is not None and racks > gang.most_racks:
            raise InputError(
                f"{claim.job}: nodes: they stand in {racks} racks, and it may span "
                f"{gang.most_racks}"
            )
        if not is_tolerated(self.cluster, claim.nodes, gang.max_network_cost):
            raise InputError(
                f"{claim.job}: nodes: network costs between them are higher than its "
                f"max_network_cost, {gang.max_network_cost}"
            )
        for node, count in sorted(Counter(claim.nodes).items()):
            index = self._nodes[node]
            short = lacking(free[index], gang.each, count) if self.up[index] else "is down"
            if short is not None:
                raise InputError(f"{claim.job}: node {node}: {short}")
        for link, count in self.placement(claim).links.items():
            asked, room = count * gang.peak, self.room(link)
            if asked > room:
                raise InputError(f"{claim.job}: {link}: {asked} Mbit/s asked for, {room} to be had")

    def _check_revised(self, claims: Sequence[Reservation]) -> None:
        twice = [job for job, n in Counter(claim.job for claim in claims).items() if n > 1]
        if twice:
            raise InputError(f"{twice[0]}: is revised twice at once")
        free, moved = self.free.copy(), []
        for claim in claims:
            before = self.claim(claim.job)
            if claim.gang.each != before.gang.each:
                raise InputError(f"{claim.job}: runs already, and its tasks keep what they have")
            self._check_claim(claim)
            if claim.nodes != before.nodes:
                self._give(before, 1, free)
                moved.append(claim)
        for claim in moved:
            self._check_place(claim, free)
            self._give(claim, -1, free)

    def _check_claim(self, claim: Reservation) -> None:
        """Refuse a claim that contradicts itself, or fits no state of this cluster."""
        for index, node in enumerate(claim.nodes):
            if node not in self._nodes:
                raise InputError(f"{claim.job}: nodes[{index}]: there is no node {quote(node)}")
        if len(claim.nodes) != claim.gang.tasks:
            raise InputError(f"{claim.job}: {len(claim.nodes)} nodes for {claim.gang.tasks} tasks")
        if claim.paths:
            self.placement(claim)
        _check_size(claim.job, claim.gang.peak)
        if claim.traffic_class >= self.cluster.traffic_classes:
            highest = self.cluster.traffic_classes - 1
            raise InputError(
                f"{claim.job}: traffic_class: {claim.traffic_class}: the cluster's highest is "
                f"{highest}"
            )
        hyperperiod = self.cluster.hyperperiod
        if hyperperiod % claim.period:
            raise InputError(
                f"{claim.job}: period: {claim.period} slots do not divide the hyperperiod of "
                f"{hyperperiod}; stretch it"
            )
        if claim.offset >= claim.period:
            raise InputError(
                f"{claim.job}: offset: {claim.offset} must be below the period of "
                f"{claim.period} slots"
            )

    # ------------------------------------------------------------------ carrying out

    def _change(self, event: StateEvent) -> None:
        match event:
            case Reserved(claim=claim):
                self.take(claim)
            case Unreserved(job=job):
                self._give_back(self.claims.pop(job))
            case Revised(claims=claims):
                for claim in claims:
                    self._give_back(self.claims[claim.job])
                    self.take(claim)
            case CapacityChanged(link=link, capacity=capacity):
                self.capacity[self._links[link]] = capacity
            case NodeChanged(node=node, up=up):
                self.up[self._nodes[node]] = up
        self.sequence += 1

    def take(self, claim: Reservation) -> None:
        """Take a claim in without asking whether there is room for it, and without a note."""
        crossed = sorted(self.placement(claim).links.items())
        self.claims[claim.job] = claim
        self.crossed[claim.job] = {self._links[link]: count for link, count in crossed}
        self._give(claim, -1, self.free)

    def _give_back(self, claim: Reservation) -> None:
        self._give(claim, 1, self.free)
        del self.crossed[claim.job]

    def _give(self, claim: Reservation, sign: int, free: Ints) -> None:
        each = sign * np.array(claim.gang.each.vector, dtype=np.int64)
        for node in claim.nodes:
            free[self._nodes[node]] += each


def _check_size(where: str, rate: int) -> None:
    """Refuse a bandwidth below 0, or above what numbers have room for."""
    if rate < 0:
        raise InputError(f"{where}: {quote(rate)} Mbit/s: must be at least 0")
    if rate >= _MAX_RATE:
        raise InputError(
            f"{where}: {quote(rate)} Mbit/s: must be below {_MAX_RATE}; use larger units"
        )


def lacking(free: Ints, each: Resources, count: int) -> str | None:
    """Return which resource of a node, free of shape (3,), is short for so many tasks, if any."""
    words = (("GPUs", ""), ("CPU", "m"), ("memory", " MiB"))
    for has, needs, (name, unit) in zip(free.tolist(), each.vector, words, strict=True):
        if count * needs > has:
            return f"{name}: {has}{unit} free, {count * needs}{unit} needed"
    return None
