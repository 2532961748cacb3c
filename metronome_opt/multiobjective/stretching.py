"""Several objectives when jobs may be stretched: periods are chosen, offsets at each choice.

At given stretches every objective is optimised as it would be at any periods; what the stretches
themselves cost is one of the values that are compared. Components, which share no link, are
searched one by one (`stretchsearch`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.costs import Costs
from metronome_opt.multiobjective.goals import Found, Run
from metronome_opt.multiobjective.objectives import (
    CUSHION,
    MIXTURE,
    STRETCH,
    as_stated,
    find_objective,
    normal,
    to_minimise,
    traffic,
    weighted_sum,
)
from metronome_opt.multiobjective.offsets import solve_offsets
from metronome_opt.multiobjective.periods import choices, price_of, stretched
from metronome_opt.multiobjective.stretchsearch import Solved, StretchSearch, Values
from metronome_opt.presolve.components import components
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Event, Level, Stop
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.solve import interrupt_stops
from metronome_opt.verify import evaluate


def solve_stretched(instance: Instance, run: Run, cushion_slots: int) -> Found:
    """Choose stretches and offsets.

    Raises
    ------
    InputError
        If no stretches bring the hyperperiods within the limit, or if tolerances or limits are
        asked for, which hold at given periods only.
    """
    return _Stretching(instance, run, cushion_slots).found()


def at_periods(instance: Instance, stretch: Mapping[str, int], cushion_slots: int) -> Instance:
    """Return the instance at some periods, its bursts longer by a reserve."""
    return lengthen(stretched(instance, stretch), cushion_slots)


def judged(
    original: Instance,
    part: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
    reserve: int,
) -> dict[str, Fraction | None]:
    """Return the objectives of a part, its latency as a share of all traffic of `original`."""
    evaluation = evaluate(part, offsets, stretch, longer=reserve)
    late = sum((link.late for link in evaluation.links), Fraction(0))
    return {**evaluation.objectives, "latency": late / (traffic(original) or 1)}


class _Stretching:
    """The problem: what is compared, and how it is solved at given stretches."""

    def __init__(self, instance: Instance, run: Run, cushion_slots: int) -> None:
        goal = run.goal
        if goal.tolerance or goal.epsilon or goal.strict:
            name = "tolerance" if goal.tolerance else "epsilon" if goal.epsilon else "strict"
            why = ", as hyperperiods are too long without" if instance.needs_stretch else ""
            raise InputError(
                f"{name}: cannot be kept while jobs are stretched{why}; leave it out, or choose "
                "periods first (multiobjective.choose_periods) and solve at those"
            )
        self.prices = goal.prices
        self.names = goal.objectives
        if not goal.prices and STRETCH not in self.names:
            self.names = (*self.names, STRETCH)
        offsets_only = tuple(name for name in self.names if name != STRETCH)
        self._goal_at_periods = replace(
            goal,
            objectives=offsets_only or ("contention",),
            prices={name: price for name, price in goal.prices.items() if name != STRETCH},
        )
        self.run = run
        self._instance = instance
        self._reserve = cushion_slots
        self._original = lengthen(instance, cushion_slots)
        self._best: dict[tuple[str, ...], Values] = {}
        self._trajectory: list[Event] = []

    def found(self) -> Found:
        """Search for the best stretches."""
        parts = [self._instance]
        if CUSHION not in self.names:  # everything else adds up over components
            parts = sorted(components(self._instance), key=choices)
        clock = Budget(self.run.remaining, lambda: self.run.stopped)
        searched = []
        with interrupt_stops(self.run):
            for index, part in enumerate(parts):
                share = clock.fraction(1 / (len(parts) - index))
                seed = self.run.seed
                searched.append(StretchSearch(part, self.solve_at, self.floor, share, seed))
                try:
                    searched[-1].run()
                except KeyboardInterrupt:
                    self.run.interrupt()
        return self._report(searched)

    # ---------------------------------------------------------------- values

    def values(
        self, part: Instance, offsets: Mapping[str, int], stretch: Mapping[str, int]
    ) -> Values:
        """Return what is compared, the most important first, less is better."""
        wanted = self.prices or self.names
        if CUSHION in wanted:
            stated = judged(self._original, part, offsets, stretch, self._reserve)
        else:
            stated = {STRETCH: price_of(part, stretch)}
        there = at_periods(part, stretch, self._reserve)
        search = Search(there, time_limit=None, seed=0, workers=1)
        costs = Costs(search, traffic(self._original), tuple(wanted))
        order = tuple(offsets[job.name] for job in there.jobs)
        stated |= {name: costs.value(name, order) for name in wanted if name in costs.steps}
        if self.prices:
            return (weighted_sum(self._original, self.prices, stated),)
        return tuple(to_minimise(name, stated[name]) for name in self.names)

    def floor(self, contention: Fraction, price: Fraction) -> Values:
        """Return what the values are at least, given what contention and stretch are at least."""
        floors = {"contention": contention, STRETCH: price}
        if not self.prices:
            return tuple(
                to_minimise(name, None)
                if find_objective(name).maximised
                else floors.get(name, Fraction(0))
                for name in self.names
            )
        longest = max(job.period + job.max_stretch for job in self._instance.jobs)
        floors[CUSHION] = Fraction(-longest)
        return (
            sum(
                (
                    weight * floors.get(name, Fraction(0)) / normal(self._original, name)
                    for name, weight in self.prices.items()
                ),
                Fraction(0),
            ),
        )

    # ---------------------------------------------------------------- at given stretches

    def solve_at(
        self,
        part: Instance,
        stretch: Mapping[str, int],
        seconds: float | None,
        beat: Values | None,
    ) -> Solved:
        """Choose the offsets of a component.

        Parameters
        ----------
        seconds
            To try for; 0 for a quick look, None for as long as it takes.
        beat
            What is worth having is less than this; None if everything is.
        """
        there = at_periods(part, stretch, self._reserve)
        if seconds == 0:
            offsets = _quick(there)
            return self._tell(part, Solved(self.values(part, offsets, stretch), offsets))
        left = self.run.remaining
        price = price_of(part, stretch)
        comparable = not self.prices and self.names[:2] == ("contention", STRETCH)

        def is_enough(event: Event) -> bool:
            """Return whether to leave the stretches: for want of time, or as they are no better."""
            if self.run.stopped or beat is None or event.bound is None or not comparable:
                return self.run.stopped
            return (event.bound, price) >= beat[:2]

        allowed = min((each for each in (seconds, left) if each is not None), default=None)
        run = Run(
            self._goal_at_periods, "auto", allowed, self.run.seed, self.run.workers, is_enough
        )
        found = solve_offsets(there, run, self._original)
        if found.stop is Stop.INTERRUPTED:
            self.run.interrupt()
        proved = all(level.proved for level in found.levels)
        values = self.values(part, found.offsets, stretch)
        bound = None
        if proved or (self.names[0] == STRETCH and not self.prices):
            bound = values[0]
        elif self.names[0] == "contention" and not self.prices:
            bound = found.bound
        return self._tell(part, Solved(values, found.offsets, bound, proved))

    def _tell(self, part: Instance, solved: Solved) -> Solved:
        """Tell of what is better than all before; return what was given."""
        jobs = tuple(job.name for job in part.jobs)
        if jobs in self._best and solved.values >= self._best[jobs]:
            return solved
        self._best[jobs] = solved.values
        incumbent = None
        if sum(map(len, self._best)) == len(self._instance.jobs):  # every component has one
            incumbent = sum((values[0] for values in self._best.values()), Fraction(0))
            if not self.prices:
                incumbent = as_stated(self.names[0], incumbent)
        event = Event(self.run.elapsed, incumbent, None, "stretch")
        self._trajectory.append(event)
        if self.run.callback is not None and self.run.callback(event):
            self.run.call_off()
        return solved

    # ---------------------------------------------------------------- the result

    def _report(self, searched: Sequence[StretchSearch]) -> Found:
        stretch = {name: slots for each in searched for name, slots in each.stretch.items()}
        offsets = {name: slot for each in searched for name, slot in each.best.offsets.items()}
        least = sum((each.bound for each in searched), Fraction(0))
        proved = all(each.proved for each in searched)
        values = self.values(self._instance, offsets, stretch)
        bound: Fraction | None = None
        if self.prices:
            levels = [Level(MIXTURE, values[0], proved)]
        else:
            levels = [
                Level(name, as_stated(name, value), proved or (least == value and not position))
                for position, (name, value) in enumerate(zip(self.names, values, strict=True))
            ]
            if self.names[0] in ("contention", STRETCH):
                bound = least
            elif proved:
                bound = as_stated(self.names[0], values[0])
        looks = sum(each.looks for each in searched)
        notes = [
            f"{looks} choices of periods were looked at"
            + (", and it is proved that no other is better" if proved else "")
        ]
        if self._instance.needs_stretch and STRETCH not in self.run.goal.names:
            notes.append("jobs are stretched: without, hyperperiods are above the limit")
        return Found(
            offsets=offsets,
            stretch=stretch,
            levels=levels,
            bound=bound if bound or bound == values[0] else None,  # 0 says nothing unless it is met
            stop=Stop.PROVED if proved else self.run.stop,
            trajectory=tuple(self._trajectory),
            notes=notes,
        )


def _quick(instance: Instance) -> dict[str, int]:
    """Return a schedule that costs next to nothing to find."""
    search = Search(instance, time_limit=None, seed=0, workers=1)
    greedy.run(search)
    return search.named() or dict(instance.unshifted)
