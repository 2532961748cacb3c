"""Fronts with stretch among the objectives: one front for each choice of periods, put together.

Where there are few choices, all of them are looked at, the cheapest first, but for those that
`StretchBounds` shows to be no better than what is known. Where there are many, only the best
schedules of some weighted sums are found, and the front is said to be incomplete.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.front import Candidate, Row, minkowski, nondominated
from metronome_opt.multiobjective.goals import Goal, Run, make_goal
from metronome_opt.multiobjective.objectives import CUSHION, STRETCH, to_minimise, traffic
from metronome_opt.multiobjective.partfronts import FrontEvent, PartFronts
from metronome_opt.multiobjective.periods import choices, price_of
from metronome_opt.multiobjective.stretchbounds import StretchBounds
from metronome_opt.multiobjective.stretching import at_periods, judged, solve_stretched
from metronome_opt.presolve.components import components
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Stop

_MAX_CHOICES = 5000
"""Of stretches of jobs that share links, all of which are looked at for a front."""
_SHARES = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100))
_ENDS = 0.4  # of the time, for the ends of a front


def front_stretched(
    instance: Instance,
    names: Sequence[str],
    run: Run,
    cushion_slots: int,
    *,
    approximate: bool = False,
    callback: Callable[[FrontEvent], bool | None] | None = None,
) -> tuple[list[Row], bool]:
    """Return offsets and stretches of the front, and whether it is proved complete.

    Parameters
    ----------
    names
        Two or three objectives; stretch is one of the values whether it is named or not.
    run
        When to stop, with which seed and how many workers.
    approximate, callback
        As `pareto` has them; the callback is told of every choice of periods.
    """
    parts = (instance,) if CUSHION in names else components(instance)
    searched = []
    for part in sorted(parts, key=choices):
        search = _Part(instance, part, names, run, cushion_slots, approximate, callback)
        searched.append((search.front(), search.complete))
    rows = [
        (
            {name: slot for offsets, _ in each.parts for name, slot in offsets.items()},
            {name: slots for _, stretch in each.parts for name, slots in stretch.items()},
        )
        for each in minkowski(names, [front for front, _ in searched])
    ]
    return rows, all(complete for _, complete in searched)


@dataclass
class _Part:
    """The front of jobs that share links."""

    whole: Instance
    part: Instance
    names: Sequence[str]
    run: Run
    reserve: int
    approximate: bool
    callback: Callable[[FrontEvent], bool | None] | None
    complete: bool = True

    def front(self) -> list[Candidate]:
        """Return the front, as far as there was time."""
        if choices(self.part) > _MAX_CHOICES:
            self.complete = False
            return nondominated(self._sampled(self._goals()))
        # The ends first: they show much of what is between to be hopeless.
        found = nondominated(self._sampled(self._goals()[:2], share=_ENDS))
        bounds = StretchBounds(self.part, stopped=lambda: self.run.stopped)
        every = self._stretches()
        for number, stretch in enumerate(every):
            event = FrontEvent(self.run.elapsed, number, len(every), len(found))
            if self.callback is not None and self.callback(event):
                self.run.call_off()
            if self.run.stopped:
                self.complete = False
                break
            floor = bounds.floor([(slots, slots) for slots in stretch.values()])
            if not self._is_hopeless(floor, stretch, found):
                found = nondominated([*found, *self._at(stretch)])
        return found

    def _stretches(self) -> list[dict[str, int]]:
        """Return the choices that keep hyperperiods to the limit, the cheapest first."""
        jobs = self.part.jobs
        every = []
        for slots in itertools.product(*(range(job.max_stretch + 1) for job in jobs)):
            stretch = {job.name: more for job, more in zip(jobs, slots, strict=True)}
            with suppress(InputError):  # a hyperperiod is too long
                at_periods(self.part, stretch, 0)
                every.append(stretch)
        return sorted(every, key=lambda stretch: price_of(self.part, stretch))

    def _is_hopeless(
        self, contention: Fraction, stretch: Mapping[str, int], found: Sequence[Candidate]
    ) -> bool:
        """Return whether something known is as good as anything at some stretches can be."""
        if CUSHION in self.names:
            return False
        known = {"contention": contention, STRETCH: price_of(self.part, stretch)}
        floors = [known.get(name, Fraction(0)) for name in self.names]
        return any(
            all(value <= low for value, low in zip(each.values, floors, strict=True))
            for each in found
        )

    def _at(self, stretch: Mapping[str, int]) -> list[Candidate]:
        """Return the front at some stretches."""
        there = at_periods(self.part, stretch, self.reserve)
        rest = [name for name in self.names if name != STRETCH]
        fronts = PartFronts(there, rest, self.run, self.approximate)
        schedules, complete = fronts.front(traffic(lengthen(self.whole, self.reserve)))
        self.complete = self.complete and complete
        return [self._candidate(offsets, stretch) for offsets in schedules]

    def _candidate(self, offsets: Mapping[str, int], stretch: Mapping[str, int]) -> Candidate:
        values = judged(
            lengthen(self.whole, self.reserve), self.part, offsets, stretch, self.reserve
        )
        return Candidate(
            tuple(to_minimise(name, values[name]) for name in self.names),
            ((dict(offsets), dict(stretch)),),
        )

    def _goals(self) -> list[Goal]:
        """Return the objectives in two orders, for the ends of the front, and weighted sums."""
        first, *others = self.names
        goals = [make_goal(order) for order in ((first, *others), (*others, first))]
        return goals + [
            make_goal([], weights={first: share, **dict.fromkeys(others, 1 - share)})
            for share in _SHARES
        ]

    def _sampled(self, goals: Sequence[Goal], share: float = 1.0) -> list[Candidate]:
        """Return the best schedules for some goals, in a share of the time that is left."""
        found: list[Candidate] = []
        left = self.run.remaining
        for goal in goals:
            if found and self.run.stopped:
                break
            allowed = None if left is None else left * share / len(goals)
            run = Run(goal, "auto", allowed, self.run.seed, self.run.workers)
            best = solve_stretched(self.part, run, self.reserve)
            if best.stop is Stop.INTERRUPTED:
                self.run.interrupt()
            found.append(self._candidate(best.offsets, best.stretch))
        return found
