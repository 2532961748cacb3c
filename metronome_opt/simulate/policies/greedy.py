"""A new job where its best rotation gets in others' way least, and in that rotation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from metronome_opt.simulate.cluster import Placement, candidates
from metronome_opt.simulate.policies.plain import Default, network_cost
from metronome_opt.simulate.policies.rotation import best_rotation, newcomer
from metronome_opt.simulate.runner import Manner
from metronome_opt.simulate.state import Order, Placed, State, TrainingJob

CANDIDATES = 12


class MetronomeGreedy(Default):
    """Scores candidate placements by the best rotation there: compatibility before contention.

    That is, by the links to whose contention the job adds, then by how much. A task that gets less
    than its interface because of its own job's other tasks counts as slowed down with the latter.
    Ties are broken by network cost. Running jobs stay where they are. The job keeps its slot as
    long as it can; once late, it goes on from where it is.

    Source: kubernetes-sigs/scheduler-plugins issue 955, Score and NormalizeScore, but for the
    compatibility.
    """

    def place(self, job: TrainingJob, state: State) -> Placement | None:
        """Return the candidate of least price."""
        return min(
            candidates(state.machines, job.work.workers, CANDIDATES, job.work.each.gpus),
            key=lambda placement: (*_price(job, placement, state), network_cost(placement)),
            default=None,
        )

    def plan(self, state: State, came: Sequence[int], left: Sequence[Placed]) -> list[Order]:  # noqa: ARG002
        """Give each new job its best offset, and those without a slot theirs as it is."""
        orders = []
        for index in came:
            crowd = newcomer(state, index)
            if crowd is None:
                continue
            offsets = [job.fixed_offset or 0 for job in crowd.instance.jobs]
            offsets[crowd.members.index(index)] = best_rotation(crowd, index)[0]
            group = state.engine.new_group()
            for member, start in zip(crowd.members, crowd.starts(offsets, turn=False), strict=True):
                if member == index or state.running[member].slot is None:
                    slot = crowd.slot(member, manner=Manner.SLIDE, group=group)
                    orders.append(Order(member, slot, start))
        return orders


def _price(job: TrainingJob, placement: Placement, state: State) -> tuple[int, Fraction]:
    """Return the conflicts there, and the weighted slowdown of the job and of others, about.

    The contention that is added over the rate of an interface is the share of time that is lost.
    """
    own = (job.pattern(placement.rate).duration / job.ideal.duration - 1) * job.work.priority
    if not placement.links:
        return 0, own
    with state.trying(Placed(job, placement)):
        crowd = newcomer(state, job.index)
        if crowd is None:
            return 0, own
        conflicts, added = best_rotation(crowd, job.index)[1]
        return conflicts, own + added / state.machines.nic
