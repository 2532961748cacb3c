"""Good stretches, without proof: what promises most is looked at first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.multiobjective.looks import Looks, Stretch
from metronome_opt.multiobjective.outlook import Floats
from metronome_opt.multiobjective.periods import choose_periods
from metronome_opt.solvers.budget import Budget

FIRST_S = 1.0
"""What a rotation problem is given to solve it for the first time, seconds."""
_PATIENCE = 1000  # looks without a gain
_STARTS = 100
_NEAR = 40  # stretches of two jobs that are thought of for each that is better
_POLISHED = 4
_LIMIT_STEP = 4  # from one limit of the hyperperiods to the next


class Explorer(Looks):
    """Looks at what promises most, and solves the best of it for longer."""

    def explore(self, clock: Budget) -> None:
        """Look at what promises most, until nothing better has turned up for long."""
        order = range(len(self._jobs))
        promising: list[tuple[list[float], Stretch]] = []
        thought_of: set[Stretch] = set()

        def think_of(stretch: Stretch, error: float) -> None:
            if stretch not in thought_of and self._keeps_to_limit(stretch, order):
                thought_of.add(stretch)
                promised = self._promised(stretch)
                promised[0] = max(promised[0] + error, float(self._root[0]))
                heapq.heappush(promising, (promised, stretch))

        for stretch in self._starts(clock):
            think_of(stretch, 0.0)
        idle = 0
        while promising and idle < _PATIENCE:
            if clock.stopped or self._is_hopeless(self._root):
                return
            stretch = heapq.heappop(promising)[1]
            found = self._look(stretch)
            idle = 0 if self._at == stretch else idle + 1
            error = float(found.values[0]) - self._promised(stretch)[0]
            for near in self._near(stretch):
                think_of(near, error)

    def _promised(self, stretch: Stretch) -> list[float]:
        """Return the values if the guess were right."""
        guess = Fraction(self._outlook.guess(stretch))
        return [float(value) for value in self._floor_of(guess, self._price(stretch))]

    def _starts(self, clock: Budget) -> Iterator[Stretch]:
        """Yield stretches to begin with."""
        yield tuple(0 for _ in self._jobs)
        yield from self._with_short_hyperperiods(clock)
        for _ in range(_STARTS):
            if clock.stopped:
                return
            yield self._descended([self._draw.randint(0, job.max_stretch) for job in self._jobs])

    def _with_short_hyperperiods(self, clock: Budget) -> Iterator[Stretch]:
        """Yield the cheapest stretches with ever shorter hyperperiods."""
        longest = max(self._part.hyperperiods.values(), default=1)
        limit = min(longest, self._part.hyperperiod_limit)
        while (limit := limit // _LIMIT_STEP) and not clock.stopped:
            try:
                chosen = choose_periods(self._part, limit=limit)
            except InputError:
                return
            yield tuple(chosen.stretch[job.name] for job in self._jobs)

    def _descended(self, start: list[int]) -> Stretch:
        """Return where the guess can not be made less by stretching one job otherwise."""
        stretch = list(start)
        turned = True
        while turned:
            turned = False
            for job in self._draw.sample(range(len(stretch)), len(stretch)):
                guesses = self._guesses_of(job, stretch)
                least = int(guesses.argmin())
                if guesses[least] < guesses[stretch[job]]:
                    stretch[job] = least
                    turned = True
        return tuple(stretch)

    def _guesses_of(self, job: int, stretch: Sequence[int], without: int | None = None) -> Floats:
        """Return what a job at each of its stretches costs with the others, by the guess."""
        total = np.zeros(self._jobs[job].max_stretch + 1)
        for (one, other), guess in self._outlook.guesses.items():
            if one == job and other != without:
                total += guess[:, stretch[other]]
        return total

    def _near(self, stretch: Stretch) -> Iterator[Stretch]:
        """Yield what differs by one job, and of what differs by two what promises most."""
        for job, each in enumerate(self._jobs):
            for slots in range(each.max_stretch + 1):
                yield _changed(stretch, {job: slots})
        pairs: list[tuple[float, Stretch]] = []
        for (one, other), guess in self._outlook.guesses.items():
            if one < other:
                ones = self._guesses_of(one, stretch, other)
                others = self._guesses_of(other, stretch, one)
                total = guess + ones[:, None] + others
                change = total - total[stretch[one], stretch[other]]
                for place in np.argsort(change, axis=None)[:_NEAR].tolist():
                    mine, its = divmod(place, change.shape[1])
                    pairs.append((change[mine, its], _changed(stretch, {one: mine, other: its})))
        for _, near in sorted(pairs)[:_NEAR]:
            yield near

    def polish(self, clock: Budget) -> None:
        """Solve the best for longer."""
        ranked = sorted(self._seen, key=lambda stretch: self._seen[stretch].values)[:_POLISHED]
        for index, stretch in enumerate(ranked):
            if not clock.stopped and not self._seen[stretch].proved:
                left = clock.fraction(1 / (len(ranked) - index)).remaining
                self._look(stretch, FIRST_S if left is None else left)


def _changed(stretch: Stretch, slots: Mapping[int, int]) -> Stretch:
    return tuple(slots.get(job, each) for job, each in enumerate(stretch))
