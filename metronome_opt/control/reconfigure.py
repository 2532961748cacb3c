"""Reconfiguration: choose offsets anew, starting from those in force, with moves at a price.

    J(offsets) = K(offsets) / traffic + price * sum of w_j (1 + wait_j / T_j) / sum of w_j

with K the contention, `traffic` its natural size (the weighted traffic of all jobs on all links),
and wait_j the slots from the current offset to the new one; the first sum is over the jobs that
move, the second one over all. Both terms are shares, so that a price means the same in small and in
large networks. Everything is exact.

Contention lasts, whereas a job waits once. A move is counted as 1 + wait_j / T_j iterations of the
job lost, contention as its share of every iteration; so a price of 1 / n, without a unit, is that
of a move whose gain is to pay for it within n iterations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate

import numpy as np

from metronome_opt.control.claims import Claims
from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance
from metronome_opt.kernels.jobs import contention, put_job, score_job, state_of
from metronome_opt.kernels.tables import State, compile_instance
from metronome_opt.objectives import normal
from metronome_opt.solvers import auto
from metronome_opt.solvers.search import Search

PRICE = Fraction(1, 50)
"""Moving every job costs as much as 2 to 4 % of the weighted traffic being late: a move has to pay
within 50 iterations."""

_MOST_TURNS = 64  # of a schedule, tried for each job that it may leave in its place
_EXACT = 10  # moves: up to here the best order is found among all


@dataclass(frozen=True)
class Reconfiguration:
    """What jobs are to change, and what that is worth."""

    offsets: tuple[int, ...]  # of all jobs, in the order of the instance
    before: Fraction  # the price of doing nothing, a share of the weighted traffic
    after: Fraction  # the same of this, moves included
    contention_before: Fraction  # weight * Mbit/s
    contention_after: Fraction
    moved: tuple[int, ...]  # indices of the jobs that move

    @property
    def gain(self) -> Fraction:
        """What it is better by than doing nothing; never negative."""
        return self.before - self.after


def rephase_one(
    instance: Instance, *, price: Fraction = PRICE, held: Collection[str] = ()
) -> Reconfiguration:
    """Choose the one job whose move is worth most, and its offset; exact.

    Parameters
    ----------
    instance
        Every job has a current offset; those with a fixed one do not move.
    price
        Of moves: 1 over the iterations in which one has to pay; 0 for none.
    held
        Further jobs that do not move.
    """
    pricing = Pricing(instance, price)
    here = pricing.current
    ways = [
        (*here[:job], pricing.best_of(job, here), *here[job + 1 :]) for job in _free(instance, held)
    ]
    return _cheapest(pricing, [here, *ways])


def resolve(
    instance: Instance,
    *,
    price: Fraction = PRICE,
    held: Collection[str] = (),
    only: Collection[str] | None = None,
    seed: int = 0,
) -> Reconfiguration:
    """Choose offsets of many jobs anew.

    The offsets in force are improved job by job, and so is what `auto` finds if moves are free,
    turned such that least of it is a move. The better of the two counts; it is never worse than to
    do nothing.

    Parameters
    ----------
    instance, price, held
        As in `rephase_one`.
    only
        The jobs that may move; all if None.
    seed
        Of the solver. The result does not depend on the clock.
    """
    names = {job.name for job in instance.jobs}
    pricing = Pricing(instance, price)
    free = _free(instance, {*held, *(names - set(names if only is None else only))})
    ways = [pricing.current, pricing.descend(pricing.current, free)]
    if len(free) > 1:
        ways += [pricing.descend(way, free) for way in _solved(pricing, free, seed)]
    return _cheapest(pricing, ways)


def _free(instance: Instance, held: Collection[str]) -> list[int]:
    return [
        index
        for index, job in enumerate(instance.jobs)
        if job.fixed_offset is None and job.name not in held
    ]


def _solved(pricing: Pricing, free: Sequence[int], seed: int) -> Iterator[tuple[int, ...]]:
    """Yield what the solver finds if moves are free, turned to be near where jobs are."""
    jobs = tuple(
        job if index in free else job.model_copy(update={"fixed_offset": pricing.current[index]})
        for index, job in enumerate(pricing.instance.jobs)
    )
    instance = pricing.instance.replace(jobs=jobs)
    search = Search(instance, time_limit=None, seed=seed, workers=1, rounds=0)
    auto.run(search)
    if search.best is not None:
        turnable = len(free) == len(jobs)
        periods = [job.period for job in jobs]
        best = search.best
        ways = turned(periods, pricing.current, best) if turnable else (best,)
        yield min(ways, key=pricing.moves)


def turned(
    periods: Sequence[int], current: Sequence[int], offsets: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield offsets turned all together, such that one job or another is where it is now."""
    whole = math.lcm(*periods)
    turns: dict[int, None] = {}
    for job, period in enumerate(periods):
        first = (current[job] - offsets[job]) % period
        turns |= dict.fromkeys(range(first, min(whole, _MOST_TURNS * period), period))
    for turn in turns:
        yield tuple(
            (offset + turn) % period for offset, period in zip(offsets, periods, strict=True)
        )


