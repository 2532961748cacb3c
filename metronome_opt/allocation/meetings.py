"""Slowdowns of two jobs that share a link: a table made as it is needed.

Without slots they are simulated. With slots each job sends once in a multiple of one base, which is
as long as the bursts of both; of all multiples the pair is taken that costs least.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from metronome_opt.engine.conditions import JITTER, Conditions
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.runner import Pattern, Runner
from metronome_opt.instance import Sharing

_STARTS = (0.12, 0.37, 0.62, 0.87)  # of the second job, in longer periods
_WARM_UP, _PERIODS = 5, 40  # of the longer period
_REMEMBERED = 100_000  # pairs: a controller runs for months
_MULTIPLES = range(1, 9)  # of the base of two periods
_CUSHION = 0.02  # of the shorter iteration: between bursts in slots
_HARM = 0.01  # of an iteration: slots may make a job slower by so much
_LONGEST = 250  # shorter periods, that count as one longer period at most: on a link that failed


class Meetings:
    """What pairs of jobs cost each other on a link that they share.

    Parameters
    ----------
    network
        How links are shared.
    gated
        Whether the two keep slots, where they are slower without in the weighted sum.
    """

    def __init__(self, network: Sharing, *, gated: bool = False) -> None:
        self._network, self._gated = network, gated
        self._known: dict[tuple[object, ...], tuple[float, float]] = {}

    def slowdowns(
        self, one: tuple[Pattern, int, int], other: tuple[Pattern, int, int], capacity: int
    ) -> tuple[float, float]:
        """Return by what share each of two jobs is slower on a link than alone.

        Parameters
        ----------
        one, other
            Pattern, flows on the link, and weight of each job.
        capacity
            Of the link, in Mbit/s.
        """
        if one[0].peak * one[1] + other[0].peak * other[1] <= capacity:
            return 0.0, 0.0
        weights = one[2], other[2]
        if not self._gated and self._network not in ("strict", "weighted"):
            weights = 1, 1
        keys = [
            (job[0].key, job[1], weight) for job, weight in zip((one, other), weights, strict=True)
        ]
        swapped = keys[1] < keys[0]
        key = (*sorted(keys), capacity)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            pair = (other, one) if swapped else (one, other)
            free = self._simulated(pair, capacity)
            self._known[key] = _with_slots(pair, capacity, free) if self._gated else free
        first, second = self._known[key]
        if keys[0] == keys[1]:  # what differs is chance
            first = second = (first + second) / 2
        return (second, first) if swapped else (first, second)

    def _simulated(
        self, pair: Sequence[tuple[Pattern, int, int]], capacity: int
    ) -> tuple[float, float]:
        runners = [Runner(str(i), pattern, weight) for i, (pattern, _, weight) in enumerate(pair)]
        alone = [
            float(pattern.slowed_to(Fraction(capacity, flows)).duration)
            for pattern, flows, _ in pair
        ]
        longer, slower = min(max(alone), _LONGEST * min(alone)), [0.0, 0.0]
        for seed, start in enumerate(_STARTS):
            conditions = Conditions(jitter=JITTER)  # without any, two may meet alike for ever
            engine = Engine(
                {"link": capacity}, runners, sharing=self._network, conditions=conditions, seed=seed
            )
            for index, (_, flows, _) in enumerate(pair):
                engine.enter(index, {"link": flows}, at=index * start * longer)
            engine.run(_WARM_UP * longer)
            before, ended = engine.ended()
            engine.run((_WARM_UP + _PERIODS) * longer)
            spent, count = engine.ended()
            for index, time in enumerate((spent - before) / np.maximum(count - ended, 1)):
                slower[index] += max(0.0, time / alone[index] - 1) / len(_STARTS)
        return slower[0], slower[1]


def _with_slots(
    pair: Sequence[tuple[Pattern, int, int]], capacity: int, free: tuple[float, float]
) -> tuple[float, float]:
    """Return by what share two jobs are slower in slots, or as they are if that costs less."""
    alone = [pattern.slowed_to(Fraction(capacity, flows)) for pattern, flows, _ in pair]
    one, two = (pattern.alone_ms for pattern in alone)
    together = sum(_span_ms(pattern) for pattern in alone) + _CUSHION * min(one, two)
    choices = [free]
    for many, few in product(_MULTIPLES, repeat=2):
        base = max(together, one / many, two / few)
        slower = many * base / one - 1, few * base / two - 1
        if slower[0] <= free[0] + _HARM and slower[1] <= free[1] + _HARM:
            choices.append(slower)
    return min(choices, key=lambda slower: pair[0][2] * slower[0] + pair[1][2] * slower[1])


def _span_ms(pattern: Pattern) -> float:
    """Return the time from the first burst to the end of the last, the longest pause left out."""
    before, *between, after = map(float, pattern.compute)
    return pattern.alone_ms - max(before + after, *between, 0.0)
