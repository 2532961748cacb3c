"""One objective after the other at given periods, the earlier ones held, or their weighted sum.

Orders and sums of contention and latency are optimised by a solver of contention, on the same jobs
with other weights. The rest is optimised group by group. The value of an earlier level in a group
is held there; with a tolerance it is the sum over all groups that is held, so that they can no
longer be decided separately.
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
from metronome_opt.multiobjective.goals import Request, Solution
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

_SHARE = 0.6  # of the time that is left, at most, for a level that others follow


def solve_offsets(instance: Instance, run: Request, original: Instance | None = None) -> Solution:
    """Optimise offsets at the periods of an instance.

    Parameters
    ----------
    instance
        With the periods, and the bursts, that count.
    original
        The whole, not stretched: latency is a share of its traffic, and its natural sizes divide
        the objectives of a sum. The instance itself if left out.
    """
    return _AtPeriods(instance, run, instance if original is None else original).optimise()


class _Held(NamedTuple):
    """An objective that was optimised, or is limited, and its limit over all groups.

    The limit of a cushion is its minimum, None if nothing may limit it. One that is exactly the
    value of the schedule is held group by group.
    """

    name: str
    limit: Fraction | None
    exact: bool


class _AtPeriods:
    def __init__(self, instance: Instance, run: Request, original: Instance) -> None:
        self._instance = instance
        self._run = run
        self._goal = run.goal
        self._original = original
        self._base = traffic(original)
        self._solution = Solution(dict(instance.unshifted))
        self._held: list[_Held] = []
        self._prices = self._offset_terms(run.goal.prices)
        self._mixture = {
            name: to_minimise(name, price) / normal(original, name)
            for name, price in self._prices.items()
            if price
        }

    @staticmethod
    def _offset_terms(given: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """Return the entries of the objectives that depend on offsets."""
        return {n: value for n, value in given.items() if find_objective(n).at_given_periods}

    def optimise(self) -> Solution:
        """Meet the limits, then optimise the objectives."""
        for name, limit in self._offset_terms(self._goal.epsilon).items():
            self._reach(name, limit)
        if self._mixture:
            self._mix()
        else:
            names = self._names()
            for position, name in enumerate(names):
                self._level(name, last=position == len(names) - 1)
        if all(level.proved for level in self._solution.levels):
            self._solution.stop = Stop.PROVED
        # Levels that are not proved may have improved with later ones.
        self._solution.levels = [
            level
            if level.proved or level.tolerance or level.name == MIXTURE
            else replace(level, value=self._value(level.name))
            for level in self._solution.levels
        ]
        return self._solution

    def _names(self) -> list[str]:
        """Return the levels: with strict priority contention is one for each weight class."""
        names = [name for name in self._goal.objectives if find_objective(name).at_given_periods]
        if self._goal.strict:
            weights = sorted({job.weight for job in self._instance.jobs}, reverse=True)
            names[:1] = [class_cost(weight) for weight in weights]
        return names

    def _value(self, name: str) -> Fraction | None:
        """Return an objective of the schedule; None for a cushion without limit."""
        return find_objective(name).value(self._instance, self._solution.offsets, self._base)

    @property
    def _ended(self) -> bool:
        """Whether to return the schedule there is."""
        return self._solution.stop in (Stop.INTERRUPTED, Stop.RULE)

    # ---------------------------------------------------------------- levels

    def _level(self, name: str, *, last: bool) -> None:
        before = self._solution.levels
        earlier = all(level.proved for level in before)
        share = 1.0 if last else _SHARE
        by_solver = not before and not self._goal.epsilon and is_layered(name)
        if not by_solver:  # a solver sends events itself
            self._announce(name)
        if self._ended:
            proved = False
        elif by_solver:
            proved = self._by_solver({name: Fraction(1)}, share, first=name)
        elif self._is_scalar(name):
            proved = self._next_layered(name, share)
        else:
            proved = self._is_ideal(name) or self._over_groups(name, share)
            # A minimum within limits bounds no schedule outside of them.
            if not before and proved and not self._goal.epsilon:
                self._solution.bound = self._value(name)
        tolerance = self._goal.tolerance.get(name, Fraction(0))
        value = self._value(name)
        before.append(Level(name, value, proved and earlier, tolerance))
        if value is None or not tolerance:
            self._held.append(_Held(name, value, exact=True))
        elif name == CUSHION:
            self._held.append(_Held(name, max(Fraction(0), value * (1 - tolerance)), exact=True))
        else:
            self._held.append(_Held(name, value * (1 + tolerance), exact=False))

    def _announce(self, name: str) -> None:
        """Notify the callback that a level begins; end everything if it asks for that."""
        event = Event(self._run.budget.elapsed, None, None, name)
        if not self._ended and self._run.callback is not None and self._run.callback(event):
            self._solution.stop = Stop.RULE

    def _is_ideal(self, name: str) -> bool:
        """Return whether the schedule has none of an objective, so that none is better."""
        return not find_objective(name).maximised and self._value(name) == 0

    def _is_scalar(self, name: str) -> bool:
        """Return whether a level and all before are layered, without limits."""
        before = self._solution.levels
        return (
            all(is_layered(each) for each in (name, *(level.name for level in before)))
            and not any(level.tolerance for level in before)
            and not self._goal.epsilon
        )

    def _next_layered(self, name: str, share: float) -> bool:
        """Optimise a layered cost with all earlier ones held, as one sum.

        A unit of an earlier one costs more than the later ones together do now.
        """
        prices: dict[str, Fraction] = {}
        later = 0
        for each in (name, *(level.name for level in reversed(self._solution.levels))):
            alone, _ = weigh(self._instance, {each: Fraction(1)})
            step = scale_of(compile_instance(alone))
            price = later + 1
            prices[each] = price / step
            unserved = find_layered(each).unserved(self._instance, self._solution.offsets)
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
        # The value of a sum says nothing about an objective.
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
            self._solution.trajectory = tuple(map(scaled, result.trajectory))
            self._solution.bound = _scaled(result.lower_bound, factor)
            self._solution.blocks = tuple(map(scaled_block, result.blocks))
        return result.status is Status.OPTIMAL

    def _take(self, result: Result, prices: Mapping[str, Fraction]) -> None:
        """Take a schedule if it is no worse in the sum that it is for."""
        solution = self._solution

        def total(offsets: Mapping[str, int]) -> Fraction:
            values = (
                price * find_layered(name).unserved(self._instance, offsets)
                for name, price in prices.items()
            )
            return sum(values, Fraction(0))

        if not solution.levels or total(result.offsets) < total(solution.offsets):
            solution.offsets = dict(result.offsets)
        if solution.stop in (Stop.FINISHED, Stop.PROVED):  # an earlier cut remains
            solution.stop = result.stop
        solution.build_s += result.build_s
        if not solution.levels or result.status is not Status.OPTIMAL:  # proofs need no excuses
            solution.notes += [note for note in result.notes if note not in solution.notes]

    # ---------------------------------------------------------------- limits

    def _reach(self, name: str, limit: Fraction) -> None:
        """Improve the schedule until it is within a limit, and hold that.

        Raises
        ------
        InputError
            If there is none.
        SolverError
            If time does not suffice.
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
        layered = {
            name: price * find_layered(name).share(self._base)
            for name, price in self._mixture.items()
            if is_layered(name)
        }
        by_solver = len(layered) == len(self._mixture) and not self._goal.epsilon
        if layered and not self._goal.epsilon:
            proved = self._by_solver(layered, 1.0 if by_solver else _SHARE, first=None)
        if not by_solver:
            proved = self._over_groups(MIXTURE)
        self._solution.levels.append(Level(MIXTURE, self._mixed(), proved))

    def _mixed(self) -> Fraction:
        """Return the weighted sum of the schedule there is."""
        values = {name: self._value(name) for name in self._prices}
        return weighted_sum(self._original, self._prices, values)

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
            self._solution.stop = search.stop
        return proved

    def _improve(self, search: Search, name: str) -> bool:
        names = (name, *(held.name for held in self._held))
        separately = all(each.exact or each.name == CUSHION for each in self._held)
        grouping = group(search, self._base, names, self._mixture, separately=separately)
        before = self._solution.offsets
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
        self._solution.offsets = {job.name: joined[job.name] for job in self._instance.jobs}
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
        """Return the limits of the earlier objectives in a group, in units."""
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
        """Maximise the minimum cushion of all groups; return whether that is proved.

        No group is raised above the maximum of another one.
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


def _scaled(value: Fraction | None, factor: Fraction | None) -> Fraction | None:
    """Return a value in another unit; None without one."""
    return None if value is None or factor is None else value * factor
