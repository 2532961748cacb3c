"""Metronome: placement, admission and offsets by what they bring, priorities counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from metronome_opt.presolve.extend import extend_bursts
from metronome_opt.scenario.network import Placement
from metronome_opt.simulate.conditions import Sharing
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.policies.plain import CANDIDATES, Default, network_cost
from metronome_opt.simulate.policies.rotation import (
    ContentionGroup,
    Prediction,
)
from metronome_opt.simulate.runner import Lateness, Runner, Slot
from metronome_opt.simulate.state import Order, Running, SimState, TrainingJob
from metronome_opt.solvers.registry import find_solver
from metronome_opt.solvers.search import Search

_ITERATIONS = 12  # of the slowest job, at least

Start = tuple[float, Slot | None]
"""When a job is to begin its next iteration, in ms, and the slot that it keeps from then on."""


def forecast(
    state: SimState,
    members: Sequence[int],
    *,
    plan: Mapping[int, Start] | None = None,
    bursts: int = 0,
) -> dict[int, float]:
    """Return how many times as long as with a network of its own the iterations of each job take.

    Parameters
    ----------
    members
        Jobs that run; no others are considered.
    plan
        For jobs that are to begin otherwise than they are going to.
    bursts
        How many bursts of all jobs together to look ahead, about.
    """
    plan = plan or {}
    placed = [state.running[index] for index in members]
    runners = [
        Runner(
            each.job.name,
            each.job.claimed(each.placement.rate),
            each.job.work.priority,
            None,
            len(each.placement.links),
        )
        for each in placed
    ]
    links = dict.fromkeys(link for each in placed for link in each.placement.links)
    engine = Engine(
        {link: state.machines.capacities[link] for link in links}, runners, sharing=state.sharing
    )
    starts = [plan.get(index) or state.next_start(index) for index in members]
    first = min(start for start, _ in starts)
    groups: dict[int, int] = {}  # those of the forecast are numbered anew
    for number, (each, (start, slot)) in enumerate(zip(placed, starts, strict=True)):
        if slot is not None:
            slot = replace(slot, group=groups.setdefault(slot.group, len(groups)))
        engine.enter(number, each.placement.links, at=start - first, slot=slot)
    alone = [runner.pattern.alone_ms for runner in runners]
    length = max(_ITERATIONS * max(alone), bursts / sum(1 / time for time in alone))
    engine.run(max(start for start, _ in starts) - first + length)
    return {
        index: engine.mean_time(number)
        / runners[number].pattern.alone_ms
        * each.job.slowness(each.placement.rate)
        for number, (index, each) in enumerate(zip(members, placed, strict=True))
    }


_ROUNDS = 0  # good schedules are enough, and the forecast judges them
_DEPARTURES = 4  # that a job waits for, rather than to cost more than this wait
_AGEING = 0.3  # of the time that a job has waited it may cost to start it
_EXPOSURE = 0.1  # slowdown that a job is taken to suffer if all its interfaces come to be shared
_CUSHION_SLOTS = 2
_STRETCHES = (0.0, 0.1, 0.25)
_SMALL = 8  # jobs: larger groups are not stretched
_AHEAD = 1500  # bursts
_WORTH = 0.998  # of a price: what another plan has to stay below


class Metronome(Default):
    """Decides by forecasts: where a job harms least, whether to wait, whether slots are worth it.

    - Filter: a placement is refused where the job would delay itself and others, weighted by
      priority, by more than it would wait until some jobs have left; and by more than a part of
      the time that it has waited, so that no job is passed over for ever.
    - Score: of the others that of the least price. A placement in which the job can be rotated
      such that it meets no other costs nothing but what its own tasks cost one another, and
      something for interfaces that later jobs may come to share. All others cost the time that is
      forecast to be lost there, whatever the contention, so that compatibility counts for what it
      brings.
    - Then all jobs that may get in each other's way are solved anew by `auto`, with longer periods
      if that is what it takes to keep bursts apart. They keep their slots, waiting for one another
      or not, or go on as they are: whatever is forecast to be best.

    A late job is waited for by all, or by none, or only if no other is more important; then the
    less important ones are re-phased first. Bandwidth is asked for by weight: where bursts meet,
    the more important job gets more of it.

    Parameters
    ----------
    seed
        Of the solver.
    """

    sharing: Sharing = "weighted"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._run = find_solver("auto").load()
        self._seen = -1
        self._slow: dict[tuple[int, ...], Mapping[int, float]] = {}

    # ------------------------------------------------------------------ where

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the candidate of least price; None if it is better to wait."""
        best: Placement | None = None
        least: tuple[float, tuple[int, int]] | None = None
        length = _weight(job) * job.iterations * job.ideal.alone_ms
        waited = state.now - 1000 * job.work.arrival_s
        most = _weight(job) * max(_wait_ms(state), _AGEING * waited)
        for placement in state.machines.candidates(job.work, CANDIDATES):
            own = _own(job, placement) + _EXPOSURE * _exposed(placement, state)
            price = own * length
            if least is not None and price >= least[0]:
                continue
            harm = self._harm(job, placement, state)
            price += harm
            if harm and price > most:
                continue
            if least is None or (price, network_cost(placement)) < least:
                best, least = placement, (price, network_cost(placement))
        return best

    def _harm(self, job: TrainingJob, placement: Placement, state: SimState) -> float:
        """Return by how much sharing links delays the job and the others, in weighted ms."""
        if not placement.links:
            return 0.0
        with state.trying(Running(job, placement)):
            near = state.near(job.index)
            if len(near) == 1 or _can_avoid_all(job, near, state):
                return 0.0
            before = self._before(state, [index for index in near if index != job.index])
            after = forecast(state, near)
            before = {**before, job.index: 1 + _own(job, placement)}
            length = state.left_ms(job.index)
            return sum(
                _weight(state.running[index].job)
                * max(0.0, after[index] - before[index])
                * min(length, state.left_ms(index))
                for index in near
            )

    def _before(self, state: SimState, others: Sequence[int]) -> Mapping[int, float]:
        """Return how slow others are without a new job; asked again for each candidate."""
        if state.changes != self._seen:
            self._seen, self._slow = state.changes, {}
        key = tuple(sorted(others))
        if key not in self._slow:
            self._slow[key] = forecast(state, key)
        return self._slow[key]

    # ------------------------------------------------------------------ when

    def plan(self, state: SimState, came: Sequence[int], left: Sequence[Running]) -> list[Order]:
        """Solve the jobs around those that came, and around those that left."""
        return [
            order for members in state.changed(came, left) for order in self._solve(state, members)
        ]

    def _solve(self, state: SimState, members: Sequence[int]) -> list[Order]:
        """Return the plan that is forecast to be best: free, or in slots, stretched if need be."""
        best = {index: Order(index, None, state.can_start(index)) for index in members}
        least = self._price(state, members, best)
        weights = sum(_weight(state.running[index].job) for index in members)
        told: Mapping[int, Prediction] = {}
        for stretch in _STRETCHES[: None if len(members) <= _SMALL else 1]:
            if (1 + stretch) * weights >= least:
                break  # slots alone would cost more
            rivals = ContentionGroup.of(state, members, stretch=stretch)
            if rivals is None:
                break
            search, cushion = self._offsets(rivals, state)
            offsets = search.best or ()
            if not stretch:
                told = rivals.predictions(offsets)
            for plan in _plans(state, rivals, offsets, cushion):
                price = self._price(state, members, plan)
                if price < least * _WORTH:
                    best, least = {**best, **plan}, price
                    told = rivals.predictions(offsets)
            if search.incumbent == 0:
                break
        return [_with_prediction(order, told.get(order.index)) for order in best.values()]

    def _offsets(self, rivals: ContentionGroup, state: SimState) -> tuple[Search, float]:
        """Return the search for the best offsets, and the cushion in ms that is reserved in them.

        If bursts can be kept apart, then longer ones by a cushion, if they can be kept apart too.
        """
        search = self._search(rivals, 0)
        if search.incumbent == 0 and state.cushions:
            roomy = self._search(rivals, _CUSHION_SLOTS)
            if roomy.incumbent == 0:
                return roomy, float(_CUSHION_SLOTS * rivals.instance.slot_ms)
        return search, 0.0

    def _search(self, rivals: ContentionGroup, longer: int) -> Search:
        instance = extend_bursts(rivals.instance, longer) if longer else rivals.instance
        search = Search(instance, time_limit=None, seed=self._seed, workers=1, rounds=_ROUNDS)
        self._run(search)
        return search

    def _price(self, state: SimState, members: Sequence[int], plan: Mapping[int, Order]) -> float:
        """Return the weighted sum of slowdowns, 1 for a job that is not slowed down."""
        starts = {index: (order.start_ms, order.slot) for index, order in plan.items()}
        times = forecast(state, members, plan=starts, bursts=_AHEAD)
        return sum(_weight(state.running[index].job) * times[index] for index in members)


