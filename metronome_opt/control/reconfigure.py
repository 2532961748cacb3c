"""Reconfiguration: choose offsets anew, starting from those in force, with moves at a price."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.control.pricing import Pricing
from metronome_opt.instance import Instance
from metronome_opt.presolve import split
from metronome_opt.solvers import auto
from metronome_opt.solvers.search import Search

PRICE = Fraction(1, 50)
"""Moving every job costs as much as 2 to 4 % of the weighted traffic being late: a move has to pay
within 50 iterations."""

_MOST_TURNS = 64  # of a schedule, tried for each job that it may leave in its place


@dataclass(frozen=True)
class Reconfiguration:
    """What jobs are to change, and what that is worth.

    Attributes
    ----------
    offsets
        Of all jobs, in the order of the instance.
    before, after
        The price of doing nothing and of this, moves included: shares of the weighted traffic.
    contention_before, contention_after
        Weight * Mbit/s.
    moved
        Indices of the jobs that move.
    """

    offsets: tuple[int, ...]
    before: Fraction
    after: Fraction
    contention_before: Fraction
    contention_after: Fraction
    moved: tuple[int, ...]

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
        Of moves, see `Pricing`.
    held
        Further jobs that do not move.
    """
    pricing = Pricing(instance, price)
    here = pricing.current
    ways = [
        (*here[:job], pricing.best_of(job, here), *here[job + 1 :]) for job in _free(instance, held)
    ]
    return _report(pricing, [here, *ways])


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
    still = {
        *held,
        *(job.name for job in instance.jobs if only is not None and job.name not in only),
    }
    pricing = Pricing(instance, price)
    free = _free(instance, still)
    ways = [pricing.current, pricing.descend(pricing.current, free)]
    if len(free) > 1:
        ways += [pricing.descend(way, free) for way in _solved(pricing, free, seed)]
    return _report(pricing, ways)


def blocks_around(instance: Instance, names: Collection[str]) -> set[str]:
    """Return the jobs of the blocks that some jobs are in."""
    around = set(names)
    for block in split(instance).blocks:
        members = {job.name for job in block.jobs}
        if not members.isdisjoint(names):
            around |= members
    return around


def _free(instance: Instance, held: Collection[str]) -> list[int]:
    return [
        index
        for index, job in enumerate(instance.jobs)
        if job.fixed_offset is None and job.name not in held
    ]


def _solved(pricing: Pricing, free: Sequence[int], seed: int) -> Iterator[tuple[int, ...]]:
    """Yield what the solver finds if moves are free, turned to be near where jobs are."""
    instance = pricing.instance
    jobs = tuple(
        job if index in free else job.model_copy(update={"fixed_offset": pricing.current[index]})
        for index, job in enumerate(instance.jobs)
    )
    search = Search(instance.replace(jobs=jobs), time_limit=None, seed=seed, workers=1, rounds=0)
    auto.run(search)
    if search.best is not None:
        if len(free) < len(jobs):
            yield search.best
        else:
            yield min(_turned(pricing, search.best), key=pricing.moves)


def _turned(pricing: Pricing, offsets: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield a schedule turned as a whole, such that one job or another is where it was."""
    periods = [job.period for job in pricing.instance.jobs]
    whole = math.lcm(*periods)
    turns: dict[int, None] = {}
    for job, period in enumerate(periods):
        first = (pricing.current[job] - offsets[job]) % period
        for turn in range(first, min(whole, _MOST_TURNS * period), period):
            turns[turn] = None
    for turn in turns:
        yield tuple(
            (offset + turn) % period for offset, period in zip(offsets, periods, strict=True)
        )


def _report(pricing: Pricing, ways: Sequence[tuple[int, ...]]) -> Reconfiguration:
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
