"""The Kubernetes proposal to the letter, by the code that a cluster would run."""

from __future__ import annotations

from collections.abc import Sequence

from metronome_opt.errors import InputError
from metronome_opt.scenario.rounding import to_slots
from metronome_opt.scheduling.cluster import ClusterSpec
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.option import make_option
from metronome_opt.scheduling.place import place_job
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.simulate.cluster import Machines, Placement
from metronome_opt.simulate.engine import Manner, Slot
from metronome_opt.simulate.jobs import TrainingJob
from metronome_opt.simulate.policies.plain import Default
from metronome_opt.simulate.state import Order, Placed, State

_SLOT_MS = 5
_HYPERPERIOD = 5040  # slots, 25.2 s; it has 60 divisors, so that most iterations nearly are one
_MOST_IDLE = 0.1  # of an iteration; a job that would have to idle longer keeps no slot


class Proposal(Default):
    """Filter, score, normalise and reserve on a cluster whose links all repeat together.

    A job's place and rotation are the best there are beside the claims in force; nobody else is
    moved. Where a job would have to idle for too long to keep in step with the hyperperiod, it has
    a claim, by which others avoid it, and keeps no slot.

    Source: kubernetes-sigs/scheduler-plugins issue 955.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._cluster: ClusterState | None = None

    def place(self, job: TrainingJob, state: State) -> Placement | None:
        """Return the best place of all; None where links or GPUs have no room."""
        machines = state.machines
        # Before the place is known, so is not how many tasks share an interface: at worst all do.
        rate = max(1, machines.nic // max(machines.cluster.gpus, 1))
        cluster = self._claims(machines)
        decision = place_job(cluster, _gang(job, rate))
        if decision is not None:
            return machines.placement(decision.claim.nodes)
        return None if state.running else super().place(job, state)

    def plan(self, state: State, came: Sequence[int], left: Sequence[Placed]) -> list[Order]:
        """Reserve claims for those that came, give back those of who left."""
        cluster = self._claims(state.machines)
        for placed in left:
            cluster.unreserve(placed.job.name)
        orders = []
        for index in came:
            placed = state.running[index]
            gang = _gang(placed.job, placed.placement.rate)
            cycle = Cycle(cluster, gang)
            nodes = [cluster.node_index(node) for node in placed.placement.nodes]
            claim = make_option(cycle, cycle.partial(nodes)).claim(cycle)
            try:
                cluster.reserve(claim)
            except InputError:
                continue  # its own tasks ask for more than a link carries: it runs unclaimed
            if placed.placement.links and claim.period <= (1 + _MOST_IDLE) * _busy(gang):
                period_ms = float(claim.period * _SLOT_MS)
                wait = (claim.offset * _SLOT_MS - state.now) % period_ms
                slot = Slot(period_ms, 0.0, Manner.SLIDE, state.engine.new_group())
                orders.append(Order(index, slot, state.now + wait))
        return orders

    def _claims(self, machines: Machines) -> ClusterState:
        if self._cluster is None:
            spec = ClusterSpec.of_cluster(
                "simulated", machines.cluster, _SLOT_MS, _SLOT_MS * _HYPERPERIOD
            )
            self._cluster = ClusterState(spec)
        return self._cluster


def _busy(gang: Gang) -> int:
    return max(phase.end for phase in gang.phases)


def _gang(job: TrainingJob, rate: int) -> Gang:
    """Return a job as one that asks for a place, its tasks sending at up to a rate."""
    rounded = to_slots(job.claimed_iteration(rate), _SLOT_MS, _HYPERPERIOD)
    return Gang(
        name=job.name,
        tasks=job.work.workers,
        period=rounded.period,
        phases=rounded.phases,
        weight=job.work.priority,
    )
