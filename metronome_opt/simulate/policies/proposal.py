"""The Kubernetes proposal to the letter, by the code that a cluster would run."""

from __future__ import annotations

from collections.abc import Sequence

from metronome_opt.errors import InputError
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scenario.network import Resources
from metronome_opt.scheduling.cycle import Cycle, decide
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.place import place_job
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.simulate.cluster import Placement
from metronome_opt.simulate.policies.plain import Default
from metronome_opt.simulate.runner import Lateness, Slot
from metronome_opt.simulate.state import Order, Running, SimState, TrainingJob

_SLOT_MS = 5
_HYPERPERIOD = 5040  # slots, 25.2 s; it has 60 divisors, so that most iterations nearly are one
_MOST_IDLE = 0.1  # of an iteration; a job that would have to idle longer keeps no slot


class Proposal(Default):
    """Filter, score, normalise and reserve on a cluster whose links all repeat together.

    A job's place and rotation are the best there are beside the claims in force; nobody else is
    moved. Where a job would have to idle for too long to keep in step with the hyperperiod, it has
    a claim, by which others avoid it, and keeps no slot. Contention comes first, not compatibility:
    that is how the proposal scores.

    Source: kubernetes-sigs/scheduler-plugins issue 955.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._cluster: ClusterState | None = None

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the best place of all; None where links or GPUs have no room."""
        machines = state.machines
        # Before the place is known, so is not how many tasks share an interface: at worst all do.
        most = max(machines.network.gpus_of.values()) // job.work.each.gpus
        rate = max(1, machines.network.nic // max(most, 1))
        cluster = self._claims(state)
        decision = place_job(cluster, _gang(job, rate), first="contention")
        if decision is not None:
            return machines.placement(decision.claim.nodes, job.work)
        return None if state.running else super().place(job, state)

    def plan(self, state: SimState, came: Sequence[int], left: Sequence[Running]) -> list[Order]:  # noqa: ARG002
        """Give slots to those that came, and to those that they meet.

        A job keeps its slot from when it first shares a link on which that matters.
        """
        cluster = self._claims(state)
        meeting = (near for index in came if len(near := state.near(index)) > 1)
        members = dict.fromkeys(index for near in meeting for index in near)
        orders = (
            self._order(cluster, state, index)
            for index in members
            if index in came or state.running[index].slot is None
        )
        return [order for order in orders if order is not None]

    def _order(self, cluster: ClusterState, state: SimState, index: int) -> Order | None:
        """Return the slot of a job, None if it would have to idle for too long to keep it."""
        placed = state.running[index]
        claim = cluster.claim(placed.job.name)
        alone = placed.job.claimed_iteration(placed.placement.rate).to_slots(_SLOT_MS)
        if claim.period > (1 + _MOST_IDLE) * alone.period:
            return None
        period_ms = float(claim.period * _SLOT_MS)
        start = state.can_start(index)
        wait = (claim.offset * _SLOT_MS - start) % period_ms
        slot = Slot(period_ms, 0.0, Lateness.SLIDE, state.engine.new_group())
        return Order(index, slot, start + wait)

    def _claims(self, state: SimState) -> ClusterState:
        """Return the claims of all jobs that run, and of nobody else."""
        if self._cluster is None:
            spec = ClusterSpec.of_cluster(
                "simulated", state.machines.network, _SLOT_MS, _SLOT_MS * _HYPERPERIOD
            )
            self._cluster = ClusterState(spec)
        cluster = self._cluster
        running = {placed.job.name: placed for placed in state.running.values()}
        for job in [job for job in cluster.claims if job not in running]:
            cluster.unreserve(job)
        for job, placed in running.items():
            gang = _gang(placed.job, placed.placement.rate)
            known = cluster.claims.get(job)
            if known is not None and known.gang == gang:
                continue
            cluster.unreserve(job)  # what it claimed has been put right
            cycle = Cycle(cluster, gang, first="contention")
            nodes = [cluster.node_index(node) for node in placed.placement.nodes]
            # It runs there, even if its own tasks ask for more than a link carries.
            claim = decide(cycle, cycle.partial(nodes)).claim
            cluster.take(claim.model_copy(update={"nodes": placed.placement.nodes}))
        return cluster


def _gang(job: TrainingJob, rate: int) -> Gang:
    """Return a job as one that asks for a place, its tasks sending at up to a rate."""
    claimed = job.claimed_iteration(rate)
    if claimed.duration > _SLOT_MS * _HYPERPERIOD:
        raise InputError(
            f"jobs[{job.index}].{_lengthened_by(job)}: an iteration takes "
            f"{float(claimed.duration):.0f} ms, more than the hyperperiod of "
            f"{_SLOT_MS * _HYPERPERIOD} ms of policy 'proposal'; lower it"
        )
    rounded = claimed.to_slots(_SLOT_MS, _HYPERPERIOD)
    return Gang(
        name=job.name,
        tasks=job.work.workers,
        each=Resources(gpus=job.work.each.gpus),
        allreduce=job.work.algorithm,
        period=rounded.period,
        phases=rounded.phases,
        weight=job.work.priority,
    )


def _lengthened_by(job: TrainingJob) -> str:
    """Return the place of what makes an iteration long, with its value."""
    if job.work.stated is not None:
        return f"traffic.period_ms: {float(job.work.stated.period_ms):g}"
    return f"model: {job.work.model}" if job.work.is_measured else f"batch: {job.work.batch}"
