"""One objective after the other at given periods, or their weighted sum.

What contention and latency can settle, a solver of contention does, on the same jobs with other
weights. The rest is `Levels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from metronome_opt.errors import InputError, SolverError
from metronome_opt.instance import Instance
from metronome_opt.kernels.jobs import contention, state_of
from metronome_opt.kernels.tables import CostTooLargeError, compile_instance
from metronome_opt.multiobjective.goals import Found, Run
from metronome_opt.multiobjective.levels import Levels
from metronome_opt.multiobjective.objectives import (
    CUSHION,
    MIXTURE,
    class_cost,
    find_objective,
    is_layered,
    layered_share,
    normal,
    to_minimise,
    traffic,
    weigh,
    weighted_sum,
)
from metronome_opt.result import Block, Event, Level, Result, Stop
from metronome_opt.schedule import OBJECTIVES, Status
from metronome_opt.solvers.network.tables import scale_of
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.solve import interrupt_stops
from metronome_opt.solvers.solve import solve as solve_contention

_DOMINANT = 10**6  # times as much counts as any times as much
_APPROXIMATED = (
    "weights: the sum does not fit 64-bit integers, so that another one of nearly the same ratio "
    "was minimised; simpler weights can be proved"
)
_SIMPLE = 100  # denominator of a ratio that is not too long to compute with
_SHARE = Fraction(3, 5)  # of the time that is left, at most, for a level that others follow


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


class _AtPeriods:
    def __init__(self, instance: Instance, run: Run, original: Instance) -> None:
        self._instance = instance
        self._run = run
        self._goal = run.goal
        self._original = original
        self._base = traffic(original)
        self._found = Found(dict(instance.unshifted))
        self._limits = self._offset_terms(run.goal.epsilon)
        self._prices = self._offset_terms(run.goal.prices)
        self._mixture = {
            name: to_minimise(name, price) / normal(original, name)
            for name, price in self._prices.items()
            if price
        }
        self._searched: Mapping[str, Fraction] = self._mixture

    @staticmethod
    def _offset_terms(given: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """Return what is said of objectives that are a matter of offsets."""
        return {n: value for n, value in given.items() if find_objective(n).at_given_periods}

    def found(self) -> Found:
        """Go through what is limited, then through the objectives."""
        for name, limit in self._limits.items():
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

    # ---------------------------------------------------------------- levels

    def _level(self, name: str, *, last: bool) -> None:
        before = self._found.levels
        earlier = all(level.proved for level in before)
        share = Fraction(1) if last else _SHARE
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
            proved = self._by_levels(name, share)
            # Within limits more may be the least: that bounds no schedule but those within.
            if not before and proved and not self._goal.epsilon:
                self._found.bound = self._value(name)
        self._found.levels.append(
            Level(
                name,
                self._value(name),
                proved and earlier,
                self._goal.tolerance.get(name, Fraction(0)),
            )
        )

    def _tell(self, name: str) -> None:
        """Tell that a level begins; end all of it if that is asked for."""
        event = Event(self._run.elapsed, None, None, name)
        if not self._ended and self._run.callback is not None and self._run.callback(event):
            self._found.stop = Stop.CALLBACK

    def _is_scalar(self, name: str) -> bool:
        """Return whether a level, and all before, are a matter of other weights."""
        before = self._found.levels
        return (
            all(is_layered(each) for each in (name, *(level.name for level in before)))
            and not any(level.tolerance for level in before)
            and not self._goal.epsilon
        )

    def _next_layered(self, name: str, share: Fraction) -> bool:
        """Optimise a layered cost with all earlier ones held, as one sum.

        A unit of an earlier one is worth more than all that the later ones come to now.
        """
        if self._ended:
            return False
        prices: dict[str, Fraction] = {}
        later = 0
        for each in (name, *(level.name for level in reversed(self._found.levels))):
            alone = weigh(self._instance, {each: Fraction(1)}).instance
            step = scale_of(compile_instance(alone))
            price = later + 1
            prices[each] = price / step
            later += price * int(self._layered_value(each, self._found.offsets) / step)
        try:
            return self._by_solver(prices, share, first=None)
        except CostTooLargeError:
            return self._run.solver == "auto" and self._by_levels(name, share)

    def _by_solver(
        self, prices: Mapping[str, Fraction], share: Fraction, first: str | None
    ) -> bool:
        """Let the solver minimise a sum of layered objectives, per Mbit/s; return if proved.

        Parameters
        ----------
        first
            The objective whose bound and trajectory this is, None if it is a sum.
        """
        weighting = weigh(self._instance, prices)
        known = first in OBJECTIVES
        # Of a sum nobody knows what it says of the objective: that something goes on is all.
        factor = weighting.scale * layered_share(first, self._base) if first and known else None
        listener = self._run.callback

        def scaled(event: Event) -> Event:
            return replace(
                event,
                incumbent=_scaled(event.incumbent, factor),
                bound=_scaled(event.bound, factor),
            )

        result = solve_contention(
            weighting.instance,
            self._run.solver,
            time_limit=self._run.share(share),
            seed=self._run.seed,
            workers=self._run.workers,
            callback=None if listener is None else lambda event: listener(scaled(event)),
        )
        self._take(result, prices)
        if known:
            self._found.trajectory = tuple(map(scaled, result.trajectory))
            self._found.bound = _scaled(result.lower_bound, factor)
            self._found.blocks = tuple(_scaled_block(block, factor) for block in result.blocks)
        return result.status is Status.OPTIMAL

    def _take(self, result: Result, prices: Mapping[str, Fraction]) -> None:
        """Take a schedule if it is no worse in the sum that it is for."""
        found = self._found

        def total(offsets: Mapping[str, int]) -> Fraction:
            values = (price * self._layered_value(n, offsets) for n, price in prices.items())
            return sum(values, Fraction(0))

        if not found.levels or total(result.offsets) < total(found.offsets):
            found.offsets = dict(result.offsets)
        if found.stop in (Stop.FINISHED, Stop.PROVED):  # what cut an earlier level short remains
            found.stop = result.stop
        found.build_s += result.build_s
        if not found.levels or result.status is not Status.OPTIMAL:  # proofs need no excuses
            found.notes += [note for note in result.notes if note not in found.notes]

    def _layered_value(self, name: str, offsets: Mapping[str, int]) -> Fraction:
        """Return contention, or what a layered cost is in Mbit/s."""
        compiled = compile_instance(weigh(self._instance, {name: Fraction(1)}).instance)
        state = state_of(compiled, [offsets[job.name] for job in self._instance.jobs])
        return contention(compiled, state)

    @property
    def _ended(self) -> bool:
        """Whether somebody has had enough: what was found so far is handed back."""
        return self._found.stop in (Stop.INTERRUPTED, Stop.CALLBACK)

    def _by_levels(self, name: str, share: Fraction = Fraction(1)) -> bool:
        """Optimise an objective over groups of jobs, the earlier ones held."""
        return not self._ended and self._improved(self._levels(share), name)

    def _levels(self, share: Fraction = Fraction(1)) -> Levels:
        """Return the schedule there is, with all limits and what was optimised before held."""
        levels = Levels(self._search(share), self._base, dict(self._found.offsets), self._searched)
        for name, limit in self._limits.items():
            levels.limit(name, limit)
        for level in self._found.levels:
            levels.hold(level)
        return levels

    def _search(self, share: Fraction = Fraction(1)) -> Search:
        run = self._run
        return Search(
            self._instance, time_limit=run.share(share), seed=run.seed, workers=run.workers
        )

    def _improved(self, levels: Levels, name: str) -> bool:
        with interrupt_stops(levels.whole):
            try:
                proved = levels.improve(name)
            except KeyboardInterrupt:
                levels.whole.interrupt()
                proved = False
        self._found.offsets = dict(levels.offsets)
        if not proved:
            self._found.stop = levels.whole.stop
        return proved

    def _value(self, name: str) -> Fraction | None:
        return Levels(self._search(), self._base, self._found.offsets).value(name)

    # ---------------------------------------------------------------- limits

    def _reach(self, name: str, limit: Fraction) -> None:
        """Find a schedule within a limit, starting from the one there is.

        Raises
        ------
        InputError
            If there is none.
        SolverError
            If none was found in time.
        """
        levels = Levels(self._search(), self._base, self._found.offsets)
        for other, earlier in self._limits.items():
            if other == name:
                break
            levels.limit(other, earlier)
        bound = to_minimise(name, limit)
        if to_minimise(name, levels.value(name)) <= bound:
            return
        proved = self._improved(levels, name)
        value = levels.value(name)
        if to_minimise(name, value) <= bound:
            return
        if proved:
            raise InputError(
                f"epsilon: {name} of {limit} cannot be had; the best possible is {value}; "
                f"{'lower' if find_objective(name).maximised else 'raise'} it to that or beyond"
            )
        raise SolverError(
            f"epsilon: no schedule with {name} of {limit} was found in time, "
            f"only one with {value}; allow more time or loosen it"
        )

    # ---------------------------------------------------------------- weighted sums

    def _mix(self) -> None:
        """Optimise a weighted sum."""
        found = self._found
        widening = bool(self._mixture.pop(CUSHION, None))
        layered = {
            name: price * layered_share(name, self._base)
            for name, price in self._mixture.items()
            if is_layered(name)
        }
        proved = True
        only = len(layered) == len(self._mixture) and not widening
        if layered and not self._goal.epsilon:
            share = Fraction(1) if only else _SHARE
            try:
                proved = self._by_solver(layered, share, first=None)
            except CostTooLargeError:
                self._by_solver(_simpler(layered), share, first=None)
                proved = False
                found.notes.append(_APPROXIMATED)
        if self._mixture and (not only or self._goal.epsilon):
            try:
                proved = self._by_levels(MIXTURE)
            except CostTooLargeError:
                self._searched = _simpler(self._mixture)
                self._by_levels(MIXTURE)
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
        while reached is not None:
            levels = self._levels()
            levels.limit(CUSHION, reached + 1)
            proved = self._improved(levels, MIXTURE if self._mixture else CUSHION) and proved
            following = self._value(CUSHION)
            if following is not None and following <= reached:
                break
            reached = following
            if self._mixed() < best:
                best, kept = self._mixed(), dict(self._found.offsets)
            if levels.whole.stopped:
                proved = False
                break
        self._found.offsets = kept
        return proved


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


def _scaled_block(block: Block, factor: Fraction | None) -> Block:
    return replace(block, value=_scaled(block.value, factor), bound=_scaled(block.bound, factor))
