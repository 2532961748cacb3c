"""Stretching of jobs: for each choice of periods the best offsets.

Each job may extend its period by a few idle slots. A link repeats itself after the least common
multiple of the periods on it, its hyperperiod; bursts of periods with a small one interleave best.
Components, which share no link, are decided separately. Greedy schedules say in which order the
choices are solved; a choice is given up as soon as a bound says that nothing comes of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CUSHION, STRETCH, find_objective, traffic
from metronome_opt.problem.result import Level, ProgressEvent, StopReason
from metronome_opt.solvers import greedy
from metronome_opt.solvers.arguments import Arguments, Goal, interrupt_stops
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.contention import Solution
from metronome_opt.solvers.multiobjective.costs import Costs
from metronome_opt.solvers.multiobjective.front import (
    Candidate,
    FrontEvent,
    Row,
    Values,
    minkowski,
    nondominated,
)
from metronome_opt.solvers.multiobjective.offsets import solve_offsets
from metronome_opt.solvers.presolve.blocks import components
from metronome_opt.solvers.presolve.extend import extend_bursts, stretched
from metronome_opt.solvers.run import SolverRun

_NO_LIMIT = Fraction(10**12)  # more slots than any burst can grow
_MAX_CHOICES = 5000  # of stretches, all of which are tried
_GREEDY_SHARE = 0.4  # of the time of a component, at most, for greedy schedules
_SOLVE_SHARE = 0.25  # of the time that is left, for each choice that is solved

# Says whether lower bounds leave nothing to gain beside some schedules.
_IsWorse = Callable[[Values, Sequence[Candidate]], bool]
# Receives how many choices of how many are done, and the schedules; returns whether to end.
_Notify = Callable[[int, int, Sequence[Candidate]], bool | None]


def solve_stretched(arguments: Arguments) -> Solution:
    """Choose stretches, then offsets.

    Raises
    ------
    InputError
        If no stretches bring the hyperperiods within the limit, or a sum is asked for.
    """
    instance, goal, whole = arguments.instance, arguments.goal, arguments.budget
    if goal.coefficients:
        raise InputError(
            "weights: a sum has no place for stretch, without which hyperperiods are too long; "
            "give objectives in an order instead"
        )
    names = tuple(dict.fromkeys((*goal.objectives, STRETCH)))
    search = _StretchSearch(arguments, names)

    def is_worse(low: Values, candidates: Sequence[Candidate]) -> bool:
        return low >= min(candidate.values for candidate in candidates)

    def notify(*_: object) -> bool | None:
        event = ProgressEvent(whole.elapsed, None, None, STRETCH)
        return arguments.callback is not None and arguments.callback(event)

    # Everything but a cushion adds up over components.
    parts = [instance] if CUSHION in names else sorted(components(instance), key=_count_stretches)
    offsets: dict[str, int] = {}
    stretch: dict[str, int] = {}
    proved = True
    with interrupt_stops(whole):
        for number, part in enumerate(parts):
            share = whole.fraction(1 / (len(parts) - number))
            candidates, complete = search.explore(part, share, is_worse, notify)
            (best,) = min(candidates, key=lambda candidate: candidate.values).parts
            offsets |= best[0]
            stretch |= best[1]
            proved = proved and complete
    values = search.values(instance, offsets, stretch)
    notes = [] if proved else ["periods were chosen first: others may be better"]
    if instance.needs_stretch and STRETCH not in goal.objectives:
        notes.append("jobs are stretched: without, hyperperiods are above the limit")
    levels = [
        # The inverse of `_to_minimise`.
        Level(name, None if value == -_NO_LIMIT else value * _sign(name), proved)
        for name, value in zip(names, values, strict=True)
    ]
    return Solution(
        offsets=offsets,
        stretch=stretch,
        levels=levels,
        bound=levels[0].value if proved else None,
        stop=StopReason.PROVED if proved else whole.stop,
        notes=notes,
    )


def front_stretched(
    arguments: Arguments,
    names: tuple[str, ...],
    callback: Callable[[FrontEvent], bool | None] | None,
) -> tuple[list[Row], bool]:
    """Return a front of stretch and another objective, and whether it is proved complete."""
    whole = arguments.budget
    search = _StretchSearch(arguments, names)

    def is_worse(low: Values, candidates: Sequence[Candidate]) -> bool:
        return any(all(map(Fraction.__le__, known.values, low)) for known in candidates)

    def notify(done: int, count: int, candidates: Sequence[Candidate]) -> bool | None:
        event = FrontEvent(whole.elapsed, done, count, len(candidates))
        return callback is not None and callback(event)

    explored = [
        search.explore(part, whole, is_worse, notify)
        for part in sorted(components(arguments.instance), key=_count_stretches)
    ]
    rows: list[Row] = [
        (
            {name: slot for offsets, _ in point.parts for name, slot in offsets.items()},
            {name: slots for _, stretch in point.parts for name, slots in stretch.items()},
        )
        for point in minkowski([nondominated(candidates) for candidates, _ in explored])
    ]
    return rows, all(complete for _, complete in explored)


def _count_stretches(part: Instance) -> int:
    return sum(job.max_stretch for job in part.jobs)


@dataclass(frozen=True)
class _StretchSearch:
    """The search for objectives in an order, stretch among them."""

    arguments: Arguments
    names: tuple[str, ...]

    @property
    def original(self) -> Instance:
        """The whole instance, bursts extended by the reserve."""
        return extend_bursts(self.arguments.instance, self.arguments.cushion_slots)

    @property
    def at_periods(self) -> tuple[str, ...]:
        """The objectives at given periods."""
        return tuple(name for name in self.names if name != STRETCH) or ("contention",)

    def values(
        self, part: Instance, offsets: Mapping[str, int], stretch: Mapping[str, int]
    ) -> Values:
        """Return the objectives of a schedule in their order, to be minimised."""
        search = SolverRun(self._stretched(part, stretch), time_limit=None, seed=0, threads=1)
        costs = Costs(search, traffic(self.original), self.names)
        order = tuple(offsets[job.name] for job in search.instance.jobs)
        return tuple(
            stretch_cost(part, stretch)
            if name == STRETCH
            else _to_minimise(name, costs.value(name, order))
            for name in self.names
        )

    def explore(
        self, part: Instance, budget: Budget, is_worse: _IsWorse, notify: _Notify
    ) -> tuple[list[Candidate], bool]:
        """Return schedules of a component, and whether it is proved that none is missing."""
        choices, all_listed = list_choices(part)
        complete = True
        candidates: list[Candidate] = []
        quick = budget.fraction(_GREEDY_SHARE)
        for stretch in choices:
            if not (candidates and quick.stopped):
                offsets = _greedy(self._stretched(part, stretch))
                values = self.values(part, offsets, stretch)
                candidates.append(Candidate(values, ((offsets, stretch),)))
        ordered = sorted(candidates, key=lambda candidate: candidate.values)
        ranked = [*(known.parts[0][1] for known in ordered), *choices[len(candidates) :]]
        for number, stretch in enumerate(ranked):
            if notify(number, len(ranked), candidates):
                self.arguments.budget.end(StopReason.RULE)
            cost = stretch_cost(part, stretch)
            if is_worse(self._low(cost), candidates):
                continue
            if budget.stopped:
                complete = False
                break
            closed = self._solve(part, stretch, budget, is_worse, candidates)
            complete = complete and closed
        if not all_listed:  # what is not listed is stretched
            steps = [Fraction(job.weight, job.period) for job in part.jobs if job.max_stretch]
            complete = complete and is_worse(self._low(min(steps)), candidates)
        return candidates, complete

    def _solve(
        self,
        part: Instance,
        stretch: dict[str, int],
        budget: Budget,
        is_worse: _IsWorse,
        candidates: list[Candidate],
    ) -> bool:
        """Add the best schedule at some stretches; return whether no better one is missing."""
        cost = stretch_cost(part, stretch)

        def is_enough(event: ProgressEvent) -> bool:
            return budget.stopped or (
                event.bound is not None and is_worse(self._low(cost, event.bound), candidates)
            )

        solved = solve_offsets(
            replace(
                self.arguments,
                instance=self._stretched(part, stretch),
                budget=self.arguments.budget.child(budget.fraction(_SOLVE_SHARE).remaining),
                callback=is_enough,
                goal=Goal(self.at_periods),
            ),
            self.original,
        )
        if solved.stop is StopReason.INTERRUPTED:
            budget.interrupt()
        values = self.values(part, solved.offsets, stretch)
        closed = all(level.proved for level in solved.levels) or is_worse(
            self._low(cost, solved.bound), candidates
        )
        candidates.append(Candidate(values, ((solved.offsets, stretch),)))
        return closed

    def _stretched(self, part: Instance, stretch: Mapping[str, int]) -> Instance:
        """Return a part at some periods, bursts extended by the reserve."""
        return extend_bursts(stretched(part, stretch), self.arguments.cushion_slots)

    def _low(self, cost: Fraction, bound: Fraction | None = None) -> Values:
        """Return lower bounds of the values, given the cost of stretches and a first bound."""
        known = {self.at_periods[0]: bound or Fraction(0), STRETCH: cost}
        return tuple(
            _to_minimise(name, None) if _sign(name) < 0 else known.get(name, Fraction(0))
            for name in self.names
        )


def _greedy(instance: Instance) -> dict[str, int]:
    search = SolverRun(instance, time_limit=None, seed=0, threads=1)
    greedy.run(search)
    return search.offsets_by_job() or dict(instance.unshifted)


def _sign(name: str) -> int:
    return -1 if find_objective(name).maximised else 1


def _to_minimise(name: str, value: Fraction | None) -> Fraction:
    """Return an objective as a number to minimise; None is a cushion without limit."""
    return -_NO_LIMIT if value is None else value * _sign(name)


def list_choices(part: Instance) -> tuple[list[dict[str, int]], bool]:
    """Return the stretches to try, those of the shortest hyperperiods first; and if these are all.

    All of them where they are few. Otherwise all jobs have periods that are multiples of a base,
    each the shortest one, and every base is tried.

    Raises
    ------
    InputError
        If none of them brings the hyperperiods within the limit.
    """
    jobs = part.jobs
    few = math.prod(job.max_stretch + 1 for job in jobs) <= _MAX_CHOICES
    tried: Iterable[tuple[int, ...]]
    if few:
        tried = itertools.product(*(range(job.max_stretch + 1) for job in jobs))
    else:
        bases = range(1, max(job.period + job.max_stretch for job in jobs) + 1)
        tried = (tuple(-job.period % base for job in jobs) for base in bases)
    allowed = {}
    for slots in tried:
        if all(mine <= job.max_stretch for mine, job in zip(slots, jobs, strict=True)):
            periods = [job.period + mine for job, mine in zip(jobs, slots, strict=True)]
            users = part.jobs_on.values()
            multiples = [math.lcm(*(periods[index] for index in used)) for used in users]
            if max(multiples, default=1) <= part.hyperperiod_limit:
                allowed[slots] = sum(multiples)
    if not allowed:
        longest = max(part.hyperperiods, key=part.hyperperiods.__getitem__)
        raise InputError(
            f"max_stretch: {'no' if few else 'found no'} stretches of the {len(jobs)} jobs around "
            f"link {quote(longest)} that give every link a hyperperiod of at most "
            f"{part.hyperperiod_limit} slots; allow more stretch, coarsen the slots or raise the "
            "limit"
        )
    names = [job.name for job in jobs]
    ranked = sorted(allowed, key=allowed.__getitem__)
    return [dict(zip(names, slots, strict=True)) for slots in ranked], few


def stretch_cost(instance: Instance, stretch: Mapping[str, int]) -> Fraction:
    """Return the objective ``stretch``: the sum of ``weight * stretch / period``."""
    return sum(
        (Fraction(job.weight * stretch[job.name], job.period) for job in instance.jobs), Fraction(0)
    )