def _cheapest(pricing: Pricing, ways: Sequence[tuple[int, ...]]) -> Reconfiguration:
    """Return the cheapest way; of equals the one with fewest moves, then the first."""
    here = pricing.current

    def moved(offsets: Sequence[int]) -> tuple[int, ...]:
        return tuple(job for job, offset in enumerate(offsets) if offset != here[job])

    best = min(ways, key=lambda offsets: (pricing.total(offsets), len(moved(offsets))))
    return Reconfiguration(
        offsets=best,
        before=pricing.total(here),
        after=pricing.total(best),
        contention_before=pricing.contention(here),
        contention_after=pricing.contention(best),
        moved=moved(best),
    )


class Pricing:
    """Prices of the schedules of an instance, in which every job has a current offset."""

    def __init__(self, instance: Instance, price: Fraction = Fraction(0)) -> None:
        self.instance = instance
        self.current = tuple(job.current_offset or 0 for job in instance.jobs)
        self._traffic = normal(instance, "contention")
        self._rate = price / (sum(job.weight for job in instance.jobs) or 1)
        self._compiled = compile_instance(instance)

    def contention(self, offsets: Sequence[int]) -> Fraction:
        """Return the contention, in weight * Mbit/s."""
        return contention(self._compiled, state_of(self._compiled, offsets))

    def wait(self, job: int, offset: int) -> int:
        """Return how many slots a job waits to come to an offset."""
        return (offset - self.current[job]) % self.instance.jobs[job].period

    def moves(self, offsets: Sequence[int]) -> Fraction:
        """Return the price of all moves."""
        return sum((self._move(job, offset) for job, offset in enumerate(offsets)), Fraction(0))

    def _move(self, job: int, offset: int) -> Fraction:
        """Return the price of bringing a job to an offset."""
        waits, which = self.wait(job, offset), self.instance.jobs[job]
        return self._rate * which.weight * (1 + Fraction(waits, which.period)) * bool(waits)

    def total(self, offsets: Sequence[int]) -> Fraction:
        """Return the price of a schedule, J."""
        return self.contention(offsets) / self._traffic + self.moves(offsets)

    def best_of(self, job: int, offsets: Sequence[int]) -> int:
        """Return the best offset of one job while the others are where they are.

        Of several the one that is reached soonest.
        """
        return self._best(job, offsets[job], state_of(self._compiled, offsets))[0]

    def descend(self, offsets: Sequence[int], free: Sequence[int]) -> tuple[int, ...]:
        """Bring one free job after the other to its best offset, the one that gains most first."""
        best = list(offsets)
        state = state_of(self._compiled, best)
        around = self._compiled.sharing()
        ways = {job: self._best(job, best[job], state) for job in free}
        while ways:
            job = max(ways, key=lambda job: ways[job][1])
            offset, gain = ways[job]
            if gain <= 0:
                break
            put_job(state, job, best[job], -1)
            put_job(state, job, offset, 1)
            best[job] = offset
            for other in {job, *around[job]} & ways.keys():
                ways[other] = self._best(other, best[other], state)
        return tuple(best)

    def _best(self, job: int, offset: int, state: State) -> tuple[int, Fraction]:
        """Return the best offset of a job that is at one now, and what it gains there.

        The price of waiting grows with the wait, so among the offsets only those matter that cost
        less than all that are reached before.
        """
        period = self.instance.jobs[job].period
        cost = np.zeros(period, dtype=np.int64)
        put_job(state, job, offset, -1)
        score_job(state, job, cost)
        put_job(state, job, offset, 1)
        ahead = np.roll(cost, -self.current[job])

        def price(waits: int) -> Fraction:
            added = self._compiled.fraction(int(ahead[waits]), job)
            return added / self._traffic + self._move(job, (self.current[job] + waits) % period)

        records = np.flatnonzero(np.diff(np.minimum.accumulate(ahead), prepend=ahead[0] + 1))
        best = min(map(int, records), key=price)
        gain = price((offset - self.current[job]) % period) - price(best)
        return (self.current[job] + best) % period, gain


