"""Random bursts within a period."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from metronome_opt.problem.instance import Job, Phase


def bursts(draw: random.Random, period: int, busy: int, rates: Sequence[int]) -> tuple[Phase, ...]:
    """Return one burst for each rate, `busy` slots in all, the first at slot 0.

    Lengths of bursts and of the pauses after them are drawn evenly from all ways to cut `busy` and
    the rest of the period into pieces of at least one slot.
    """
    lengths = _cut(draw, busy, len(rates))
    pauses = _cut(draw, period - busy, len(rates))
    phases = []
    start = 0
    for length, pause, rate in zip(lengths, pauses, rates, strict=True):
        phases.append(Phase(start=start, length=length, rate=rate))
        start += length + pause
    return tuple(phases)


def mean_rate(job: Job) -> Fraction:
    """Return what one flow of a job sends on average, in Mbit/s."""
    return Fraction(job.volume, job.period)


def _cut(draw: random.Random, whole: int, pieces: int) -> list[int]:
    """Cut `whole` slots into pieces of at least one slot."""
    marks = [0, *sorted(draw.sample(range(1, whole), pieces - 1)), whole]
    return [after - before for before, after in pairwise(marks)]
