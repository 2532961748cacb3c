"""Decisions: how much of a schedule is to be made anew, if anything is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from metronome_opt.control.detect import Tolerance
from metronome_opt.control.reconfigure import (
    PRICE,
    Reconfiguration,
    blocks_around,
    rephase_one,
    resolve,
)
from metronome_opt.instance import Instance


class Verdict(StrEnum):
    """What is to be done."""

    NOTHING = "nothing"
    REPHASE = "rephase"
    BLOCK = "block"
    ALL = "all"


@dataclass(frozen=True)
class Settings:
    """How a monitor decides.

    Attributes
    ----------
    tolerance
        What is left alone.
    persist
        In how many checks in a row a finding has to be there before it counts.
    large
        How many times its tolerance a finding has to exceed to count at once.
    price
        Of moves: 1 over the iterations in which one has to pay, see
        `metronome_opt.control.pricing`.
    minimum_gain
        What a plan has to gain, moves paid, and what more jobs have to gain over fewer: a share of
        the weighted traffic that is no longer late.
    pause_ms, longest_pause_ms
        For how long a job that was moved is left alone; doubled up to the longest if it flaps.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    persist: int = 2
    large: float = 4.0
    price: Fraction = PRICE
    minimum_gain: Fraction = Fraction(1, 100)
    pause_ms: float = 60_000.0
    longest_pause_ms: float = 3_600_000.0


@dataclass(frozen=True)
class Choice:
    """What is to be done with jobs that hang together.

    Attributes
    ----------
    way
        The offsets. Nobody moves if that does not gain enough.
    postponed
        Whether more would be gained if no job were resting.
    most
        What the best plan of all would gain, moves paid: a share of the weighted traffic.
    """

    way: Reconfiguration
    postponed: bool
    most: Fraction


def choose(
    part: Instance,
    suspects: Collection[str],
    resting: Collection[str],
    settings: Settings,
    seed: int = 0,
) -> Choice:
    """Choose between moving nobody, one job, the jobs around the suspects, and all.

    Parameters
    ----------
    part
        Jobs that share links, directly or through others, as measured.
    suspects
        Those of them that something was found of, or of whose links.
    resting
        Jobs that must not be moved now.
    seed
        Of the solver.
    """
    way, most = _least_that_pays(part, suspects, resting, settings, seed)
    if way.moved or not any(job.name in resting for job in part.jobs):
        return Choice(way, postponed=False, most=most)
    unbound, most = _least_that_pays(part, suspects, (), settings, seed)
    return Choice(way, postponed=bool(unbound.moved), most=most)


def _least_that_pays(
    part: Instance,
    suspects: Collection[str],
    resting: Collection[str],
    settings: Settings,
    seed: int,
) -> tuple[Reconfiguration, Fraction]:
    """Return the smallest change of which no larger one gains enough more, and the most gained."""
    price = settings.price
    chosen = resolve(part, price=price, only=())
    if not chosen.contention_before:
        return chosen, Fraction(0)
    one = rephase_one(part, price=price, held=resting)
    around = blocks_around(part, suspects)
    wider = [resolve(part, price=price, held=resting, only=around, seed=seed)]
    if len(around) < len(part.jobs):
        wider.append(resolve(part, price=price, held=resting, seed=seed))
    ways = (one, *wider)
    for way in ways:
        if chosen.after - way.after >= settings.minimum_gain:
            chosen = way
    return chosen, max(way.gain for way in ways)


def verdict(moved: Collection[str], blocks: Sequence[Collection[str]]) -> Verdict:
    """Return what it is called to move some jobs.

    Parameters
    ----------
    moved
        Their names.
    blocks
        The names of the jobs of each block.
    """
    if not moved:
        return Verdict.NOTHING
    if len(moved) == 1:
        return Verdict.REPHASE
    within = any(set(moved) <= set(block) for block in blocks)
    return Verdict.BLOCK if within else Verdict.ALL
