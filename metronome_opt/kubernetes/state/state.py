"""State of a cluster: free resources, capacities, and the reservations in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Self

import numpy as np
from pydantic import ValidationError

from metronome_opt.errors import InputError, error_context, format_path, quote
from metronome_opt.files.records import explain
from metronome_opt.kubernetes.state.records import Change, Gang, Reservation, StateSnapshot
from metronome_opt.problem.instance import Link
from metronome_opt.scenario.cluster import Cluster, Paths
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.flows import Placement, compute_placement
from metronome_opt.scenario.free_resources import FreeResources
from metronome_opt.scenario.nodes import Resources
from metronome_opt.solvers.demand import slot_rates
from metronome_opt.solvers.kernels.compiled_instance import Ints

_MAX_RATE = 2**30  # Mbit/s of a link or a task: all that is sent on a link then fits 64 bits


def _note_nothing(_: Change) -> None:
    """Take a change of a state that is in no file."""


class ClusterState(FreeResources):
    """Nodes and links of a cluster, with the reservations in force on them.

    A change is made in a copy, then noted, then taken from there; so one that is refused, or cannot
    be noted, leaves everything as it was.

    Parameters
    ----------
    spec
        Nodes, links and the grid of time.

    Attributes
    ----------
    note
        Called with a change before it is applied; set by a `Store`.
    reservations, flows
        In force, by job; and the number of tasks of each job that cross a link, by link.
    sequence
        Number of changes that have been applied.
    others
        What others use of nodes, without a claim: no job is placed there. It is not kept. Shape
        (nodes, 3).
    capacities
        Present capacity of each link, in Mbit/s.
    """

    cluster: ClusterSpec

    def __init__(self, spec: ClusterSpec) -> None:
        for link in spec.links:
            _check_size(link.name, link.capacity)
        super().__init__(spec)
        self.note: Callable[[Change], None] = _note_nothing
        self.reservations: dict[str, Reservation] = {}
        self.sequence = 0
        self.others: Ints = np.zeros_like(self.total)
        self.capacities = dict(spec.capacities)
        self.flows: dict[str, Mapping[str, int]] = {}

    def copy(self) -> Self:
        """Return an independent state whose changes are noted nowhere."""
        other = super().copy()
        other.note = _note_nothing
        other.up, other.capacities = self.up.copy(), dict(self.capacities)
        other.reservations, other.flows = dict(self.reservations), dict(self.flows)
        return other

    # ------------------------------------------------------------------ names and numbers

    def node_index(self, name: str) -> int:
        """Return the index of a node."""
        if name not in self.index:
            raise InputError(f"there is no node {quote(name)}")
        return self.index[name]

    def reservation(self, job: str) -> Reservation:
        """Return the reservation of a job that runs."""
        if job not in self.reservations:
            raise InputError(f"there is no job {quote(job)} with a reservation")
        return self.reservations[job]

    @property
    def present(self) -> Cluster:
        """The cluster with what links carry now."""
        if self.cluster.capacities == self.capacities:
            return self.cluster
        fields = {field: getattr(self.cluster, field) for field in Cluster.model_fields}
        links = tuple(  # 0 is no capacity of a file
            Link.model_construct(name=name, capacity=capacity)
            for name, capacity in self.capacities.items()
        )
        return Cluster.model_construct(**{**fields, "links": links, "background": {}})

    def placement_at(self, gang: Gang, nodes: Sequence[str], paths: Paths = ()) -> Placement:
        """Return the flows of a gang on links, by paths if these were chosen."""
        steer = self.cluster.steer(gang.name, paths)
        with error_context(gang.name):
            return compute_placement(
                self.cluster, nodes, gang.allreduce, task_gpus=gang.each.gpus, paths=steer
            )

    def placement(self, held: Reservation) -> Placement:
        """Return the flows of a reservation on links."""
        return self.placement_at(held.gang, held.nodes, held.paths)

    def users(self, link: str) -> list[tuple[Reservation, int]]:
        """Return the reservations on a link, with their flows there."""
        flows = self.flows.items()
        return [(self.reservations[job], on[link]) for job, on in flows if link in on]

    @property
    def cut_off(self) -> dict[str, list[str]]:
        """The jobs that have no network, each with the links on its way that carry nothing."""
        failed = {link for link, mbps in self.capacities.items() if not mbps}
        flows = self.flows.items() if failed else ()
        return {job: sorted(failed & on.keys()) for job, on in flows if failed & on.keys()}

    def jobs_sharing(self, links: Collection[str]) -> dict[str, Reservation]:
        """Return the reservations on any of some links, by job."""
        flows = self.flows.items()
        return {job: self.reservations[job] for job, on in flows if not on.keys().isdisjoint(links)}

    def residual(self, link: str) -> Ints:
        """Return the capacity that reservations leave of a link by slot, in Mbit/s, shape (H,)."""
        residual: Ints = np.full(self.cluster.hyperperiod, self.capacities[link], dtype=np.int64)
        for held, flows in self.users(link):
            rows = residual.reshape(-1, held.period)
            rows -= flows * slot_rates(held.gang.phases, held.period, held.offset)
        return residual

    def fits(self, gang: Gang) -> Ints:
        """Return the number of tasks of a gang that a node has resources for, shape (nodes,)."""
        spare = self.copy()
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
        if self.reservations.get(job, reservation) != reservation:
            raise InputError(
                f"{job}: has another reservation already; unreserve it first, or rename it"
            )
        return self.apply(Change({job: reservation}))

    def unreserve(self, job: str) -> bool:
        """Give back a job's reservation; return whether it had one."""
        return self.apply(Change({job: None}))

    def revise(self, reservations: Iterable[Reservation]) -> bool:
        """Change reservations of running jobs, all at once; return whether that changes anything.

        Raises
        ------
        InputError
            If one of them does not run, or would move to where there is no room.
        """
        revised = {new.job: new for new in reservations}
        for job in revised:
            self.reservation(job)
        return self.apply(Change(revised))

    def set_capacity(self, link: str, capacity: int) -> bool:
        """Set the present capacity of a link, in Mbit/s; return whether that is a change."""
        return self.apply(Change(capacities={link: capacity}))

    def set_node(self, node: str, *, up: bool) -> bool:
        """Let a node take tasks from now on, or no more; return whether that is a change."""
        return self.apply(Change(up={node: up}))

    def apply(self, change: Change) -> bool:
        """Check a change, note it, and apply it; return whether it differs from the state.

        Raises
        ------
        InputError
            If it cannot be; everything is as before. (After an exception from outside, Ctrl-C say,
            it may be noted; the state is then of no use, and `sequence` is as before.)
        """
        held, carried, up = self.reservations, self.capacities, self.up
        change = Change(
            {job: new for job, new in change.reservations.items() if held.get(job) != new},
            {link: mbps for link, mbps in change.capacities.items() if carried.get(link) != mbps},
            {node: its for node, its in change.up.items() if up[self.node_index(node)] != its},
        )
        if not any(change):
            return False
        after = self.copy()
        after._carry_out(change)
        self.note(change)
        self.__dict__ |= {**after.__dict__, "note": self.note}
        return True

    def check(self, change: Change) -> None:
        """Raise an `InputError` of one line if a change cannot happen."""
        self.copy()._carry_out(change)

    def _carry_out(self, change: Change) -> None:
        """Change this state; it is of no use after an error."""
        self._carry_out_reservations(change.reservations)
        for link, capacity in change.capacities.items():
            if link not in self.capacities:
                raise InputError(f"there is no link {quote(link)}")
            _check_size(link, capacity)
            self.capacities[link] = capacity
        for node, up in change.up.items():
            self.up[self.node_index(node)] = up
        self.sequence += 1

    def _carry_out_reservations(self, reservations: Mapping[str, Reservation | None]) -> None:
        placed = []
        for job, new in reservations.items():
            old = self.reservation(job) if new is None else self.reservations.get(job)
            if new is not None:
                self._check_reservation(new)
            if old is not None:
                self.release(old.nodes, old.gang.each)
            if new is None:
                del self.reservations[job], self.flows[job]
            elif old and (new.nodes, new.gang.each) == (old.nodes, old.gang.each):
                self.add(new)
            else:
                placed.append(new)
        for new in placed:
            self._check_place(new)
            self.add(new)

    def add(self, reservation: Reservation) -> None:
        """Add a reservation, whether or not there is room for it, without a note."""
        self.flows[reservation.job] = self.placement(reservation).links
        self.reservations[reservation.job] = reservation
        self.take(reservation.nodes, reservation.gang.each)

    # ------------------------------------------------------------------ checks

    def _check_place(self, reservation: Reservation) -> None:
        """Refuse a placement without room."""
        gang, nodes = reservation.gang, reservation.nodes
        links = self.placement(reservation).links
        with error_context(reservation.job):
            if (fault := gang.limits.violation(self.cluster, nodes)) is not None:
                raise InputError(f"nodes: {fault}")
            for node, count in sorted(Counter(nodes).items()):
                index = self.index[node]
                free = self.free[index]
                short = lacking(free, gang.each, count) if self.up[index] else "is down"
                if short is not None:
                    raise InputError(f"node {node}: {short}")
            for link, count in links.items():
                asked, capacity = count * gang.peak, self.capacities[link]
                if asked > capacity:
                    raise InputError(f"{link}: {asked} Mbit/s asked for, {capacity} to be had")

    def _check_reservation(self, reservation: Reservation) -> None:
        """Refuse a reservation that contradicts itself, or fits no state of this cluster."""
        gang, nodes, period = reservation.gang, reservation.nodes, reservation.period
        highest, hyperperiod = self.cluster.traffic_classes - 1, self.cluster.hyperperiod
        with error_context(reservation.job):
            try:  # records are validated when they are made, but not when copied with changes
                Reservation.model_validate(reservation.model_dump(warnings=False))
            except ValidationError as error:
                raise InputError(explain(error)) from None
            for index, node in enumerate(nodes):
                with error_context(f"nodes[{index}]"):
                    self.node_index(node)
            if len(nodes) != gang.tasks:
                raise InputError(f"{len(nodes)} nodes for {gang.tasks} tasks")
            if (its := reservation.traffic_class) > highest:
                raise InputError(f"traffic_class: {its}: the cluster's highest is {highest}")
            if hyperperiod % period:
                raise InputError(
                    f"period: {period} slots do not divide the hyperperiod of {hyperperiod}; "
                    "stretch it"
                )
            if (offset := reservation.offset) >= period:
                raise InputError(f"offset: {offset} must be below the period of {period} slots")
        if reservation.paths:
            self.placement(reservation)
        _check_size(reservation.job, gang.peak)

    # ------------------------------------------------------------------ documents

    @property
    def snapshot(self) -> StateSnapshot:
        """The state as a document."""
        nominal, capacities = self.cluster.capacities, self.capacities.items()
        return StateSnapshot(
            cluster=self.cluster,
            sequence=self.sequence,
            claims=tuple(self.reservations.values()),
            capacities={link: mbps for link, mbps in capacities if mbps != nominal[link]},
            down=tuple(node for node, up in zip(self.names, self.up, strict=True) if not up),
        )

    @classmethod
    def of_snapshot(cls, snapshot: StateSnapshot) -> Self:
        """Build a state from its document.

        Reservations stay in force even if links have no bandwidth for them at present.

        Raises
        ------
        InputError
            If the document contradicts itself.
        """
        state = cls(snapshot.cluster)
        for index, reservation in enumerate(snapshot.claims):
            job = reservation.job
            with error_context(f"claims[{index}]"):
                if job in state.reservations:
                    raise InputError(f"{job}: is there twice")
                state._check_reservation(reservation)
                state.add(reservation)
                for node in reservation.nodes:
                    if (state.free[state.index[node]] < 0).any():
                        raise InputError(f"{job}: node {node}: has less than its tasks take")
        for link, capacity in snapshot.capacities.items():
            with error_context(format_path(["capacities", link])):
                state.apply(Change(capacities={link: capacity}))
        for index, node in enumerate(snapshot.down):
            with error_context(f"down[{index}]"):
                state.apply(Change(up={node: False}))
        state.sequence = snapshot.sequence
        return state


def _check_size(where: str, rate: int) -> None:
    """Refuse a bandwidth below 0, or too large for sums of 64 bits."""
    if rate < 0:
        raise InputError(f"{where}: {quote(rate)} Mbit/s: must be at least 0")
    if rate >= _MAX_RATE:
        raise InputError(
            f"{where}: {quote(rate)} Mbit/s: must be below {_MAX_RATE}; use larger units"
        )


def lacking(free: Ints, task_resources: Resources, count: int) -> str | None:
    """Return which resource of a node, free of shape (3,), is short for `count` tasks, if any."""
    words = (("GPUs", ""), ("CPU", "m"), ("memory", " MiB"))
    for has, needs, (name, unit) in zip(free.tolist(), task_resources.vector, words, strict=True):
        if count * needs > has:
            return f"{name}: {has}{unit} free, {count * needs}{unit} needed"
    return None
