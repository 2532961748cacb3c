"""Jobs that may be stretched: periods are chosen first, then offsets at them.

The search goes from the cheapest periods within a few hyperperiods (`periods`) to what differs from
them by one job, what promises most first; then the best are solved for longer. Last comes a tree
over the stretches of one job after the other, bounded by `StretchBounds`: that alone proves
anything. Components, which share no link, are searched one by one.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.costs import Costs
from metronome_opt.multiobjective.front import (
    Values,
)
from metronome_opt.multiobjective.goals import Found, Run
from metronome_opt.multiobjective.offsets import solve_offsets
from metronome_opt.multiobjective.periods import (
    choose_periods,
    count_choices,
    price_of,
    stretched,
)
from metronome_opt.multiobjective.stretchbounds import StretchBounds
from metronome_opt.objectives import (
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
from metronome_opt.presolve.components import components
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Event, Level, Stop
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.solve import interrupt_stops

_FIRST_S = 1.0  # what a choice of periods is given to solve it for the first time
_EXPLORE_SHARE = 0.4  # of the time of a component, at most, for quick looks
_POLISH_SHARE = 0.3  # of what is left then, for the best of what was looked at
_MAX_NODES = 2**18
_POLISHED = 4
_LIMIT_STEP = 4  # from one limit of the hyperperiods to the next

_Stretch = tuple[int, ...]  # in the order of a component's jobs
_Partial = tuple[int | None, ...]  # the same, None for what is not decided yet


# ------------------------------------------------------------------ what is compared


@dataclass(frozen=True)
class Comparison:
    """What schedules of stretched jobs are compared by.

    Attributes
    ----------
    original
        The whole, its bursts longer by `reserve`, nobody stretched.
    names, prices
        The objectives, the most important first; with prices, their weighted sum.
    """

    original: Instance
    reserve: int
    names: tuple[str, ...]
    prices: Mapping[str, Fraction]

    def at_periods(self, part: Instance, stretch: Mapping[str, int]) -> Instance:
        """Return a part at some periods, its bursts longer by the reserve."""
        return lengthen(stretched(part, stretch), self.reserve)

    def values(
        self, part: Instance, offsets: Mapping[str, int], stretch: Mapping[str, int]
    ) -> Values:
        """Return what is compared, the most important first, less is better."""
        wanted = tuple(self.prices or self.names)
        search = Search(self.at_periods(part, stretch), time_limit=None, seed=0, workers=1)
        costs = Costs(search, traffic(self.original), wanted)
        order = tuple(offsets[job.name] for job in search.instance.jobs)
        stated: dict[str, Fraction | None] = {
            name: price_of(part, stretch) if name == STRETCH else costs.value(name, order)
            for name in wanted
        }
        if self.prices:
            return (weighted_sum(self.original, self.prices, stated),)
        return tuple(to_minimise(name, stated[name]) for name in self.names)

    def lower_bounds(self, contention: Fraction, price: Fraction) -> Values:
        """Return what the values are at least, given what contention and stretch are at least."""
        known = {"contention": contention, STRETCH: price}
        if not self.prices:
            return tuple(
                to_minimise(name, None)
                if find_objective(name).maximised
                else known.get(name, Fraction(0))
                for name in self.names
            )
        longest = max(job.period + job.max_stretch for job in self.original.jobs)
        known[CUSHION] = Fraction(-longest)
        terms = (
            weight * known.get(name, Fraction(0)) / normal(self.original, name)
            for name, weight in self.prices.items()
        )
        return (sum(terms, Fraction(0)),)


@dataclass(frozen=True)
class _Solved:
    """The best offsets at some stretches; `bound` is of the first value, None if unknown."""

    values: Values
    offsets: Mapping[str, int]
    bound: Fraction | None = None
    proved: bool = False


# ------------------------------------------------------------------ the best schedule


def solve_stretched(instance: Instance, run: Run, cushion_slots: int) -> Found:
    """Choose stretches and offsets.

    Raises
    ------
    InputError
        If no stretches bring the hyperperiods within the limit, or if tolerances or limits are
        asked for, which hold at given periods only.
    """
    goal = run.goal
    if goal.tolerance or goal.epsilon or goal.strict:
        name = "tolerance" if goal.tolerance else "epsilon" if goal.epsilon else "strict"
        why = ", as hyperperiods are too long without" if instance.needs_stretch else ""
        raise InputError(
            f"{name}: cannot be kept while jobs are stretched{why}; leave it out, or choose "
            "periods first (multiobjective.choose_periods) and solve at those"
        )
    names = goal.objectives
    if not goal.prices and STRETCH not in names:
        names = (*names, STRETCH)
    original = lengthen(instance, cushion_slots)
    comparison = Comparison(original, cushion_slots, names, goal.prices)
    parts = [instance]
    if CUSHION not in names:  # everything else adds up over components
        parts = sorted(components(instance), key=count_choices)
    trajectory: list[Event] = []
    searched: list[_Component] = []

    def tell() -> None:
        """Tell of the best of the whole, which is known once every component has one."""
        incumbent = None
        if len(searched) == len(parts):
            incumbent = sum((each.best.values[0] for each in searched), Fraction(0))
            if not goal.prices:
                incumbent = as_stated(names[0], incumbent)
        trajectory.append(Event(run.budget.elapsed, incumbent, None, "stretch"))
        if run.callback is not None and run.callback(trajectory[-1]):
            run.budget.end(Stop.RULE)

    with interrupt_stops(run.budget):
        for index, part in enumerate(parts):
            share = run.budget.fraction(1 / (len(parts) - index))
            searched.append(_Component(part, comparison, run, share, tell))
            try:
                searched[-1].run()
            except KeyboardInterrupt:
                run.budget.interrupt()
    return _found(instance, run, comparison, searched, trajectory)


def _found(
    instance: Instance,
    run: Run,
    comparison: Comparison,
    searched: Sequence[_Component],
    trajectory: Sequence[Event],
) -> Found:
    """Put together what was found in components."""
    names = comparison.names
    stretch = {name: slots for each in searched for name, slots in each.stretch.items()}
    offsets = {name: slot for each in searched for name, slot in each.best.offsets.items()}
    least = sum((each.bound for each in searched), Fraction(0))
    proved = all(each.proved for each in searched)
    values = comparison.values(instance, offsets, stretch)
    bound: Fraction | None = None
    if comparison.prices:
        levels = [Level(MIXTURE, values[0], proved)]
    else:
        levels = [
            Level(name, as_stated(name, value), proved or (least == value and not position))
            for position, (name, value) in enumerate(zip(names, values, strict=True))
        ]
        if names[0] in ("contention", STRETCH):
            bound = least
        elif proved:
            bound = as_stated(names[0], values[0])
    looks = sum(each.looks for each in searched)
    shown = ", and it is proved that no other is better" if proved else ""
    notes = [f"{looks} choices of periods were looked at{shown}"]
    if instance.needs_stretch and STRETCH not in run.goal.names:
        notes.append("jobs are stretched: without, hyperperiods are above the limit")
    return Found(
        offsets=offsets,
        stretch=stretch,
        levels=levels,
        bound=bound if bound or bound == values[0] else None,  # 0 says nothing unless it is met
        stop=Stop.PROVED if proved else run.budget.stop,
        trajectory=tuple(trajectory),
        notes=notes,
    )


class _Component:
    """The search for the stretches of jobs that share links.

    Attributes
    ----------
    best, stretch
        The best so far, and its stretches by job name.
    bound, proved
        Of the first value; whether nothing is better.
    looks
        How many choices of stretches were looked at.
    """

    def __init__(
        self,
        part: Instance,
        comparison: Comparison,
        run: Run,
        budget: Budget,
        tell: Callable[[], None],
    ) -> None:
        self._part = part
        self._comparison = comparison
        self._run = run
        self._budget = budget
        self._tell = tell
        self._solved: dict[_Stretch, _Solved] = {}  # subproblem cache
        self._at: _Stretch = ()
        self._bounds = StretchBounds(part, stopped=lambda: budget.stopped)
        self._root = self._lower_bounds((None,) * len(part.jobs))
        self.bound = self._root[0]
        self.proved = False
        self.looks = 0
        first = choose_periods(part)  # raises an error if there are none
        self._cheapest = tuple(first.stretch[job.name] for job in part.jobs)

    @property
    def stretch(self) -> dict[str, int]:
        return self._named(self._at)

    @property
    def best(self) -> _Solved:
        return self._solved[self._at]

    def run(self) -> None:
        """Search until the best is proved or the time is over."""
        self._look(self._cheapest)
        self._explore(self._budget.fraction(_EXPLORE_SHARE))
        self._polish(self._budget.fraction(_POLISH_SHARE))
        self._prove()

    def _named(self, stretch: _Stretch) -> dict[str, int]:
        return dict(zip((job.name for job in self._part.jobs), stretch, strict=True))

    def _is_hopeless(self, lower_bounds: Values) -> bool:
        """Return whether nothing above some bounds is better than the best."""
        return lower_bounds >= self.best.values

    # ---------------------------------------------------------------- at given stretches

    def _look(self, stretch: _Stretch, seconds: float | None = 0) -> _Solved:
        """Solve at some stretches: for some time, None for all there is, 0 for a quick look."""
        named = self._named(stretch)
        there = self._comparison.at_periods(self._part, named)
        new = self._glance(there, named) if seconds == 0 else self._solve(there, named, seconds)
        self.looks += 1
        old = self._solved.get(stretch, new)
        better = min(old, new, key=lambda each: each.values)
        bounds = [each.bound for each in (old, new) if each.bound is not None]
        new = replace(better, bound=max(bounds, default=None), proved=better.proved or new.proved)
        first = not self._solved
        gains = first or new.values < self.best.values
        self._solved[stretch] = new
        if gains:
            self._at = stretch
            self._tell()
        return new

    def _glance(self, there: Instance, stretch: Mapping[str, int]) -> _Solved:
        """Return a schedule that costs next to nothing to find."""
        offsets = _quick(there)
        return _Solved(self._comparison.values(self._part, offsets, stretch), offsets)

    def _solve(self, there: Instance, stretch: Mapping[str, int], seconds: float | None) -> _Solved:
        names, run = self._comparison.names, self._run
        in_order = not self._comparison.prices
        price = price_of(self._part, stretch)
        best = self.best.values

        def is_enough(event: Event) -> bool:
            """Return whether to leave the stretches: for want of time, or as they are no better."""
            if event.bound is None or not in_order or names[:2] != ("contention", STRETCH):
                return run.budget.stopped
            return run.budget.stopped or (event.bound, price) >= best[:2]

        offsets_only = tuple(name for name in names if name != STRETCH)
        goal = replace(
            run.goal,
            objectives=offsets_only or ("contention",),
            prices={name: price for name, price in run.goal.prices.items() if name != STRETCH},
        )
        found = solve_offsets(
            there,
            replace(run, goal=goal, budget=run.budget.child(seconds), callback=is_enough),
            self._comparison.original,
        )
        if found.stop is Stop.INTERRUPTED:
            run.budget.interrupt()
        proved = all(level.proved for level in found.levels)
        values = self._comparison.values(self._part, found.offsets, stretch)
        bound = None
        if proved or (in_order and names[0] == STRETCH):
            bound = values[0]
        elif in_order and names[0] == "contention":
            bound = found.bound
        return _Solved(values, found.offsets, bound, proved)

    # ---------------------------------------------------------------- good stretches

    def _explore(self, budget: Budget) -> None:
        """From good stretches go to what differs by one job, while that is better.

        What promises most is looked at first.
        """
        for start in self._starts(budget):
            if start not in self._solved:
                self._look(start)
            at, better = start, True
            while better:
                better = False
                for stretch in sorted(self._near(at), key=self._promised):
                    if budget.stopped or self._is_hopeless(self._root):
                        return
                    if stretch not in self._solved and keeps_to_limit(self._part, stretch):
                        self._look(stretch)
                    if stretch in self._solved and (
                        self._solved[stretch].values < self._solved[at].values
                    ):
                        at, better = stretch, True
                        break

    def _near(self, stretch: _Stretch) -> Iterator[_Stretch]:
        """Yield what differs from some stretches by one job."""
        for job, each in enumerate(self._part.jobs):
            for slots in range(each.max_stretch + 1):
                yield (*stretch[:job], slots, *stretch[job + 1 :])

    def _promised(self, stretch: _Stretch) -> list[float]:
        """Return the values if the estimate were right."""
        estimate = Fraction(self._bounds.estimate(stretch))
        price = price_of(self._part, self._named(stretch))
        return [float(value) for value in self._comparison.lower_bounds(estimate, price)]

    def _starts(self, budget: Budget) -> Iterator[_Stretch]:
        """Yield the cheapest for ever shorter hyperperiods, and none."""
        longest = max(self._part.hyperperiods.values(), default=1)
        limit = min(longest, self._part.hyperperiod_limit)
        while limit and not budget.stopped:
            try:
                chosen = choose_periods(self._part, limit=limit)
            except InputError:
                break
            limit //= _LIMIT_STEP
            yield tuple(chosen.stretch[job.name] for job in self._part.jobs)
        none = (0,) * len(self._part.jobs)
        if keeps_to_limit(self._part, none):
            yield none

    def _polish(self, budget: Budget) -> None:
        """Solve the best for longer."""
        ranked = sorted(self._solved, key=lambda stretch: self._solved[stretch].values)[:_POLISHED]
        for index, stretch in enumerate(ranked):
            if not budget.stopped and not self._solved[stretch].proved:
                left = budget.fraction(1 / (len(ranked) - index)).remaining
                self._look(stretch, _FIRST_S if left is None else left)

    # ---------------------------------------------------------------- proof

    def _prove(self) -> None:
        """Branch on the stretches of one job after the other, the lowest bound first."""
        order = self._most_telling()
        ticks = itertools.count()
        undecided: _Partial = (None,) * len(order)
        nodes = [(self._root, len(order), next(ticks), undecided, _FIRST_S)]
        while nodes and not self._is_hopeless(nodes[0][0]):
            self.bound = min(nodes[0][0][0], self.best.values[0])
            if self._budget.stopped or len(nodes) > _MAX_NODES:
                return
            low, left, _, decided, seconds = heapq.heappop(nodes)
            if left:
                job = order[-left]
                for slots in range(self._part.jobs[job].max_stretch + 1):
                    child = (*decided[:job], slots, *decided[job + 1 :])
                    if keeps_to_limit(self._part, child):
                        raised = max(low, self._lower_bounds(child))
                        heapq.heappush(nodes, (raised, left - 1, next(ticks), child, seconds))
                continue
            stretch = tuple(slots or 0 for slots in decided)
            solved = self._solved.get(stretch)
            if solved is None or not solved.proved:
                solved = self._look(stretch, self._budget.child(seconds).remaining)
            if not solved.proved:
                if solved.bound is not None:
                    low = max(low, (solved.bound, *low[1:]))
                heapq.heappush(nodes, (low, 0, next(ticks), decided, 2 * seconds))
        self.bound, self.proved = self.best.values[0], True

    def _most_telling(self) -> list[int]:
        """Return the jobs, those first whose stretch changes the estimate most."""
        matter = [0.0] * len(self._part.jobs)
        for pair, estimates in self._bounds.estimates.items():
            for job in pair:
                matter[job] += float(np.ptp(estimates))
        return sorted(range(len(matter)), key=lambda job: -matter[job])

    def _lower_bounds(self, decided: _Partial) -> Values:
        """Return what the values are at least, whatever the undecided stretches are."""
        box = [
            (0, job.max_stretch) if slots is None else (slots, slots)
            for job, slots in zip(self._part.jobs, decided, strict=True)
        ]
        price = price_of(self._part, self._named(tuple(low for low, _ in box)))
        return self._comparison.lower_bounds(self._bounds.lower_bound(box), price)


def _quick(instance: Instance) -> dict[str, int]:
    """Return a schedule that costs next to nothing to find."""
    search = Search(instance, time_limit=None, seed=0, workers=1)
    greedy.run(search)
    return search.named() or dict(instance.unshifted)


def keeps_to_limit(part: Instance, stretch: _Partial) -> bool:
    """Return whether no hyperperiod is too long, going by the jobs that are decided."""
    periods = [
        1 if slots is None else job.period + slots
        for job, slots in zip(part.jobs, stretch, strict=True)
    ]
    multiples = (math.lcm(*(periods[job] for job in users)) for users in part.jobs_on.values())
    return max(multiples, default=1) <= part.hyperperiod_limit
