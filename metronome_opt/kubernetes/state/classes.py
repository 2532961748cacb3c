"""Traffic class of a job that starts, where links serve several in strict order.

NCCL reads its class once, so that running jobs keep theirs. A new job gets the class with the
smallest weighted mean slowdown of itself and the jobs that it shares links with, and with no large
loss of any. Where no other order is surely better, jobs of higher weight are in higher classes.
"""

from __future__ import annotations

from itertools import groupby

from metronome_opt.allocation.slots.classes import follows_weights
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions
from metronome_opt.allocation.slots.simulator import PERIODS
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import instance_of, plan_of
from metronome_opt.scenario.flows import Placement
from metronome_opt.solvers.budget import Budget

_FIRST_SEED = 500_000  # those of searches for slots are others
_SECONDS = 2.0


def in_class(state: ClusterState, reservation: Reservation, placement: Placement) -> Reservation:
    """Return the reservation of a job that starts with the best traffic class.

    A job that shares no links gets a class in the middle: later ones may go before and after it.
    """
    count, name = state.cluster.traffic_classes, reservation.job
    middle = (count - 1) // 2
    reservation = reservation.model_copy(update={"traffic_class": middle})
    met = state.jobs_sharing(placement.links)
    if count == 1 or not met:
        return reservation
    jobs = {**met, name: reservation}
    part = instance_of(state, jobs)
    evaluator = SlotSearchOptions(classes=count).evaluator(
        part, _FIRST_SEED, PERIODS, Budget(_SECONDS)
    )
    plan = plan_of(jobs)

    def breaks_order(other: Plan) -> bool:
        return not follows_weights(part.jobs, other.classes)

    by_distance = sorted(range(count), key=lambda number: abs(number - middle))
    plans = [plan.in_classes({**plan.classes, name: number}) for number in by_distance]
    best = next(filter(evaluator.is_within_loss, plans), plans[0])
    for _, some in groupby(sorted(plans, key=breaks_order), key=breaks_order):
        best = evaluator.best(best, list(some))
    return reservation.model_copy(update={"traffic_class": best.classes.get(name, 0)})
