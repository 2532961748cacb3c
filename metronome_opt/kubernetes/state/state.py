"""State of a cluster: free resources, capacities, and the reservations in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.records import explain
from metronome_opt.kubernetes.state.records import Change, Gang, Reservation
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.flows import Placement, compute_placement
from metronome_opt.scenario.free_resources import FreeResources
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.overhead import is_tolerated
from metronome_opt.solvers.kernels.compiled_instance import Ints

_MAX_RATE = 2**30  # Mbit/s of a link or a task: all that is sent on a link then fits 64 bits


class ClusterState:
    """Nodes and links of a cluster, with the reservations in force on them.

    A change is checked in full, then noted, then applied; so one that is refused, or cannot be
    noted, leaves everything as it was.

    Parameters
    ----------
    cluster
        Nodes, links and the grid of time.

    Attributes
    ----------
    note
        Called with a change before it is applied; set by a `Store`.
    reservations, crossed
        In force, by job; and the number of tasks of a job that cross a link, by index of the link.
    sequence
        Number of changes that have been applied.
    resources
        Resources of nodes, the free ones, and whether nodes take tasks.
    others
        What is used there by others, without a claim: no place is looked for in it. It is
        no part of what is kept. Shape (nodes, 3).
    capacity
        Capacity of each link at present, in Mbit/s, shape (links,).
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        for link in cluster.links:
            _check_size(link.name, link.capacity)
        self.cluster = cluster
        self.note: Callable[[Change], None] = lambda _: None
        self.reservations: dict[str, Reservation] = {}
        self.sequence = 0
        self._links = {link.name: index for index, link in enumerate(cluster.links)}
        self.resources = FreeResources(cluster)
        self.others: Ints = np.zeros_like(self.resources.total)
        self.capacity: Ints = np.array([*cluster.capacities.values()], dtype=np.int64)
        self.crossed: dict[str, dict[int, int]] = {}

    # ------------------------------------------------------------------ names and numbers

    @property
    def total(self) -> Ints:
        """GPUs, CPU in millicores and memory in MiB of nodes, shape (nodes, 3)."""
        return self.resources.total

    @property
    def free(self) -> Ints:
        """Resources that reservations leave free, shape (nodes, 3)."""
        return self.resources.free

    @property
    def up(self) -> NDArray[np.bool_]:
        """Whether each node takes tasks, shape (nodes,)."""
        return self.resources.up

    def node_index(self, name: str) -> int:
        """Return the index of a node."""
        if name not in self.resources.index:
            raise InputError(f"there is no node {quote(name)}")
        return self.resources.index[name]

    def link_index(self, name: str) -> int:
        """Return the index of a link."""
        if name not in self._links:
            raise InputError(f"there is no link {quote(name)}")
        return self._links[name]

    def reservation(self, job: str) -> Reservation:
        """Return the reservation of a job that runs."""
        if job not in self.reservations:
            raise InputError(f"there is no job {quote(job)} with a reservation")
        return self.reservations[job]

    @property
    def capacities(self) -> dict[str, int]:
        """Present capacities of all links by name, in Mbit/s."""
        return dict(zip(self._links, self.capacity.tolist(), strict=True))

    def placement(self, reservation: Reservation) -> Placement:
        """Return the flows of a reservation on links."""
        gang = reservation.gang
        paths = self.cluster.steer(reservation.job, reservation.paths)
        with error_context(reservation.job):
            return compute_placement(
                self.cluster,
                reservation.nodes,
                gang.allreduce,
                task_gpus=gang.each.gpus,
                paths=paths,
            )

    def flows(self, job: str) -> Mapping[str, int]:
        """Return the number of tasks of a running job that cross each link."""
        links = self.cluster.links
        return {links[link].name: count for link, count in self.crossed[job].items()}

    def users(self, link: str) -> list[tuple[Reservation, int]]:
        """Return the reservations on a link, with their flows there."""
        index = self.link_index(link)
        crossed = self.crossed.items()
        return [(self.reservations[job], on[index]) for job, on in crossed if index in on]

    def residual(self, link: str) -> Ints:
        """Return the capacity that reservations leave of a link by slot, in Mbit/s, shape (H,)."""
        carried = self.capacity[self.link_index(link)]
        residual: Ints = np.full(self.cluster.hyperperiod, carried, dtype=np.int64)
        for reservation, flows in self.users(link):
            pattern = np.zeros(reservation.period, dtype=np.int64)  # of one flow
            for phase in reservation.gang.phases:
                pattern[phase.start : phase.end] = phase.rate
            rows = residual.reshape(-1, reservation.period)
            rows -= flows * np.roll(pattern, reservation.offset)
        return residual

    def fits(self, gang: Gang) -> Ints:
        """Return the number of tasks of a gang that a node has resources for, shape (nodes,)."""
        spare = self.resources.copy()
        spare.free -= self.others
        return spare.task_counts(gang.each).clip(max=gang.tasks)

    def jobs_on(self, node: str) -> list[str]:
        """Return the jobs that have tasks on a node."""
        return [job for job, held in self.reservations.items() if node in held.nodes]

    # ------------------------------------------------------------------ changes

    def reserve(self, reservation: Reservation) -> bool:
        """Bring a job's reservation into force as a whole; return whether it was not yet.

        Raises
        ------
        InputError
            If the job has another reservation, or there is no room for this one.
        """
        job = reservation.job
        if self.reservations.get(job) == reservation:
            return False
        if job in self.reservations:
            raise InputError(
                f"{job}: has another reservation already; unreserve it first, or rename it"
            )
        self.apply(Change({job: reservation}))
        return True

    def unreserve(self, job: str) -> bool:
        """Give back a job's reservation; return whether it had one."""
        if job not in self.reservations:
            return False
        self.apply(Change({job: None}))
        return True

    def revise(self, reservations: Iterable[Reservation]) -> bool:
        """Change reservations of running jobs, all at once; return whether that changes anything.

        Raises
        ------
        InputError
            If one of them does not run, or would move to where there is no room.
        """
        changed = {new.job: new for new in reservations if self.reservation(new.job) != new}
        if changed:
            self.apply(Change(changed))
        return bool(changed)

    def set_capacity(self, link: str, capacity: int) -> bool:
        """Set the present capacity of a link, in Mbit/s; return whether that is a change."""
        if self.capacity[self.link_index(link)] == capacity:
            return False
        self.apply(Change(capacities={link: capacity}))
        return True

    def set_node(self, node: str, *, up: bool) -> bool:
        """Let a node take tasks from now on, or no more; return whether that is a change."""
        if bool(self.up[self.node_index(node)]) == up:
            return False
        self.apply(Change(up={node: up}))
        return True

    def apply(self, change: Change) -> None:
        """Check a change, note it, and apply it.

        Raises
        ------
        InputError
            If it cannot be; everything is as before. (An exception from outside, Ctrl-C say, may
            come in the middle; the state is then of no use, and `sequence` is as before.)
        """
        self.check(change)
        self.note(change)
        for job, reservation in change.reservations.items():
            before = self.reservations.get(job)
            if before is not None:
                self.resources.release(before.nodes, before.gang.each)
            if reservation is not None:
                self.take(reservation)
            else:
                del self.reservations[job], self.crossed[job]
        for link, capacity in change.capacities.items():
            self.capacity[self._links[link]] = capacity
        for node, up in change.up.items():
            self.up[self.resources.index[node]] = up
        self.sequence += 1

    def take(self, reservation: Reservation) -> None:
        """Add a reservation without asking whether there is room for it, and without a note."""
        crossed = sorted(self.placement(reservation).links.items())
        self.reservations[reservation.job] = reservation
        self.crossed[reservation.job] = {self._links[link]: count for link, count in crossed}
        self.resources.take(reservation.nodes, reservation.gang.each)

    # ------------------------------------------------------------------ checks

    def check(self, change: Change) -> None:
        """Raise an `InputError` of one line if a change cannot happen."""
        resources, placed = self.resources.copy(), []
        for job, reservation in change.reservations.items():
            before = self.reservations.get(job)
            if reservation is None:
                gone = self.reservation(job)
                resources.release(gone.nodes, gone.gang.each)
                continue
            self._check_reservation(reservation)
            if before is not None and reservation.gang.each != before.gang.each:
                raise InputError(f"{job}: runs already, and its tasks keep what they have")
            if before is None or reservation.nodes != before.nodes:
                placed.append(reservation)
                if before is not None:
                    resources.release(before.nodes, before.gang.each)
        for reservation in placed:
            self._check_place(reservation, resources.free)
            resources.take(reservation.nodes, reservation.gang.each)
        for link, capacity in change.capacities.items():
            self.link_index(link)
            _check_size(link, capacity)
        for node in change.up:
            self.node_index(node)

    def restore(self, reservation: Reservation) -> None:
        """Add a reservation that is in force, even if links have no bandwidth for it at present.

        Raises an `InputError` if it fits no state of this cluster.
        """
        job = reservation.job
        if job in self.reservations:
            raise InputError(f"{job}: is there twice")
        self._check_reservation(reservation)
        self.take(reservation)
        for node in reservation.nodes:
            if (self.free[self.resources.index[node]] < 0).any():
                raise InputError(f"{job}: node {node}: has less than its tasks take")

    def _check_place(self, reservation: Reservation, free: Ints) -> None:
        """Refuse a place without room, given the free resources of nodes, of shape (nodes, 3)."""
        gang, nodes, hosts = reservation.gang, reservation.nodes, self.cluster.nodes_by_name
        links = self.placement(reservation).links
        with error_context(reservation.job):
            racks = len({hosts[node].rack for node in nodes})
            if gang.most_racks is not None and racks > gang.most_racks:
                raise InputError(
                    f"nodes: they stand in {racks} racks, and it may span {gang.most_racks}"
                )
            if not is_tolerated(self.cluster, nodes, gang.max_network_cost):
                raise InputError(
                    "nodes: network costs between them are higher than its max_network_cost, "
                    f"{gang.max_network_cost}"
                )
            for node, count in sorted(Counter(nodes).items()):
                index = self.resources.index[node]
                short = lacking(free[index], gang.each, count) if self.up[index] else "is down"
                if short is not None:
                    raise InputError(f"node {node}: {short}")
            for link, count in links.items():
                asked, capacity = count * gang.peak, self.capacity[self._links[link]]
                if asked > capacity:
                    raise InputError(f"{link}: {asked} Mbit/s asked for, {capacity} to be had")

    def _check_reservation(self, reservation: Reservation) -> None:
        """Refuse a reservation that contradicts itself, or fits no state of this cluster."""
        gang, nodes, period = reservation.gang, reservation.nodes, reservation.period
        with error_context(reservation.job):
            try:  # records are validated when they are made, but not when copied with changes
                Reservation.model_validate(reservation.model_dump(warnings=False))
            except ValidationError as error:
                raise InputError(explain(error)) from None
            for index, node in enumerate(nodes):
                if node not in self.resources.index:
                    raise InputError(f"nodes[{index}]: there is no node {quote(node)}")
            if len(nodes) != gang.tasks:
                raise InputError(f"{len(nodes)} nodes for {gang.tasks} tasks")
            highest = self.cluster.traffic_classes - 1
            if reservation.traffic_class > highest:
                raise InputError(
                    f"traffic_class: {reservation.traffic_class}: the cluster's highest is "
                    f"{highest}"
                )
            hyperperiod = self.cluster.hyperperiod
            if hyperperiod % period:
                raise InputError(
                    f"period: {period} slots do not divide the hyperperiod of {hyperperiod}; "
                    "stretch it"
                )
            if reservation.offset >= period:
                raise InputError(
                    f"offset: {reservation.offset} must be below the period of {period} slots"
                )
        if reservation.paths:
            self.placement(reservation)
        _check_size(reservation.job, gang.peak)


def _check_size(where: str, rate: int) -> None:
    """Refuse a bandwidth below 0, or too large for sums of 64 bits."""
    if rate < 0:
        raise InputError(f"{where}: {quote(rate)} Mbit/s: must be at least 0")
    if rate >= _MAX_RATE:
        raise InputError(
            f"{where}: {quote(rate)} Mbit/s: must be below {_MAX_RATE}; use larger units"
        )


def lacking(free: Ints, each: Resources, count: int) -> str | None:
    """Return which resource of a node, free of shape (3,), is short for `count` tasks, if any."""
    words = (("GPUs", ""), ("CPU", "m"), ("memory", " MiB"))
    for has, needs, (name, unit) in zip(free.tolist(), each.vector, words, strict=True):
        if count * needs > has:
            return f"{name}: {has}{unit} free, {count * needs}{unit} needed"
    return None
