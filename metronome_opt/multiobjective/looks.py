"""Rotation problems at given stretches of jobs that share links, and what is known of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.outlook import Outlook
from metronome_opt.solvers.budget import Budget

Values = tuple[Fraction, ...]
FloorOf = Callable[[Fraction, Fraction], Values]
Stretch = tuple[int, ...]  # in the order of a component's jobs


@dataclass(frozen=True)
class Solved:
    """What is known of some stretches.

    Attributes
    ----------
    values
        Of the best schedule, the most important first, less is better.
    offsets
        Its offsets by job name.
    bound
        Lower bound of the first value, None if nothing is known.
    proved
        Whether no offsets are better.
    """

    values: Values
    offsets: Mapping[str, int]
    bound: Fraction | None = None
    proved: bool = False


class SolveAt(Protocol):
    """Solves the rotation problem at given stretches."""

    def __call__(
        self,
        part: Instance,
        stretch: Mapping[str, int],
        seconds: float | None,
        beat: Values | None,
        /,
    ) -> Solved:
        """Return the best offsets of a component.

        Parameters
        ----------
        part
            The component, not stretched.
        stretch
            Idle slots per job name; no hyperperiod exceeds the limit with them.
        seconds
            To try for; 0 for a quick look, None for as long as it takes.
        beat
            What is worth having is less than this; None if everything is.
        """


class Looks:
    """What has been looked at of a component.

    Attributes
    ----------
    best
        The best so far.
    looks
        How many rotation problems were looked at.
    """

    def __init__(
        self, part: Instance, solve_at: SolveAt, floor_of: FloorOf, clock: Budget, seed: int
    ) -> None:
        self._part = part
        self._jobs = part.jobs
        self._solve_at = solve_at
        self._floor_of = floor_of
        self._clock = clock
        self._draw = random.Random(seed)  # noqa: S311 (not for cryptography)
        self._seen: dict[Stretch, Solved] = {}
        self._at: Stretch = ()
        self._outlook = Outlook(part, stopped=lambda: clock.stopped)
        self._root = self._floor([(0, job.max_stretch) for job in self._jobs])
        self.looks = 0

    @property
    def stretch(self) -> dict[str, int]:
        """The stretches of the best."""
        return self._named(self._at)

    @property
    def best(self) -> Solved:
        """The best so far."""
        return self._seen[self._at]

    def _look(self, stretch: Sequence[int], seconds: float | None = 0) -> Solved:
        """Solve the rotation problem at some stretches for some time; quickly, if none is given."""
        key = tuple(stretch)
        beat = self.best.values if self._seen else None
        new = self._solve_at(self._part, self._named(key), seconds, beat)
        self.looks += 1
        old = self._seen.get(key)
        if old is not None:
            bounds = [each.bound for each in (old, new) if each.bound is not None]
            better = min(old, new, key=lambda each: each.values)
            new = Solved(
                better.values,
                better.offsets,
                max(bounds, default=None),
                better.proved or new.proved,
            )
        self._seen[key] = new
        if len(self._seen) == 1 or new.values < self.best.values:
            self._at = key
        return new

    def _named(self, stretch: Stretch) -> dict[str, int]:
        return dict(zip((job.name for job in self._jobs), stretch, strict=True))

    def _price(self, stretch: Sequence[int]) -> Fraction:
        return sum(
            (
                Fraction(job.weight * slots, job.period)
                for job, slots in zip(self._jobs, stretch, strict=False)
            ),
            Fraction(0),
        )

    def _keeps_to_limit(self, decided: Stretch, order: Sequence[int]) -> bool:
        """Return whether no hyperperiod is too long, going by the jobs that are decided."""
        multiples: dict[str, int] = {}
        for index, slots in zip(order, decided, strict=False):
            job = self._jobs[index]
            for link in job.links:
                multiples[link] = math.lcm(multiples.get(link, 1), job.period + slots)
        return max(multiples.values(), default=1) <= self._part.hyperperiod_limit

    def _floor(self, box: Sequence[tuple[int, int]]) -> Values:
        """Return what the values are at least at all stretches of a box."""
        return self._floor_of(self._outlook.floor(box), self._price([least for least, _ in box]))

    def _is_hopeless(self, floor: Values) -> bool:
        """Return whether nothing above a floor is better than the best."""
        best = self.best.values
        known = best[: len(floor)]
        return floor > known or (floor == known and len(floor) == len(best))
