"""Losses of two jobs that share a link: a table made as it is needed.

Iterations are simulated as links are shared, and where there are traffic classes with either job
first. With windows each job sends once in a multiple of one base, which is as long as the bursts of
both. The choice of least weighted sum counts in which no job loses more than `MAX_LOSS` against the
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from metronome_opt.allocation.slots.evaluator import MAX_LOSS
from metronome_opt.engine.conditions import JITTER, Conditions
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob
from metronome_opt.problem.instance import Sharing
from metronome_opt.scenario.iteration import Iteration

_STARTS = (0.12, 0.37, 0.62, 0.87)  # of the second job, in longer periods
_WARM_UP, _PERIODS = 5, 40  # of the longer period
_MAX_KNOWN = 100_000  # pairs: a controller runs for months
_MULTIPLES = range(1, 9)  # of the base of two periods
_CUSHION = 0.02  # of the shorter iteration: between bursts in windows
_MAX_RATIO = 250  # of the longer period to the shorter one, as on a link that failed

_Pair = Sequence[tuple[Iteration, int, int]]  # iteration, flows, weight of two jobs


class PairLosses:
    """Losses of two jobs by sharing a link.

    With `gated`, both jobs are gated where that makes their weighted sum less; where links serve
    several classes, either job may go first.
    """

    def __init__(self, network: Sharing, *, gated: bool = False, classes: int = 1) -> None:
        self._network, self._gated, self._classes = network, gated, classes
        self._known: dict[tuple[object, ...], tuple[float, float]] = {}

    def on_link(
        self, one: tuple[Iteration, int, int], other: tuple[Iteration, int, int], capacity: int
    ) -> tuple[float, float]:
        """Return by what share each of two jobs is slower on a link than by itself.

        A job is its iteration, its flows on the link, and its weight; capacities are in Mbit/s.
        """
        if one[0].peak * one[1] + other[0].peak * other[1] <= capacity:
            return 0.0, 0.0
        decides = self._gated or self._classes > 1 or self._network in ("strict", "weighted")
        keys = [(job[0].key, job[1], job[2] if decides else 1) for job in (one, other)]
        swapped = keys[1] < keys[0]
        key = (*sorted(keys), capacity)
        if key not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            pair = (other, one) if swapped else (one, other)
            self._known[key] = self._best(pair, capacity)
        first, second = self._known[key]
        if keys[0] == keys[1]:  # differences are chance
            first = second = (first + second) / 2
        return (second, first) if swapped else (first, second)

    def _best(self, pair: _Pair, capacity: int) -> tuple[float, float]:
        """Return the losses of least weighted sum in which no job loses much against the first."""
        choices = [self._simulated(pair, capacity, self._network)]
        if self._classes > 1:
            for order in ((1, 2), (2, 1)):
                ranked = [(*job[:2], rank) for job, rank in zip(pair, order, strict=True)]
                choices.append(self._simulated(ranked, capacity, "strict"))
        if self._gated:
            choices += _in_slots(pair, capacity)
        limits = [loss + float(MAX_LOSS) for loss in choices[0]]
        allowed = (
            losses for losses in choices if losses[0] <= limits[0] and losses[1] <= limits[1]
        )
        return min(allowed, key=lambda losses: pair[0][2] * losses[0] + pair[1][2] * losses[1])

    def _simulated(self, pair: _Pair, capacity: int, network: Sharing) -> tuple[float, float]:
        jobs = [EngineJob(str(i), pattern, weight) for i, (pattern, _, weight) in enumerate(pair)]
        isolated = [
            pattern.slowed_to(Fraction(capacity, flows)).isolated_ms for pattern, flows, _ in pair
        ]
        longer, slower = min(max(isolated), _MAX_RATIO * min(isolated)), [0.0, 0.0]
        for seed, start in enumerate(_STARTS):
            conditions = Conditions(jitter=JITTER)  # without any, bursts may collide for ever
            engine = Engine(
                {"link": capacity}, jobs, sharing=network, conditions=conditions, seed=seed
            )
            for index, (_, flows, _) in enumerate(pair):
                engine.start_job(index, {"link": flows}, at=index * start * longer)
            times = engine.mean_times(_WARM_UP * longer, (_WARM_UP + _PERIODS) * longer)
            for index, time in enumerate(np.nan_to_num(times)):
                slower[index] += max(0.0, time / isolated[index] - 1) / len(_STARTS)
        return slower[0], slower[1]


def _in_slots(pair: _Pair, capacity: int) -> Iterator[tuple[float, float]]:
    """Yield by what shares two jobs are slower with windows."""
    isolated = [pattern.slowed_to(Fraction(capacity, flows)) for pattern, flows, _ in pair]
    one, two = (pattern.isolated_ms for pattern in isolated)
    together = sum(_span_ms(pattern) for pattern in isolated) + _CUSHION * min(one, two)
    for many, few in product(_MULTIPLES, repeat=2):
        base = max(together, one / many, two / few)
        yield many * base / one - 1, few * base / two - 1


def _span_ms(pattern: Iteration) -> float:
    """Return the time from the first burst to the end of the last, without the longest pause."""
    before, *between, after = map(float, pattern.pauses)
    return pattern.isolated_ms - max(before + after, *between, 0.0)