def _plans(
    state: SimState, rivals: ContentionGroup, offsets: Sequence[int], cushion: float
) -> Iterator[dict[int, Order]]:
    """Yield what the members may do at their offsets if one of them is late.

    All wait for it; only for the most important ones, while others that are late wait for their
    next slots; none waits for another.
    """
    starts = rivals.starts(offsets, turn=True)
    group = state.engine.new_group()
    weights = [job.weight for job in rivals.instance.jobs]
    together = [Lateness.HOLD] * len(weights)
    low_first = [Lateness.HOLD if weight == max(weights) else Lateness.YIELD for weight in weights]
    apart = [Lateness.SLIDE] * len(weights)
    for latenesses in dict.fromkeys(map(tuple, (together, low_first, apart))):
        yield {
            index: Order(
                index,
                rivals.slot(index, lateness=lateness, group=group, cushion_ms=cushion),
                start,
            )
            for index, start, lateness in zip(rivals.members, starts, latenesses, strict=True)
        }


def _with_prediction(order: Order, prediction: Prediction | None) -> Order:
    """Return an order with what the judge predicts; how long iterations take only for slots."""
    if prediction is None:
        return order
    score, elongation_ms = prediction
    return replace(order, score=score, elongation_ms=elongation_ms if order.slot else None)


def _weight(job: TrainingJob) -> int:
    return max(1, job.work.priority)


def _wait_ms(state: SimState) -> float:
    """Return the time until some more jobs have left, if nothing delays them."""
    left = sorted(state.left_ms(index) for index in state.running)
    return left[min(_DEPARTURES, len(left)) - 1] if left else 0.0


def _own(job: TrainingJob, placement: Placement) -> float:
    """Return by what share a job is slower than ideal even if it has the network to itself."""
    return job.slowness(placement.rate) - 1


def _exposed(placement: Placement, state: SimState) -> float:
    """Return the share of a job's interfaces that later jobs may come to share."""
    if not placement.links:
        return 0.0
    mine = placement.gpus_of
    return sum(state.machines.free[node] > count for node, count in mine.items()) / len(mine)


def _can_avoid_all(job: TrainingJob, near: Sequence[int], state: SimState) -> bool:
    """Return True if all others keep slots, and some rotation of the job meets none of them."""
    rivals = ContentionGroup.of_newcomer(state, job.index)
    if rivals is None or len(rivals.members) < len(near):
        return False
    keep = all(state.running[index].slot is not None for index in near if index != job.index)
    return keep and rivals.best_rotation(job.index)[1][0] == 0
