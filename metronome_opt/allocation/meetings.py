"""Slowdowns of two jobs that share a link, by simulation: a table made as it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from metronome_opt.engine.conditions import Conditions, Sharing
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.runner import Pattern, Runner

_JITTER = 0.01  # of computing times: without any, two jobs may meet alike for ever
_STARTS = (0.37, 0.87)  # of the second job, in longer periods; a play each
_WARM_UP, _PERIODS = 5, 40  # of the longer period
_REMEMBERED = 100_000  # pairs: a controller runs for months
_LONGEST = 250  # shorter periods, that count as one longer period at most: on a link that failed


class Meetings:
    """What pairs of jobs cost each other on a link that they share, not gated.

    Parameters
    ----------
    sharings
        How links may be shared; the mean over these counts.
    """

    def __init__(self, sharings: Sequence[Sharing]) -> None:
        self._sharings = tuple(sharings)
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
        if not {"strict", "weighted"} & set(self._sharings):
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
            self._known[key] = self._simulated(pair, capacity)
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
        plays = [(sharing, start) for sharing in self._sharings for start in _STARTS]
        for seed, (sharing, start) in enumerate(plays):
            conditions = Conditions(jitter=_JITTER)
            engine = Engine(
                {"link": capacity}, runners, sharing=sharing, conditions=conditions, seed=seed
            )
            for index, (_, flows, _) in enumerate(pair):
                engine.enter(index, {"link": flows}, at=index * start * longer)
            engine.run(_WARM_UP * longer)
            before, ended = engine.ended()
            engine.run((_WARM_UP + _PERIODS) * longer)
            spent, count = engine.ended()
            for index, time in enumerate((spent - before) / np.maximum(count - ended, 1)):
                slower[index] += max(0.0, time / alone[index] - 1) / len(plays)
        return slower[0], slower[1]
