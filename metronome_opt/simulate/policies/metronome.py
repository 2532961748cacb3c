"""Metronome: the decisions of `allocation`, as the controller asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Literal

from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.meetings import Meetings
from metronome_opt.allocation.moves import decide_moves
from metronome_opt.allocation.occupancy import CANDIDATES, Occupancy, Placed
from metronome_opt.allocation.rollout import Arrivals
from metronome_opt.allocation.starts import Waiting, decide_starts
from metronome_opt.engine.runner import Lateness, Slot
from metronome_opt.instance import Sharing
from metronome_opt.scenario.network import Placement
from metronome_opt.simulate.policies.network import GROWTH
from metronome_opt.simulate.policies.plain import Default
from metronome_opt.simulate.policies.rotation import group_instance, shifted
from metronome_opt.simulate.state import SLOT_MS, Order, Running, SimState, TrainingJob
from metronome_opt.slowdown.candidates import IDLE
from metronome_opt.slowdown.minimise import Terms, minimise
from metronome_opt.slowdown.plan import Plan
from metronome_opt.solvers.budget import Budget


class Metronome(Default):
    """Lets `allocation` decide where a job runs and when it starts, and `slowdown` its slots.

    Parameters
    ----------
    places
        Whether places are chosen; otherwise jobs are on the nearest nodes.
    waits
        Whether a job may wait although there is room.
    slots
        Whether jobs are gated.
    periods
        Whether gated jobs may be stretched.
    network
        How links are assumed to be shared; as they are if left out.
    lengths
        Whether it is known how long jobs will run; ``rough``: to a factor of two.
    mltcp
        Whether hosts share as under the policy of this name.
    quick
        Whether plans are judged by few short simulations, and no group of jobs is gated in part.
    idle
        Standard deviations of its computing time by which a gated job is idle; what suits if None.
    cushion
        Slots by which bursts of gated jobs are longer at least.
    """

    def __init__(
        self,
        seed: int,
        *,
        places: bool = True,
        waits: bool = True,
        slots: bool = True,
        periods: bool = True,
        network: Sharing | None = None,
        lengths: Literal["known", "rough", "unknown"] = "known",
        mltcp: bool = False,
        quick: bool = True,
        idle: float | None = None,
        cushion: int = 0,
    ) -> None:
        super().__init__(seed)
        self._places, self._slots, self._network = places, slots, network
        self._lengths = lengths
        self.growth = GROWTH if mltcp else None
        self._waits, self._arrivals = waits, Arrivals()
        self._terms = Terms(
            stretch_limit=None if periods else Fraction(0),
            quick=quick,
            idle=IDLE if idle is None else (idle,),
            cushion_slots=cushion,
        )
        self._meetings: Meetings | None = None
        self._plans: dict[object, Plan] = {}
        self._periods: dict[int, float] = {}  # of gated jobs, in ms

    def starts(
        self, waiting: Sequence[TrainingJob], state: SimState
    ) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the jobs that start now."""
        asked = []
        for job in waiting:
            demand, arrival_ms = self._demand(job), 1000 * job.work.arrival_s
            self._arrivals.note(demand, arrival_ms)
            asked.append(Waiting(demand, state.now - arrival_ms))
        decisions = decide_starts(
            asked, self._occupancy(state), self._arrivals, self._seed, may_wait=self._waits
        )
        for job in waiting:
            placement = decisions[job.name].placement
            if placement is not None:
                yield job, placement

    def moves(self, state: SimState, cost_ms: float) -> Mapping[str, Placement]:
        """Return what `allocation` moves; jobs whose nodes the scenario gives stay."""
        running = state.running.items()
        free = {
            link
            for index, each in running
            if index not in self._periods
            for link in each.placement.links
        }
        kept = {
            each.job.name: self._periods[index] / each.job.best_ms - 1
            for index, each in running
            if index in self._periods and free.isdisjoint(each.placement.links)
        }
        costs = {each.job.name: cost_ms for _, each in running if each.job.work.nodes is None}
        moves = decide_moves(self._occupancy(state), costs, kept)
        return {move.job: move.after for move in moves}

    def _occupancy(self, state: SimState) -> Occupancy:
        """Return the jobs that run, with losses of pairs on links that they share."""
        if self._meetings is None:
            self._meetings = Meetings(
                self._network or state.sharing, classes=state.room.cluster.traffic_classes
            )
        placed = [
            Placed(self._demand(each.job, state.left_ms(index)), each.placement)
            for index, each in state.running.items()
        ]
        candidates = CANDIDATES if self._places else 1
        return Occupancy(state.room, placed, self._meetings, candidates)

    def _demand(self, job: TrainingJob, left_ms: float | None = None) -> Demand:
        """Return a job as it is known, of which so much is left; all of it if None."""
        length = job.demand.length_ms if left_ms is None else left_ms
        if self._lengths == "unknown" or length is None:
            return replace(job.demand, length_ms=None)
        if self._lengths == "rough":
            length *= 2 ** Random(f"{self._seed} {job.name}").uniform(-1, 1)  # noqa: S311 (no secret)
        return replace(job.demand, length_ms=length)

    def plan(self, state: SimState, came: Sequence[int], left: Sequence[Running]) -> list[Order]:
        """Gate the jobs around those that came and left, where they gain by it."""
        if not self._slots:
            return []
        return [
            order for members in state.changed(came, left) for order in self._gate(state, members)
        ]

    def _gate(self, state: SimState, members: Sequence[int]) -> Iterator[Order]:
        """Yield what each of some jobs does: keep slots, or begin when it can."""
        periods = {index: state.running[index].slots for index in members}
        instance = group_instance(state, periods)
        key = instance.jobs, instance.links
        if key not in self._plans:
            terms = replace(self._terms, network=self._network or state.sharing)
            self._plans[key] = minimise(instance, terms, Budget()).plan
        plan = self._plans[key]
        starts = _starts(state, plan, members)
        for index in members:
            name = str(index)
            slot = None
            self._periods.pop(index, None)
            if name in plan.periods:
                self._periods[index] = float(plan.periods[name] * SLOT_MS)
                bursts = sorted(float(p.start * SLOT_MS) for p in state.running[index].claim.phases)
                slot = Slot(
                    period_ms=self._periods[index],
                    lateness=Lateness.YIELD,
                    bursts_ms=tuple(bursts),
                )
            yield Order(index, slot, starts.get(index, state.can_start(index)))


def _starts(state: SimState, plan: Plan, members: Sequence[int]) -> Mapping[int, float]:
    """Return when gated jobs begin their next iterations, all shifted alike to wait little."""
    gated = [index for index in members if str(index) in plan.periods]
    ready = [state.can_start(index) for index in gated]
    waits = shifted(
        [plan.offsets[str(i)] * SLOT_MS - at for i, at in zip(gated, ready, strict=True)],
        [float(plan.periods[str(index)] * SLOT_MS) for index in gated],
        [max(1, state.running[index].job.work.priority) for index in gated],
    )
    return {i: at + wait for i, at, wait in zip(gated, ready, waits, strict=True)}
