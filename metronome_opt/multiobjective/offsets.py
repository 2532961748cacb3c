"""One objective after the other at given periods, the earlier ones held, or their weighted sum.

What contention and latency can settle, a solver of contention does, on the same jobs with other
weights. The rest is optimised group by group. What an earlier level came to in a group may not
become worse there; where it may become worse by a tolerance, it is the sum over all groups that is
held, so that they can no longer be decided apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from metronome_opt.errors import InputError, SolverError
from metronome_opt.instance import Instance
from metronome_opt.kernels.tables import CostTooLargeError, compile_instance
from metronome_opt.multiobjective.costs import Costs, Offsets
from metronome_opt.multiobjective.goals import Found, Run
from metronome_opt.multiobjective.groups import (
    Answer,
    descend,
    group,
    keeps,
    minimise,
    without_contention,
)
from metronome_opt.objectives import (
    CUSHION,
    MIXTURE,
    class_cost,
    find_layered,
    find_objective,
    is_layered,
    normal,
    to_minimise,
    traffic,
    weigh,
    weighted_sum,
)
from metronome_opt.result import Block, Event, Level, Result, Stop
from metronome_opt.schedule import OBJECTIVES, Status
from metronome_opt.solvers.network.tables import scale_of
from metronome_opt.solvers.registry import find_solver
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.solve import Arguments, interrupt_stops, solve_contention

_DOMINANT = 10**6  # times as much counts as any times as much
_APPROXIMATED = (
    "weights: the sum does not fit 64-bit integers, so that another one of nearly the same ratio "
    "was minimised; simpler weights can be proved"
)
_SIMPLE = 100  # denominator of a ratio that is not too long to compute with
_SHARE = 0.6  # of the time that is left, at most, for a level that others follow


def solve_offsets(instance: Instance, run: Run, original: Instance | None = None) -> Found:
    """Optimise offsets at the periods of an instance.

    Parameters
    ----------
    instance
        With the periods, and the bursts, that count.
    original
        What it is a part of, with jobs that are not stretched: what latency is a share of, and
        what the objectives of a sum are divided by. The instance itself if left out.
    """
    return _AtPeriods(instance, run, instance if original is None else original).found()


class _Held(NamedTuple):
    """An objective that was optimised, or is limited, and what it may come to over all groups.

    A cushion must come to that; None if nothing may limit it. If that is exactly what the schedule
    has, it is held group by group.
    """

    name: str
    limit: Fraction | None
    exact: bool


class _AtPeriods:
    def __init__(self, instance: Instance, run: Run, original: Instance) -> None:
        self._instance = instance
        self._run = run
        self._goal = run.goal
        self._original = original
        self._base = traffic(original)
        self._found = Found(dict(instance.unshifted))
        self._held: list[_Held] = []
        self._prices = self._offset_terms(run.goal.prices)
        self._mixture = {
            name: to_minimise(name, price) / normal(original, name)
            for name, price in self._prices.items()
            if price
        }
        self._searched: Mapping[str, Fraction] = {}

    @staticmethod
    def _offset_terms(given: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """Return what is said of objectives that are a matter of offsets."""
        return {n: value for n, value in given.items() if find_objective(n).at_given_periods}

    def found(self) -> Found:
        """Go through what is limited, then through the objectives."""
        for name, limit in self._offset_terms(self._goal.epsilon).items():
            self._reach(name, limit)
        if self._mixture:
            self._mix()
        else:
            names = self._names()
            for position, name in enumerate(names):
                self._level(name, last=position == len(names) - 1)
        if all(level.proved for level in self._found.levels):
            self._found.stop = Stop.PROVED
        # What is not proved may have become better while later levels were looked at.
        self._found.levels = [
            level
            if level.proved or level.tolerance or level.name == MIXTURE
            else replace(level, value=self._value(level.name))
            for level in self._found.levels
        ]
        return self._found

    def _names(self) -> list[str]:
        """Return the levels: with strict priority contention is one for each weight class."""
        names = [name for name in self._goal.objectives if find_objective(name).at_given_periods]
        if self._goal.strict:
            weights = sorted({job.weight for job in self._instance.jobs}, reverse=True)
            names[:1] = [class_cost(weight) for weight in weights]
        return names

    def _value(self, name: str) -> Fraction | None:
        """Return an objective of the schedule; None for a cushion without limit."""
        return find_objective(name).value(self._instance, self._found.offsets, self._base)

    @property
    def _ended(self) -> bool:
        """Whether somebody has had enough: what was found so far is handed back."""
        return self._found.stop in (Stop.INTERRUPTED, Stop.RULE)

    # ---------------------------------------------------------------- levels

    def _level(self, name: str, *, last: bool) -> None:
        before = self._found.levels
        earlier = all(level.proved for level in before)
        share = 1.0 if last else _SHARE
        by_solver = not before and not self._goal.epsilon and is_layered(name)
        if not by_solver:  # a solver tells by itself
            self._tell(name)
        if self._ended:
            proved = False
        elif by_solver:
            proved = self._by_solver({name: Fraction(1)}, share, first=name)
        elif self._is_scalar(name):
            proved = self._next_layered(name, share)
        else:
            proved = self._over_groups(name, share)
            # Within limits more may be the least: that bounds no schedule but those within.
            if not before and proved and not self._goal.epsilon:
                self._found.bound = self._value(name)
        tolerance = self._goal.tolerance.get(name, Fraction(0))
        value = self._value(name)
        before.append(Level(name, value, proved and earlier, tolerance))
        if value is None or not tolerance:
            self._held.append(_Held(name, value, exact=True))
        elif name == CUSHION:
            self._held.append(_Held(name, max(Fraction(0), value * (1 - tolerance)), exact=True))
        else:
            self._held.append(_Held(name, value * (1 + tolerance), exact=False))

    def _tell(self, name: str) -> None:
        """Tell that a level begins; end all of it if that is asked for."""
        event = Event(self._run.budget.elapsed, None, None, name)
        if not self._ended and self._run.callback is not None and self._run.callback(event):
            self._found.stop = Stop.RULE

    def _is_scalar(self, name: str) -> bool:
        """Return whether a level, and all before, are a matter of other weights."""
        before = self._found.levels
        return (
            all(is_layered(each) for each in (name, *(level.name for level in before)))
            and not any(level.tolerance for level in before)
            and not self._goal.epsilon
        )

    def _next_layered(self, name: str, share: float) -> bool:
        """Optimise a layered cost with all earlier ones held, as one sum.

        A unit of an earlier one is worth more than all that the later ones come to now.
        """
        prices: dict[str, Fraction] = {}
        later = 0
        for each in (name, *(level.name for level in reversed(self._found.levels))):
            alone, _ = weigh(self._instance, {each: Fraction(1)})
            step = scale_of(compile_instance(alone))
            price = later + 1
            prices[each] = price / step
            unserved = find_layered(each).unserved(self._instance, self._found.offsets)
            later += price * int(unserved / step)
        try:
            return self._by_solver(prices, share, first=None)
        except CostTooLargeError:
            return find_solver(self._run.solver).name == "auto" and self._over_groups(name, share)

    def _by_solver(self, prices: Mapping[str, Fraction], share: float, first: str | None) -> bool:
        """Let the solver minimise a sum of layered objectives, per Mbit/s; return if proved.

        Its bound and its trajectory are those of the objective `first`, None if it is a sum.
        """
        weighted, scale = weigh(self._instance, prices)
        # Of a sum nobody knows what it says of the objective: that something goes on is all.
        known = first in OBJECTIVES
        factor = scale * find_layered(first).share(self._base) if first and known else None
        listener = self._run.callback

        def scaled(event: Event) -> Event:
            return replace(
                event,
                incumbent=_scaled(event.incumbent, factor),
                bound=_scaled(event.bound, factor),
            )

        def scaled_block(block: Block) -> Block:
            return replace(
                block, value=_scaled(block.value, factor), bound=_scaled(block.bound, factor)
            )

        arguments = Arguments(
            weighted,
            find_solver(self._run.solver),
            seed=self._run.seed,
            workers=self._run.workers,
            callback=None if listener is None else lambda event: listener(scaled(event)),
        )
        result = solve_contention(arguments, self._run.budget.fraction(share))
        self._take(result, prices)
        if known:
            self._found.trajectory = tuple(map(scaled, result.trajectory))
            self._found.bound = _scaled(result.lower_bound, factor)
            self._found.blocks = tuple(map(scaled_block, result.blocks))
        return result.status is Status.OPTIMAL

    def _take(self, result: Result, prices: Mapping[str, Fraction]) -> None:
        """Take a schedule if it is no worse in the sum that it is for."""
        found = self._found

        def total(offsets: Mapping[str, int]) -> Fraction:
            values = (
                price * find_layered(name).unserved(self._instance, offsets)
                for name, price in prices.items()
            )
            return sum(values, Fraction(0))

        if not found.levels or total(result.offsets) < total(found.offsets):
            found.offsets = dict(result.offsets)
        if found.stop in (Stop.FINISHED, Stop.PROVED):  # what cut an earlier level short remains
            found.stop = result.stop
        found.build_s += result.build_s
        if not found.levels or result.status is not Status.OPTIMAL:  # proofs need no excuses
            found.notes += [note for note in result.notes if note not in found.notes]

    # ---------------------------------------------------------------- limits

    def _reach(self, name: str, limit: Fraction) -> None:
        """Find a schedule within a limit, starting from the one there is, and hold it.

        Raises
        ------
        InputError
            If there is none.
        SolverError
            If none was found in time.
        """
        bound = to_minimise(name, limit)
        proved = True
        if to_minimise(name, self._value(name)) > bound:
            proved = self._over_groups(name)
        value = self._value(name)
        if to_minimise(name, value) > bound and proved:
            raise InputError(
                f"epsilon: {name} of {limit} cannot be had; the best possible is {value}; "
                f"{'lower' if find_objective(name).maximised else 'raise'} it to that or beyond"
            )
        if to_minimise(name, value) > bound:
            raise SolverError(
                f"epsilon: no schedule with {name} of {limit} was found in time, "
                f"only one with {value}; allow more time or loosen it"
            )
        self._held.append(_Held(name, limit, exact=False))

    # ---------------------------------------------------------------- weighted sums

    def _mix(self) -> None:
        """Optimise a weighted sum."""
        found = self._found
        widening = bool(self._mixture.pop(CUSHION, None))
        self._searched = self._mixture
        layered = {
            name: price * find_layered(name).share(self._base)
            for name, price in self._mixture.items()
            if is_layered(name)
        }
        proved = True
        only = len(layered) == len(self._mixture) and not widening
        if layered and not self._goal.epsilon:
            share = 1.0 if only else _SHARE
            try:
                proved = self._by_solver(layered, share, first=None)
            except CostTooLargeError:
                self._by_solver(_simpler(layered), share, first=None)
                proved = False
                found.notes.append(_APPROXIMATED)
        if self._mixture and (not only or self._goal.epsilon):
            try:
                proved = self._over_groups(MIXTURE)
            except CostTooLargeError:
                self._searched = _simpler(self._mixture)
                self._over_groups(MIXTURE)
                proved = False
                found.notes.append(_APPROXIMATED)
        if widening:
            proved = self._widened() and proved
        found.levels.append(Level(MIXTURE, self._mixed(), proved))

    def _mixed(self) -> Fraction:
        """Return the weighted sum of the schedule there is."""
        values = {name: self._value(name) for name in self._prices}
        return weighted_sum(self._original, self._prices, values)

    def _widened(self) -> bool:
        """Try every larger cushion with the least that the other objectives come to then."""
        if self._ended:
            return False
        best, kept = self._mixed(), dict(self._found.offsets)
        reached = self._value(CUSHION)
        proved = True
        held = list(self._held)
        while reached is not None:
            self._held = [*held, _Held(CUSHION, reached + 1, exact=False)]
            proved = self._over_groups(MIXTURE if self._mixture else CUSHION) and proved
            following = self._value(CUSHION)
            if following is not None and following <= reached:
                break
            reached = following
            if self._mixed() < best:
                best, kept = self._mixed(), dict(self._found.offsets)
            if self._ended or self._run.budget.stopped:
                proved = False
                break
        self._found.offsets = kept
        return proved

    # ---------------------------------------------------------------- groups of jobs

    def _over_groups(self, name: str, share: float = 1.0) -> bool:
        """Optimise an objective with what is held; return whether that is proved."""
        if self._ended:
            return False
        search = Search(
            self._instance,
            time_limit=self._run.budget.fraction(share).remaining,
            seed=self._run.seed,
            workers=self._run.workers,
        )
        with interrupt_stops(search):
            try:
                proved = self._improve(search, name)
            except KeyboardInterrupt:
                search.interrupt()
                proved = False
        if not proved or search.stop is Stop.INTERRUPTED:
            self._found.stop = search.stop
        return proved

    def _improve(self, search: Search, name: str) -> bool:
        names = (name, *(held.name for held in self._held))
        apart = all(each.exact or each.name == CUSHION for each in self._held)
        grouping = group(search, self._base, names, self._searched, apart=apart)
        before = self._found.offsets
        parts = [tuple(before[job.name] for job in costs.group.jobs) for costs in grouping.groups]
        proved = True
        if name == CUSHION:
            proved = self._widen(grouping.groups, parts)
        else:
            for number, costs in enumerate(grouping.groups):
                parts[number], whole = self._improved(costs, name, parts[number])
                proved = proved and whole
        named = [costs.named(part) for costs, part in zip(grouping.groups, parts, strict=True)]
        joined = grouping.join(named)
        self._found.offsets = {job.name: joined[job.name] for job in self._instance.jobs}
        return proved

    def _improved(self, costs: Costs, name: str, start: Offsets) -> tuple[Offsets, bool]:
        """Optimise an objective of a group; return the schedule and whether it is proved."""
        limits = self._limits(costs, start)
        cushion = self._cushion
        known = start if keeps(costs, start, limits, cushion) else None
        answer = minimise(costs, {name: 1}, limits, cushion=cushion, start=known)
        offsets = answer.offsets or start
        if not answer.proved:
            offsets = descend(costs, name, offsets, self._limits(costs, offsets), cushion)
        return offsets, answer.proved

    def _limits(self, costs: Costs, start: Offsets) -> dict[str, int]:
        """Return what the earlier objectives may come to in a group, in units."""
        limits: dict[str, int] = {}
        for each in self._held:
            if each.name in costs.steps:  # a cushion is no cost
                units = costs.units(each.name, start)
                if not each.exact and each.limit is not None:
                    units = int(each.limit / costs.steps[each.name])
                limits[each.name] = min(units, limits.get(each.name, units))
        return limits

    @property
    def _cushion(self) -> int:
        """The cushion that has to be kept."""
        cushions = (each.limit for each in self._held if each.name == CUSHION)
        return max(
            (self._longest if slots is None else math.ceil(slots) for slots in cushions), default=0
        )

    @property
    def _longest(self) -> int:
        """A growth of bursts that fills every period."""
        return max(job.period for job in self._instance.jobs)

    # ---------------------------------------------------------------- cushions

    def _widen(self, every: Sequence[Costs], parts: list[Offsets]) -> bool:
        """Raise the least cushion of all groups as far as it goes; return whether proved.

        No group is raised above what another one cannot exceed.
        """
        proved = True
        ceiling = self._longest
        limited = False
        for number, costs in enumerate(every):
            high = ceiling
            reached = costs.value(CUSHION, parts[number])
            while reached is not None and reached < high:
                # The first look is at the top: groups that can bear all there is are common.
                at_top = high - reached == 1 or (limited and high == ceiling)
                middle = high if at_top else int(reached + high + 1) // 2
                answer = self._with_cushion(costs, middle, parts[number])
                if answer.offsets is not None:
                    parts[number] = answer.offsets
                    reached = costs.value(CUSHION, answer.offsets)
                else:
                    proved = proved and answer.proved
                    high = middle - 1
                if costs.search.stopped:
                    proved = False
                    break
            if reached is not None:
                ceiling = min(ceiling, int(reached)) if limited else int(reached)
                limited = True
        return proved

    def _with_cushion(self, costs: Costs, slots: int, start: Offsets) -> Answer:
        """Return any schedule that has a cushion and keeps what is held."""
        limits = self._limits(costs, start)
        held = any(each.exact and is_layered(each.name) for each in self._held)
        if not held or not costs.units("latency", start):  # there may be no contention at all
            easy = without_contention(costs, slots)
            if easy is not None and keeps(costs, easy, limits):
                return Answer(easy, proved=True)
        return minimise(costs, {}, limits, cushion=slots)


def _simpler(prices: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return prices of nearly the same ratio in small numbers."""
    smallest = min(prices.values())
    return {
        name: min(price / smallest, Fraction(_DOMINANT)).limit_denominator(_SIMPLE)
        for name, price in prices.items()
    }


def _scaled(value: Fraction | None, factor: Fraction | None) -> Fraction | None:
    """Return a value in another unit; None without one."""
    return None if value is None or factor is None else value * factor
