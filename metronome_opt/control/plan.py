"""Plans: which job waits how long, once, and in which order, so that little meets meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from metronome_opt.control.claims import Claims
from metronome_opt.control.pricing import Pricing
from metronome_opt.errors import InputError, show

_EXACT = 10  # moves: up to here the best order is found among all


@dataclass(frozen=True)
class Step:
    """One job waits once.

    Attributes
    ----------
    wait
        Slots, more than 0 and less than the period of the job.
    before, after
        Its offsets.
    """

    job: str
    wait: int
    before: int
    after: int


@dataclass(frozen=True)
class Plan:
    """Steps in a safe order, each to be done before the next one begins.

    Attributes
    ----------
    claims_before
        What is in force until then.
    steps
        One for each job that moves.
    worst
        The largest contention before, between and after the steps, weight * Mbit/s, with cushions.
    exact
        Whether no order has a smaller one for certain.
    """

    claims_before: Claims
    steps: tuple[Step, ...]
    worst: Fraction
    exact: bool

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
    pricing = Pricing(claims.reserved, Fraction(0))
    names = [job.name for job in claims.instance.jobs]
    target = tuple(offsets.get(name, claims.offsets[name]) for name in names)
    moving = [index for index, offset in enumerate(target) if pricing.wait(index, offset)]
    levels = _Levels(pricing, target, moving)
    exact = len(moving) <= _EXACT
    order = _best_order(levels) if exact else _greedy_order(levels)
    steps = tuple(
        Step(
            names[index],
            pricing.wait(index, target[index]),
            pricing.current[index],
            target[index],
        )
        for index in (moving[place] for place in order)
    )
    return Plan(claims, steps, levels.worst(order), exact)


class _Levels:
    """The contention while some jobs have moved and others have not; sets are bits of a number."""

    def __init__(self, pricing: Pricing, target: Sequence[int], moving: Sequence[int]) -> None:
        self._pricing = pricing
        self._target = target
        self._moving = moving
        self._known: dict[int, Fraction] = {}
        self.count = len(moving)

    def of(self, done: int) -> Fraction:
        """Return the contention when a set of moves is done."""
        if done not in self._known:
            offsets = list(self._pricing.current)
            for place, job in enumerate(self._moving):
                if done >> place & 1:
                    offsets[job] = self._target[job]
            self._known[done] = self._pricing.contention(offsets)
        return self._known[done]

    def worst(self, order: Sequence[int]) -> Fraction:
        """Return the largest contention on the way."""
        done, worst = 0, self.of(0)
        for place in order:
            done |= 1 << place
            worst = max(worst, self.of(done))
        return worst


def _best_order(levels: _Levels) -> list[int]:
    """Return the order of least worst contention, then of the least sum, over all orders."""
    full = (1 << levels.count) - 1
    worst: list[Fraction] = []
    for done in range(full + 1):
        before = [worst[done ^ 1 << place] for place in range(levels.count) if done >> place & 1]
        worst.append(max(levels.of(done), min(before, default=levels.of(0))))
    total: list[Fraction | None] = []
    last: list[int] = []
    for done in range(full + 1):
        ways = [
            (so_far, place)
            for place in range(levels.count)
            if done >> place & 1 and (so_far := total[done ^ 1 << place]) is not None
        ]
        best = min(ways, default=None)
        allowed = levels.of(done) <= worst[full] and (best is not None or not done)
        total.append(levels.of(done) + (best[0] if best else 0) if allowed else None)
        last.append(best[1] if best else 0)
    order: list[int] = []
    done = full
    while done:
        order.append(last[done])
        done ^= 1 << last[done]
    return order[::-1]


def _after(levels: _Levels, done: int, place: int) -> Fraction:
    return levels.of(done | 1 << place)


def _greedy_order(levels: _Levels) -> list[int]:
    """Return the order in which each step leaves the least contention that it can."""
    left = list(range(levels.count))
    order: list[int] = []
    done = 0
    while left:
        place = min(left, key=partial(_after, levels, done))
        left.remove(place)
        order.append(place)
        done |= 1 << place
    return order
