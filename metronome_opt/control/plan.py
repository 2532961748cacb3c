"""Plans: which job waits how long, once, and in which order, so that little meets meanwhile."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate

from metronome_opt.control.claims import Claims
from metronome_opt.control.reconfigure import Pricing
from metronome_opt.errors import InputError, show

_EXACT = 10  # moves: up to here the best order is found among all


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
    leaves the least contention.

    Parameters
    ----------
    claims
        What is in force.
    offsets
        What is to be in force; a job that is not named stays.

    Raises
    ------
    InputError
        If a name is not known, or an offset is not below the period.
    """
    for name, offset in offsets.items():
        if name not in claims.offsets:
            raise InputError(f"offsets.{show(name)}: there is no such job; leave it out")
        if not 0 <= offset < claims.period(name):
            raise InputError(
                f"offsets.{show(name)}: must be from 0 to below {claims.period(name)}, "
                f"got {show(offset)}"
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
