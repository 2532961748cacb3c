"""The cluster at a moment: what is free, what the links carry, and the claims in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, show
from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.admission import check_event, check_fields, check_layers, check_size
from metronome_opt.scheduling.claim import (
    CapacityChanged,
    Claim,
    Event,
    NodeChanged,
    Reserved,
    Revised,
    Unreserved,
)
from metronome_opt.scheduling.cluster import ClusterSpec
from metronome_opt.scheduling.demand import Demand
from metronome_opt.scheduling.gang import flows_of

Mode = Literal["shared", "exclusive"]


class ClusterState:
    """Nodes and links of a cluster, with the claims that are in force on them.

    Whatever changes it is an event. An event is checked in full first, then noted, then carried
    out; so one that is refused, or cannot be noted, leaves everything as it was. What an event
    costs depends on what it changes, not on how large the cluster is; only the first job of a
    weight class and the last one add a layer to all links, or drop one.

    Parameters
    ----------
    cluster
        Nodes, links and the grid of time.
    mode
        ``shared``: jobs may share links, in turns. ``exclusive``: the bandwidth of a job's bursts
        is its own for as long as it runs, as schedulers have it that do not know of time.
    note
        Called with each event before it is carried out: a journal, say.

    Attributes
    ----------
    cluster, mode, note
        As above.
    claims
        In force, by job.
    sequence
        How many events have been carried out.
    total, free
        GPUs, CPU in millicores and memory in MiB, in all and free, shape (nodes, 3).
    up
        Whether a node takes tasks, shape (nodes,).
    interface, uplink, rack
        Of each node, as indices, shape (nodes,); an uplink of -1 for none. Nodes that are in no
        rack count as one.
    capacity
        What each link carries, Mbit/s, shape (links,).
    demand
        What the claims put on the links.
    crossed
        How many tasks of each job cross which link, by job and index of the link.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        *,
        mode: Mode = "shared",
        note: Callable[[Event], None] | None = None,
    ) -> None:
        for link in cluster.links:
            check_size(link.name, link.capacity)
        check_layers(cluster)
        self.cluster, self.mode, self.note = cluster, mode, note
        self.claims: dict[str, Claim] = {}
        self.sequence = 0
        self._links = {link.name: index for index, link in enumerate(cluster.links)}
        self._nodes = {node.name: index for index, node in enumerate(cluster.nodes)}
        racks = {name: index for index, name in enumerate(dict.fromkeys(_racks(cluster)))}
        ways = [cluster.links_of(node) for node in cluster.nodes]
        self.total: Ints = np.array([node.has.vector for node in cluster.nodes], dtype=np.int64)
        self.free: Ints = self.total.copy()
        self.up: NDArray[np.bool_] = np.ones(len(cluster.nodes), dtype=np.bool_)
        self.rack = _ints(racks[rack] for rack in _racks(cluster))
        self.interface = _ints(self._links[links[0]] for links in ways)
        self.uplink = _ints(self._links[links[1]] if len(links) > 1 else -1 for links in ways)
        self.capacity = _ints(link.capacity for link in cluster.links)
        self.demand = Demand(len(cluster.links), cluster.hyperperiod)
        self.crossed: dict[str, dict[int, int]] = {}

    # ------------------------------------------------------------------ names and numbers

    def node_index(self, name: str) -> int:
        """Return the index of a node."""
        if name not in self._nodes:
            raise InputError(f"there is no node {show(name)}")
        return self._nodes[name]

    def link_index(self, name: str) -> int:
        """Return the index of a link."""
        if name not in self._links:
            raise InputError(f"there is no link {show(name)}")
        return self._links[name]

    def claim(self, job: str) -> Claim:
        """Return the claim of a job that runs."""
        if job not in self.claims:
            raise InputError(f"there is no job {show(job)} with claims in force")
        return self.claims[job]

    def flows(self, job: str) -> Mapping[str, int]:
        """Return how many tasks of a job in force cross each link."""
        links = self.cluster.links
        return {links[link].name: count for link, count in self.crossed[job].items()}

    def peak(self, link: str) -> int:
        """Return what the jobs on a link would send if all burst at once, in Mbit/s."""
        return int(self.demand.peaks[self.link_index(link)])

    def room(self, link: str) -> int:
        """Return how fast one more job may send on a link, in Mbit/s."""
        capacity = int(self.capacity[self.link_index(link)])
        return max(0, capacity - self.peak(link)) if self.mode == "exclusive" else capacity

    def residual(self, link: str) -> Ints:
        """Return what a link could carry beside its claims, slot by slot.

        Shape (H,), in Mbit/s; negative where they ask for more than there is.
        """
        index = self.link_index(link)
        residual: Ints = self.capacity[index] - self.demand.layers[index, 0].astype(np.int64)
        return residual

    def contention(self) -> Fraction:
        """Return the contention of the claims in force, in weight * Mbit/s."""
        return self.demand.contention(self.capacity)

    # ------------------------------------------------------------------ what may happen

    def reserve(self, claim: Claim) -> bool:
        """Bring all claims of a job into force, or none.

        Returns
        -------
        bool
            Whether it was not so already.

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

    def revise(self, claims: Iterable[Claim]) -> bool:
        """Change what running jobs claim, all at once; return whether that changes anything.

        Raises
        ------
        InputError
            If one of them does not run, would run elsewhere, or would have bandwidth that an
            exclusive cluster has given to others.
        """
        changed = tuple(claim for claim in claims if self.claims.get(claim.job) != claim)
        if changed:
            self.apply(Revised(claims=changed))
        return bool(changed)

    def set_capacity(self, link: str, capacity: int) -> bool:
        """Let a link carry so many Mbit/s from now on; return whether that is a change.

        Raises
        ------
        InputError
            If it is not known, or the number out of range.
        """
        if self.capacity[self.link_index(link)] == capacity:
            return False
        check_size(link, capacity)
        self.apply(CapacityChanged(link=link, capacity=capacity))
        return True

    def set_node(self, node: str, *, up: bool) -> bool:
        """Let a node take tasks from now on, or no more; return whether that is a change."""
        if bool(self.up[self.node_index(node)]) == up:
            return False
        self.apply(NodeChanged(node=node, up=up))
        return True

    @property
    def fragments(self) -> int:
        """How many GPUs are free on nodes that are in use: no large job can have them together."""
        free, total = self.free[:, 0], self.total[:, 0]
        return int(free[free < total].sum())

    def jobs_on(self, node: str) -> list[str]:
        """Return the jobs that have tasks on a node."""
        return [job for job, claim in self.claims.items() if node in claim.nodes]

    def apply(self, event: Event) -> None:
        """Check an event, note it, and carry it out.

        Raises
        ------
        InputError
            If it cannot be; everything is as before. (An exception from outside, Ctrl-C say, may
            come in the middle; the state is then of no use, and `sequence` is as before.)
        """
        check_fields(event)
        check_event(self, event)
        if self.note is not None:
            self.note(event)
        self._carry_out(event)

    def replay(self, event: Event) -> None:
        """Carry out an event that was noted before, and read back as a valid record.

        Raises
        ------
        InputError
            If it cannot be; everything is as before.
        """
        check_event(self, event)
        self._carry_out(event)

    # ------------------------------------------------------------------ carrying out

    def _carry_out(self, event: Event) -> None:
        match event:
            case Reserved(claim=claim):
                self.take(claim)
            case Unreserved(job=job):
                self._release(job)
            case Revised(claims=claims):
                for claim in claims:
                    self._replace(claim)
            case CapacityChanged(link=link, capacity=capacity):
                self.capacity[self._links[link]] = capacity
            case NodeChanged(node=node, up=up):
                self.up[self._nodes[node]] = up
        self.sequence += 1

    def take(self, claim: Claim) -> None:
        """Take a claim in without asking whether there is room for it, and without a note."""
        crossed = flows_of(self.cluster, claim.nodes)
        flows = {self._links[link]: count for link, count in crossed.items()}
        self.claims[claim.job] = claim
        self.crossed[claim.job] = flows
        self._give(claim, -1)
        self.demand.put(claim, flows, 1)

    def _release(self, job: str) -> None:
        claim = self.claims.pop(job)
        self._give(claim, 1)
        self.demand.put(claim, self.crossed.pop(job), -1)

    def _replace(self, claim: Claim) -> None:
        flows = self.crossed[claim.job]
        self.demand.put(self.claims[claim.job], flows, -1)
        self.demand.put(claim, flows, 1)
        self.claims[claim.job] = claim

    def _give(self, claim: Claim, sign: int) -> None:
        each = sign * np.array(claim.gang.each.vector, dtype=np.int64)
        for node in claim.nodes:
            self.free[self._nodes[node]] += each


def _racks(cluster: ClusterSpec) -> list[str | None]:
    return [node.rack for node in cluster.nodes]


def _ints(numbers: Iterable[int]) -> Ints:
    return np.array(list(numbers), dtype=np.int64)
