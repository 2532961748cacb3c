"""Several objectives when jobs may be stretched: periods are chosen, offsets at each choice.

At given stretches every objective is optimised as it would be at any periods; what the stretches
themselves cost is one of the values that are compared. Components, which share no link, are
searched one by one. Where a component has few choices of stretches, all of them are solved, but for
those that a lower bound shows to be no better. Where it has many, those that promise most are
looked at, beginning with the cheapest periods within a few hyperperiods (`periods`); that proves
nothing but the lower bound of all.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from metronome_opt.multiobjective.periods import choices, choose_periods, price_of, stretched
from metronome_opt.multiobjective.stretchbounds import StretchBounds
from metronome_opt.presolve.components import components
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Event, Level, Stop
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.solve import interrupt_stops
from metronome_opt.verify import evaluate

MAX_CHOICES = 10_000
"""Of stretches of jobs that share links, all of which are looked at."""
_FIRST_S = 1.0  # what a choice of periods is given to solve it for the first time
_EXPLORE_SHARE = 0.4  # of the time of a component, at most, for quick looks
_PATIENCE = 1000  # quick looks without a gain
_STARTS = 100
_POLISHED = 4
_LIMIT_STEP = 4  # from one limit of the hyperperiods to the next

Values = tuple[Fraction, ...]
Stretch = tuple[int, ...]  # in the order of a component's jobs


@dataclass(frozen=True)
class _Solved:
    """The best offsets at some stretches.

    Attributes
    ----------
    values
        Of the best schedule, the most important first, less is better.
    offsets
        By job name.
    bound
        Lower bound of the first value, None if nothing is known.
    proved
        Whether no offsets are better.
    """

    values: Values
    offsets: Mapping[str, int]
    bound: Fraction | None = None
    proved: bool = False


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


def stretches(part: Instance) -> Iterator[Stretch]:
    """Yield the choices of stretches that keep hyperperiods to the limit of the instance."""
    for slots in itertools.product(*(range(job.max_stretch + 1) for job in part.jobs)):
        if _keeps_to_limit(part, slots):
            yield slots


def _keeps_to_limit(part: Instance, stretch: Stretch) -> bool:
    periods = [job.period + slots for job, slots in zip(part.jobs, stretch, strict=True)]
    multiples = (math.lcm(*(periods[job] for job in users)) for users in part.jobs_on.values())
    return max(multiples, default=1) <= part.hyperperiod_limit


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
                searched.append(_Component(self, part, clock.fraction(1 / (len(parts) - index))))
                searched[-1].run()
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
    ) -> _Solved:
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
            return self._tell(part, _Solved(self.values(part, offsets, stretch), offsets))
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
        return self._tell(part, _Solved(values, found.offsets, bound, proved))

    def _tell(self, part: Instance, solved: _Solved) -> _Solved:
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

    def _report(self, searched: Sequence[_Component]) -> Found:
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


class _Component:
    """The search for the stretches of jobs that share links.

    Attributes
    ----------
    best
        The best so far.
    bound
        Of the first value.
    proved
        Whether nothing is better.
    looks
        How many choices of stretches were looked at.
    """

    def __init__(self, problem: _Stretching, part: Instance, clock: Budget) -> None:
        self._problem = problem
        self._part = part
        self._clock = clock
        self._draw = random.Random(problem.run.seed)  # noqa: S311 (not for cryptography)
        self._solved: dict[Stretch, _Solved] = {}  # subproblem cache
        self._at: Stretch = ()
        self._bounds = StretchBounds(part, stopped=lambda: clock.stopped)
        lowest = self._bounds.floor([(0, job.max_stretch) for job in part.jobs])
        self._root = problem.floor(lowest, Fraction(0))
        self.bound = self._root[0]
        self.proved = False
        self.looks = 0

    @property
    def stretch(self) -> dict[str, int]:
        """The stretches of the best."""
        return self._named(self._at)

    @property
    def best(self) -> _Solved:
        """The best so far."""
        return self._solved[self._at]

    def run(self) -> None:
        """Search until the best is proved or the time is over."""
        first = choose_periods(self._part)  # raises an error if there are none
        self._look(tuple(first.stretch[job.name] for job in self._part.jobs))
        try:
            self._explore(self._clock.fraction(_EXPLORE_SHARE))
            if choices(self._part) <= MAX_CHOICES:
                self._enumerate()
            else:
                self._polish()
        except KeyboardInterrupt:
            self._clock.interrupt()
            self._problem.run.interrupt()
        if self._is_hopeless(self._root):
            self.bound, self.proved = self.best.values[0], True

    def _look(self, stretch: Stretch, seconds: float | None = 0) -> _Solved:
        """Solve at some stretches for some time; quickly, if none is given."""
        beat = self.best.values if self._solved else None
        new = self._problem.solve_at(self._part, self._named(stretch), seconds, beat)
        self.looks += 1
        old = self._solved.get(stretch, new)
        better = min(old, new, key=lambda each: each.values)
        bounds = [each.bound for each in (old, new) if each.bound is not None]
        new = replace(better, bound=max(bounds, default=None), proved=better.proved or new.proved)
        self._solved[stretch] = new
        if len(self._solved) == 1 or new.values < self.best.values:
            self._at = stretch
        return new

    def _named(self, stretch: Stretch) -> dict[str, int]:
        return dict(zip((job.name for job in self._part.jobs), stretch, strict=True))

    def _is_hopeless(self, floor: Values) -> bool:
        """Return whether nothing above a floor is better than the best."""
        return floor >= self.best.values

    # ---------------------------------------------------------------- few choices

    def _enumerate(self) -> None:
        """Solve at all choices, the lowest floor first, each time for longer, until one is best."""
        open_choices: list[tuple[Values, float, Stretch]] = []
        for stretch in stretches(self._part):
            if self._clock.stopped:
                return
            contention = self._bounds.floor([(slots, slots) for slots in stretch])
            price = price_of(self._part, self._named(stretch))
            open_choices.append((self._problem.floor(contention, price), _FIRST_S, stretch))
        heapq.heapify(open_choices)
        while open_choices and not self._is_hopeless(open_choices[0][0]):
            self.bound = min(open_choices[0][0][0], self.best.values[0])
            if self._clock.stopped:
                return
            floor, seconds, stretch = heapq.heappop(open_choices)
            left = self._clock.remaining
            solved = self._look(stretch, seconds if left is None else min(seconds, left))
            if not solved.proved:
                if solved.bound is not None:
                    floor = max(floor, (solved.bound, *floor[1:]))
                heapq.heappush(open_choices, (floor, 2 * seconds, stretch))
        self.bound = self.best.values[0]
        self.proved = True

    # ---------------------------------------------------------------- many choices

    def _explore(self, clock: Budget) -> None:
        """Look at what promises most, until nothing better has turned up for long."""
        promising: list[tuple[list[float], Stretch]] = []
        thought_of: set[Stretch] = set()

        def think_of(stretch: Stretch, error: float) -> None:
            if stretch not in thought_of and _keeps_to_limit(self._part, stretch):
                thought_of.add(stretch)
                promised = self._promised(stretch)
                promised[0] = max(promised[0] + error, float(self._root[0]))
                heapq.heappush(promising, (promised, stretch))

        for stretch in self._starts(clock):
            think_of(stretch, 0.0)
        idle = 0
        while promising and idle < _PATIENCE and not clock.stopped:
            if self._is_hopeless(self._root):
                return
            stretch = heapq.heappop(promising)[1]
            found = self._look(stretch)
            idle = 0 if self._at == stretch else idle + 1
            # By how much the estimate was off carries over to what is near.
            error = float(found.values[0]) - self._promised(stretch)[0]
            for job, each in enumerate(self._part.jobs):
                for slots in range(each.max_stretch + 1):
                    think_of((*stretch[:job], slots, *stretch[job + 1 :]), error)

    def _promised(self, stretch: Stretch) -> list[float]:
        """Return the values if the estimate were right."""
        estimate = Fraction(self._bounds.estimate(stretch))
        price = price_of(self._part, self._named(stretch))
        return [float(value) for value in self._problem.floor(estimate, price)]

    def _starts(self, clock: Budget) -> Iterator[Stretch]:
        """Yield none, the cheapest for ever shorter hyperperiods, and where estimates are least."""
        jobs = self._part.jobs
        yield (0,) * len(jobs)
        longest = max(self._part.hyperperiods.values(), default=1)
        limit = min(longest, self._part.hyperperiod_limit)
        while (limit := limit // _LIMIT_STEP) and not clock.stopped:
            try:
                chosen = choose_periods(self._part, limit=limit)
            except InputError:
                break
            yield tuple(chosen.stretch[job.name] for job in jobs)
        for _ in range(_STARTS):
            if clock.stopped:
                return
            yield self._descended([self._draw.randint(0, job.max_stretch) for job in jobs])

    def _descended(self, stretch: list[int]) -> Stretch:
        """Return where the estimate can not be made less by stretching one job otherwise."""
        better = True
        while better:
            better = False
            for job in self._draw.sample(range(len(stretch)), len(stretch)):
                estimates = sum(
                    cost[:, stretch[other]]
                    for (one, other), cost in self._bounds.estimates.items()
                    if one == job
                )
                if isinstance(estimates, int):  # the job meets nobody
                    continue
                slots = int(estimates.argmin())
                if estimates[slots] < estimates[stretch[job]]:
                    stretch[job] = slots
                    better = True
        return tuple(stretch)

    def _polish(self) -> None:
        """Solve the best for longer."""
        ranked = sorted(self._solved, key=lambda stretch: self._solved[stretch].values)[:_POLISHED]
        for index, stretch in enumerate(ranked):
            if not self._clock.stopped:
                left = self._clock.fraction(1 / (len(ranked) - index)).remaining
                self._look(stretch, _FIRST_S if left is None else left)


def _quick(instance: Instance) -> dict[str, int]:
    """Return a schedule that costs next to nothing to find."""
    search = Search(instance, time_limit=None, seed=0, workers=1)
    greedy.run(search)
    return search.named() or dict(instance.unshifted)