@dataclass(frozen=True)
class Step:
    """One job waits once."""

    job: str
    wait: int  # slots, more than 0 and less than the period of the job
    before: int  # its offset
    after: int


@dataclass(frozen=True)
class Plan:
    """Steps in a safe order, each to be done before the next one begins."""

    claims_before: Claims  # what is in force until then
    steps: tuple[Step, ...]  # one for each job that moves
    # The largest contention before, between and after the steps, weight * Mbit/s, with cushions.
    worst: Fraction
    exact: bool  # whether no order has a smaller one for certain

    def claims(self) -> Claims:
        """Return what is in force when all steps are done."""
        after = {step.job: step.after for step in self.steps}
        return self.claims_before.with_offsets({**self.claims_before.offsets, **after})


def make_plan(claims: Claims, offsets: Mapping[str, int]) -> Plan:
    """Return the plan that leads from claims to offsets.

    The order is one in which the contention is never higher than it has to be; among those, one in
    which the sum over all steps is least. Beyond ten moves, the next step is always the one that
    leaves the least contention. A job whose offset is not named stays.

    Raises
    ------
    InputError
        If a name is not known, or an offset is not below the period.
    """
    for name, offset in offsets.items():
        if name not in claims.offsets:
            raise InputError(f"offsets.{quote(name)}: there is no such job; leave it out")
        if not 0 <= offset < claims.period(name):
            raise InputError(
                f"offsets.{quote(name)}: must be from 0 to below {claims.period(name)}, "
                f"got {quote(offset)}"
            )
    pricing = Pricing(claims.reserved)
    here = pricing.current
    names = [job.name for job in claims.instance.jobs]
    target = [offsets.get(name, before) for name, before in zip(names, here, strict=True)]
    moving = [index for index, offset in enumerate(target) if pricing.wait(index, offset)]

    @cache
    def level(done: int) -> Fraction:
        """Return the contention when a set of moves is done, the bits of a number."""
        moved = {job for place, job in enumerate(moving) if done >> place & 1}
        return pricing.contention(
            [target[job] if job in moved else offset for job, offset in enumerate(here)]
        )

    exact = len(moving) <= _EXACT
    order = (_best_order if exact else _greedy_order)(level, len(moving))
    steps = tuple(
        Step(names[index], pricing.wait(index, target[index]), here[index], target[index])
        for index in (moving[place] for place in order)
    )
    on_the_way = accumulate((1 << place for place in order), operator.or_, initial=0)
    return Plan(claims, steps, max(map(level, on_the_way)), exact)


def _best_order(level: Callable[[int], Fraction], count: int) -> list[int]:
    """Return the order of least worst contention, then of the least sum, over all orders."""
    full = (1 << count) - 1
    worst: list[Fraction] = []
    for done in range(full + 1):
        least = min(
            (worst[done ^ 1 << place] for place in range(count) if done >> place & 1),
            default=level(0),
        )
        worst.append(max(level(done), least))
    total, last = {0: level(0)}, {}
    for done in range(1, full + 1):
        ways = [
            (total[before], place)
            for place in range(count)
            if done >> place & 1 and (before := done ^ 1 << place) in total
        ]
        if ways and level(done) <= worst[full]:
            so_far, last[done] = min(ways)
            total[done] = so_far + level(done)
    order: list[int] = []
    done = full
    while done:
        order.append(last[done])
        done ^= 1 << last[done]
    return order[::-1]


def _greedy_order(level: Callable[[int], Fraction], count: int) -> list[int]:
    """Return the order in which each step leaves the least contention that it can."""
    order: list[int] = []
    done = 0
    while len(order) < count:
        left = (place for place in range(count) if not done >> place & 1)
        order.append(min(left, key=lambda place: level(done | 1 << place)))
        done |= 1 << order[-1]
    return order
