"""Jobs placed in a cluster, and the cost of one more placement.

The cost is weighted time: what the job runs longer than with a network of its own, and what it and
the jobs that share links with it delay each other for as long as both run. Losses are added up over
pairs of jobs, each taken on the link where the two delay each other most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.problem.instance import Sharing
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration

CANDIDATES = 24
"""Placements of a job whose costs are compared."""

_FAR = 1e-4  # of its length: cost of another rack or switch, which decides between equals

_pair_losses = cache(PairLosses)  # kept from one decision to the next


class StartOption(NamedTuple):
    """A placement of a job, and when it begins there."""

    placement: Placement
    after_ms: float  # time until then; 0 for now
    cost: float  # weighted ms that it costs, its wait included
    # by what share of its best iteration each job is expected to be slower because of this start,
    # the job itself included; jobs that are not slower are omitted
    losses: Mapping[str, float]
    waits_for: str | None = None  # the job whose departure it waits for


class Occupancy:
    """Placed jobs of a cluster, and its free resources, without those of the placed jobs.

    `candidates` placements of a job have their costs compared, 1 for the nearest one only.
    """

    def __init__(
        self,
        resources: CandidatePlacements,
        placed: Iterable[PlacedJob],
        pair_losses: PairLosses,
        candidates: int = CANDIDATES,
    ) -> None:
        self.resources, self.candidates = resources, candidates
        self.placed = {placed_job.job.name: placed_job for placed_job in placed}
        self.pair_losses = pair_losses
        self._users: dict[str, dict[str, None]] = {}
        for placed_job in self.placed.values():
            self._cross_links(placed_job)

    @classmethod
    def of_running(
        cls,
        resources: CandidatePlacements,
        running: Iterable[tuple[JobRequest, Placement]],
        network: Sharing | None = None,
        *,
        gated: bool = False,
        classes: int = 1,
        candidates: int = CANDIDATES,
    ) -> Occupancy:
        """Return the occupancy that a decision begins with.

        Parameters
        ----------
        resources
            What the running jobs leave free.
        running
            The jobs that run, and where.
        network
            How links are shared; as the cluster says if None.
        gated
            Whether two jobs that share links are gated where that makes them faster.
        classes, candidates
            As of `PairLosses`, and of this class.
        """
        network = network or resources.cluster.network
        losses = _pair_losses(network, gated=gated, classes=classes)
        return cls(resources, [PlacedJob(*job) for job in running], losses, candidates)

    def copy(self) -> Occupancy:
        """Return an independent copy."""
        placed = self.placed.values()
        return Occupancy(self.resources.copy(), placed, self.pair_losses, self.candidates)

    def add(self, placed_job: PlacedJob) -> None:
        """Place a job."""
        job, placement = placed_job.job, placed_job.placement
        self.resources.take(placement.nodes, job.task_resources)
        self.placed[job.name] = placed_job
        self._cross_links(placed_job)

    def remove(self, name: str) -> PlacedJob:
        """Remove a job, and return it."""
        placed_job = self.placed.pop(name)
        self.resources.release(placed_job.placement.nodes, placed_job.job.task_resources)
        for link in placed_job.placement.links:
            del self._users[link][name]
        return placed_job

    def start(self, job: JobRequest, placement: Placement, after_ms: float = 0.0) -> StartOption:
        """Return the start of a job at a placement, with what it costs.

        The jobs that are placed are those of then, and their lengths count from now.

        Parameters
        ----------
        after_ms
            Time until the start, ms; 0 for now.
        """
        candidate = PlacedJob(job, placement)
        own = candidate.loss
        far = _FAR * (sum(placement.spans) - len(placement.spans)) if placement.links else 0.0
        cost = job.cost_weight * (after_ms + job.expected_ms * (own + far))
        losses = {job.name: own}
        for name, (mine, theirs) in self.losses_of(candidate).items():
            other = self.placed[name].job
            shared_ms = min(job.expected_ms, max(0.0, other.expected_ms - after_ms))
            cost += shared_ms * (job.cost_weight * mine + other.cost_weight * theirs)
            losses[job.name] += mine
            losses[name] = theirs
        losses = {name: loss for name, loss in losses.items() if loss > 0}
        return StartOption(placement, after_ms, cost, losses)

    def losses_of(self, placed_job: PlacedJob) -> dict[str, tuple[float, float]]:
        """Return the losses of a job and of those on its links, by name of the other job.

        They are shares of best iterations, that of the job first, which may be placed or not.
        """
        losses = {}
        for other in self.sharing_links(placed_job.placement):
            if other.job.name != placed_job.job.name:
                mine, theirs = self._pair_loss(placed_job, other)
                losses[other.job.name] = mine * (1 + placed_job.loss), theirs * (1 + other.loss)
        return losses

    def sharing_links(self, placement: Placement) -> Iterator[PlacedJob]:
        """Yield the jobs on the links of a placement."""
        names: dict[str, None] = {}
        for link in placement.links:
            names |= self._users.get(link, {})
        return (self.placed[name] for name in names)

    def cost_on_link(
        self, link: str, job: JobRequest, profile: Iteration, flows: int
    ) -> tuple[float, float]:
        """Return what a job of some flows and the jobs on a link cost each other, and its load."""
        capacity, cost, load = self.resources.cluster.capacities[link], 0.0, 0.0
        for name in self._users.get(link, ()):
            placed_job = self.placed[name]
            other, its_flows = placed_job.job, placed_job.placement.links[link]
            mine, theirs = self.pair_losses.on_link(
                (profile, flows, job.cost_weight),
                (placed_job.profile, its_flows, other.cost_weight),
                capacity,
            )
            shared_ms = min(job.expected_ms, other.expected_ms)
            cost += shared_ms * (job.cost_weight * mine + other.cost_weight * theirs)
            sent = float(1000 * placed_job.profile.volume) / placed_job.profile.isolated_ms
            load += its_flows * sent / capacity
        return cost, load

    def _pair_loss(self, one: PlacedJob, two: PlacedJob) -> tuple[float, float]:
        """Return by what share two jobs slow each other down."""
        mine = theirs = 0.0
        capacities, its = self.resources.cluster.capacities, two.placement.links
        distinct = {  # links that they share in one way cost as much as one
            (flows, its[link], capacities[link])
            for link, flows in one.placement.links.items()
            if link in its
        }
        for flows, its_flows, capacity in sorted(distinct):
            losses = self.pair_losses.on_link(
                (one.profile, flows, one.job.cost_weight),
                (two.profile, its_flows, two.job.cost_weight),
                capacity,
            )
            mine, theirs = max(mine, losses[0]), max(theirs, losses[1])
        return mine, theirs

    def _cross_links(self, placed_job: PlacedJob) -> None:
        for link in placed_job.placement.links:
            self._users.setdefault(link, {})[placed_job.job.name] = None
