"""Jobs that may be stretched: periods are chosen first, then offsets at them.

Components, which share no link, are decided separately. Where a component has few choices of
stretches all of them are tried, so that the best is proved. Otherwise those are tried that are the
cheapest within ever shorter hyperperiods (`periods`), since bursts of periods with a small common
multiple interleave best. Quick schedules say in which order the choices are solved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.costs import Costs
from metronome_opt.multiobjective.front import (
    Candidate,
    FrontEvent,
    Row,
    Values,
    minkowski,
    nondominated,
)
from metronome_opt.multiobjective.goals import Goal, Solution, make_goal
from metronome_opt.multiobjective.offsets import solve_offsets
from metronome_opt.multiobjective.periods import (
    choose_periods,
    count_choices,
    price_of,
    stretched,
)
from metronome_opt.objectives import (
    CUSHION,
    STRETCH,
    as_stated,
    find_objective,
    to_minimise,
    traffic,
)
from metronome_opt.presolve.components import components
from metronome_opt.presolve.extend import extend_bursts
from metronome_opt.result import Event, Level, Stop
from metronome_opt.solvers import greedy
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.search import Search, mean_excess
from metronome_opt.solvers.solve import Arguments, interrupt_stops

_MAX_CHOICES = 5000
"""Of stretches of a component, all of which are tried."""
_QUICK_SHARE = 0.4  # of the time of a component, at most, for quick schedules
_SOLVE_SHARE = 0.25  # of the time that is left, for each choice that is solved

_Stretch = dict[str, int]


@dataclass(frozen=True)
class _Terms:
    """The objectives, the most important first, and the whole instance, not stretched.

    Bursts of `original` are extended by `reserve`.
    """

    original: Instance
    reserve: int
    names: tuple[str, ...]

    def at_periods(self, part: Instance, stretch: Mapping[str, int]) -> Instance:
        """Return a part at some periods, bursts extended by the reserve."""
        return extend_bursts(stretched(part, stretch), self.reserve)

    def values(
        self, part: Instance, offsets: Mapping[str, int], stretch: Mapping[str, int]
    ) -> Values:
        """Return the objectives of a schedule in their order, to be minimised."""
        search = Search(self.at_periods(part, stretch), time_limit=None, seed=0, workers=1)
        costs = Costs(search, traffic(self.original), self.names)
        order = tuple(offsets[job.name] for job in search.instance.jobs)
        return tuple(
            price_of(part, stretch)
            if name == STRETCH
            else to_minimise(name, costs.value(name, order))
            for name in self.names
        )

    def lower_bounds(self, contention: Fraction, price: Fraction) -> Values:
        """Return lower bounds of the values, given those of contention and stretch."""
        known = {"contention": contention, STRETCH: price}
        return tuple(
            to_minimise(name, None)
            if find_objective(name).maximised
            else known.get(name, Fraction(0))
            for name in self.names
        )


# ------------------------------------------------------------------ choices of periods


def _choices(part: Instance) -> tuple[list[_Stretch], Fraction | None]:
    """Return the stretches to try, those of the shortest hyperperiods first.

    Also the minimum price of a choice that is not among them; None if there is none.

    Raises
    ------
    InputError
        If no stretches bring the hyperperiods within the limit.
    """
    cheapest = choose_periods(part)
    limit = part.hyperperiod_limit
    listed: list[_Stretch] = []
    others = None
    if count_choices(part) <= _MAX_CHOICES:
        for slots in itertools.product(*(range(job.max_stretch + 1) for job in part.jobs)):
            stretch = dict(zip((job.name for job in part.jobs), slots, strict=True))
            if max(_hyperperiods(part, stretch)) <= limit:
                listed.append(stretch)
    else:
        steps = [Fraction(job.weight, job.period) for job in part.jobs if job.max_stretch]
        unstretched = not any(cheapest.stretch.values())
        others = min(steps) if unstretched else cheapest.price * cheapest.proved
        limit = min(max(part.hyperperiods.values(), default=1), limit)
        while limit:
            with suppress(InputError):
                chosen = dict(choose_periods(part, limit=limit).stretch)
                listed += [] if chosen in listed else [chosen]
            limit //= 2
    return sorted(listed, key=lambda each: sum(_hyperperiods(part, each))), others


def _hyperperiods(part: Instance, stretch: Mapping[str, int]) -> list[int]:
    periods = [job.period + stretch[job.name] for job in part.jobs]
    return [1, *(math.lcm(*(periods[job] for job in users)) for users in part.jobs_on.values())]


def _load_bound(part: Instance, more: Mapping[str, int]) -> Fraction:
    """Return a lower bound of the contention at periods longer by `more` slots, or less.

    See `solvers.search.load_bound`.
    """
    total = Fraction(0)
    for link in part.links:
        users = [part.jobs[index] for index in part.jobs_on[link.name]]
        means = [
            (job.weight, Fraction(job.links[link.name] * job.volume, job.period + more[job.name]))
            for job in users
        ]
        total += mean_excess(means, link.capacity)
    return total


# ------------------------------------------------------------------ the best schedule


@dataclass(frozen=True)
class _Best:
    """The best schedule of a component; `bound` is of its first value."""

    values: Values
    offsets: Mapping[str, int]
    stretch: Mapping[str, int]
    bound: Fraction
    proved: bool = False


def solve_stretched(arguments: Arguments, goal: Goal, cushion_slots: int) -> Solution:
    """Choose stretches, then offsets.

    Raises
    ------
    InputError
        If no stretches bring the hyperperiods within the limit, or a sum is asked for.
    """
    instance, names, whole = arguments.instance, goal.objectives, arguments.budget
    if goal.prices:
        raise InputError(
            "weights: a sum has no place for stretch, without which hyperperiods are too long; "
            "give objectives in an order instead"
        )
    if STRETCH not in names:
        names = (*names, STRETCH)
    terms = _Terms(extend_bursts(instance, cushion_slots), cushion_slots, names)
    # Everything but a cushion adds up over components.
    parts = [instance] if CUSHION in names else sorted(components(instance), key=count_choices)
    trajectory: list[Event] = []

    def improved() -> None:
        trajectory.append(Event(whole.elapsed, None, None, STRETCH))
        if arguments.callback is not None and arguments.callback(trajectory[-1]):
            whole.end(Stop.RULE)

    with interrupt_stops(whole):
        best = [
            _best(part, terms, arguments, whole.fraction(1 / (len(parts) - n)), improved)
            for n, part in enumerate(parts)
        ]
    stretch = {name: slots for each in best for name, slots in each.stretch.items()}
    offsets = {name: slot for each in best for name, slot in each.offsets.items()}
    values = terms.values(instance, offsets, stretch)
    minimum = sum((each.bound for each in best), Fraction(0))
    proved = all(each.proved for each in best)
    bound: Fraction | None = None
    levels = [
        Level(name, as_stated(name, value), proved or (minimum == value and not position))
        for position, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    if proved or (minimum > 0 and names[0] != CUSHION):
        bound = as_stated(names[0], minimum)
    notes = [] if proved else ["periods were chosen first: others may be better"]
    if instance.needs_stretch and STRETCH not in goal.objectives:
        notes.append("jobs are stretched: without, hyperperiods are above the limit")
    return Solution(
        offsets=offsets,
        stretch=stretch,
        levels=levels,
        bound=bound,
        stop=Stop.PROVED if proved else whole.stop,
        trajectory=tuple(trajectory),
        notes=notes,
    )


def _best(
    part: Instance,
    terms: _Terms,
    arguments: Arguments,
    budget: Budget,
    improved: Callable[[], None],
) -> _Best:
    """Return the best schedule of a component over the choices of its periods."""
    listed, others = _choices(part)
    longest = {job.name: job.max_stretch for job in part.jobs}
    quick_budget = budget.fraction(_QUICK_SHARE)
    left: list[tuple[Values, _Stretch]] = []
    best: _Best | None = None
    for stretch in listed:
        if best is not None and quick_budget.stopped:
            left.append((best.values, stretch))
            continue
        offsets = _quick(terms.at_periods(part, stretch))
        values = terms.values(part, offsets, stretch)
        left.append((values, stretch))
        if best is None or values < best.values:
            best = _Best(values, offsets, stretch, Fraction(0))
            improved()
    assert best is not None  # noqa: S101 (there is a choice, or an error)
    open_bounds: list[Values] = []  # of choices that may still be better
    if others is not None:
        open_bounds.append(terms.lower_bounds(_load_bound(part, longest), others))
    for _, stretch in sorted(left, key=lambda each: each[0]):
        low = terms.lower_bounds(_load_bound(part, stretch), price_of(part, stretch))
        if low < best.values and not budget.stopped:
            mine = arguments.budget.child(budget.fraction(_SOLVE_SHARE).remaining)
            solved = _solve(part, stretch, terms, replace(arguments, budget=mine), best)
            if solved.values < best.values:
                best = solved
                improved()
            low = solved.values if solved.proved else max(low, (solved.bound, *low[1:]))
        open_bounds.append(low)
    minimum = min(open_bounds)
    proved = minimum >= best.values
    return replace(best, bound=best.values[0] if proved else minimum[0], proved=proved)


def _solve(
    part: Instance, stretch: _Stretch, terms: _Terms, arguments: Arguments, best: _Best
) -> _Best:
    """Choose offsets at some stretches; give up as soon as they are no better than the best."""
    names, budget = terms.names, arguments.budget
    price = price_of(part, stretch)

    def is_enough(event: Event) -> bool:
        if event.bound is None or names[:2] != ("contention", STRETCH):
            return budget.stopped
        return budget.stopped or (event.bound, price) >= best.values[:2]

    offsets_only = tuple(name for name in names if name != STRETCH)
    found = solve_offsets(
        replace(arguments, instance=terms.at_periods(part, stretch), callback=is_enough),
        make_goal(offsets_only or ("contention",)),
        terms.original,
    )
    if found.stop is Stop.INTERRUPTED:
        budget.interrupt()
    proved = all(level.proved for level in found.levels)
    values = terms.values(part, found.offsets, stretch)
    bound = Fraction(0)
    if names[0] == STRETCH:
        bound = price
    elif names[0] == "contention":
        bound = found.bound or bound
    elif names[0] == CUSHION:
        bound = to_minimise(CUSHION, None)
    return _Best(values, found.offsets, stretch, values[0] if proved else bound, proved)


def _quick(instance: Instance) -> dict[str, int]:
    """Return the schedule of the greedy heuristic."""
    search = Search(instance, time_limit=None, seed=0, workers=1)
    greedy.run(search)
    return search.named() or dict(instance.unshifted)


# ------------------------------------------------------------------ fronts


def front_stretched(
    arguments: Arguments,
    names: tuple[str, ...],
    cushion_slots: int,
    callback: Callable[[FrontEvent], bool | None] | None,
) -> tuple[list[Row], bool]:
    """Return offsets and stretches of a front of stretch and another objective.

    Also whether it is proved complete. The other objective is minimised at each choice of periods,
    the cheapest first; the callback is notified of each.
    """
    instance, whole = arguments.instance, arguments.budget
    (other,) = (name for name in names if name != STRETCH)
    terms = _Terms(extend_bursts(instance, cushion_slots), cushion_slots, names)
    fronts = []
    complete = True
    for part in sorted(components(instance), key=count_choices):
        listed, others = _choices(part)
        complete = complete and others is None
        ranked = sorted(listed, key=partial(price_of, part))
        found: list[Candidate] = []
        for number, stretch in enumerate(ranked):
            event = FrontEvent(whole.elapsed, number, len(ranked), len(found))
            if callback is not None and callback(event):
                whole.end(Stop.RULE)
            if found and whole.stopped:
                complete = False
                break
            low = terms.lower_bounds(_load_bound(part, stretch), price_of(part, stretch))
            if any(all(map(Fraction.__le__, each.values, low)) for each in found):
                continue
            mine = replace(
                arguments,
                instance=terms.at_periods(part, stretch),
                budget=whole.fraction(max(_SOLVE_SHARE, 1 / (len(ranked) - number))),
            )
            solved = solve_offsets(mine, make_goal([other]), terms.original)
            if solved.stop is Stop.INTERRUPTED:
                whole.interrupt()
            complete = complete and all(level.proved for level in solved.levels)
            values = terms.values(part, solved.offsets, stretch)
            found = nondominated([*found, Candidate(values, ((solved.offsets, stretch),))])
        fronts.append(found)
    rows = [
        (
            {name: slot for offsets, _ in each.parts for name, slot in offsets.items()},
            {name: slots for _, stretch in each.parts for name, slots in stretch.items()},
        )
        for each in minkowski(fronts)
    ]
    return rows, complete
