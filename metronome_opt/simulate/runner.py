"""What enters an engine, the slots that are given to it, and what is seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kernels.fluid import world
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.simulate.pattern import Pattern


class Manner(IntEnum):
    """What a job does that is late, mostly beyond its cushion; `kernels.fluid.slots` says how."""

    SLIDE = world.SLIDE
    HOLD = world.HOLD
    YIELD = world.YIELD


@dataclass(frozen=True)
class Runner:
    """A job that may enter.

    Attributes
    ----------
    name
        Unique.
    pattern
        Its iteration.
    weight
        Its priority.
    iterations
        How many it runs; None for no end.
    most_links
        How many links it will cross at most.
    """

    name: str
    pattern: Pattern
    weight: int
    iterations: int | None
    most_links: int


@dataclass(frozen=True)
class Slot:
    """When the iterations of a job are to begin.

    Attributes
    ----------
    period_ms
        From one beginning to the next.
    cushion_ms
        How far off it may be without being re-phased. If bursts have slots and it yields, only how
        far off its clock may be without being set.
    bursts_ms
        When each burst is due, from the beginning of the iteration: then bursts wait for their
        times, and iterations begin at once. Empty for iterations that wait, and bursts that do not.
    manner
        What it does if it is late by more.
    group
        Jobs of one group wait for one another where one of them holds the others.
    """

    period_ms: float
    cushion_ms: float = 0.0
    manner: Manner = Manner.HOLD
    group: int = 0
    bursts_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Seen:
    """What was seen of a job for a while. Arrays have one entry per computing and burst after it.

    Attributes
    ----------
    computed
        How often it computed.
    computing, squares
        Sums of the times in ms, and of their squares.
    volume
        What a flow sent in a burst, in Mbit/s * ms; 0 where there is none.
    shortest
        Of all times that the burst took, in ms; infinite if it was not seen.
    began
        When it began last, in ms; minus infinity for never.
    """

    computed: NDArray[np.int64]
    computing: Floats
    squares: Floats
    volume: Floats
    shortest: Floats
    began: Floats
