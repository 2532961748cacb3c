"""Lexicographic order or weighted sum of objectives at given periods.

Orders and sums of contention and latency are optimised by a solver of contention, on the same jobs
with other weights. The rest is optimised group by group, the values of earlier levels held in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CUSHION, WEIGHTED_SUM, find_objective, normal, traffic
from metronome_opt.problem.result import Level, ProgressEvent, StopReason
from metronome_opt.solvers.arguments import Arguments, interrupt_stops
from metronome_opt.solvers.contention import Solution, solve_contention
from metronome_opt.solvers.cost_network.tables import scale_of
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError, compile_instance
from metronome_opt.solvers.multiobjective.costs import (
    Costs,
    Offsets,
    find_layered,
    is_layered,
    weigh,
)
from metronome_opt.solvers.multiobjective.group_search import (
    GroupResult,
    group,
    improve,
    is_feasible,
    minimise,
    without_contention,
)
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import evaluate

_SHARE = 0.6  # of the time that is left, at most, for a level that others follow


def solve_offsets(arguments: Arguments, original: Instance | None = None) -> Solution:
    """Optimise offsets at the periods of an instance.

    Latency is a share of the traffic of `original`, the whole instance, not stretched; its natural
    sizes divide the objectives of a sum.
    """
    return _AtPeriods(arguments, original or arguments.instance).optimise()


class _AtPeriods:
    def __init__(self, arguments: Arguments, original: Instance) -> None:
        self._arguments = arguments
        goal = arguments.goal
        self._instance = arguments.instance
        self._names = goal.objectives
        self._base = traffic(original)
        self._solution = Solution(dict(self._instance.unshifted))
        self._mixture = {
            name: factor / normal(original, name)
            for name, factor in goal.coefficients.items()
            if factor
        }
        self._longest = max(job.period for job in self._instance.jobs)
        """A growth of bursts that fills every period."""

    def optimise(self) -> Solution:
        """Optimise the objectives, or their sum."""
        solution = self._solution
        if self._mixture:
            self._mix()
        else:
            names = [n for n in self._names if find_objective(n).at_given_periods]
            for position, name in enumerate(names):
                self._level(name, last=position == len(names) - 1)
        if all(level.proved for level in solution.levels):
            solution.stop = StopReason.PROVED
        # Levels that are not proved may have improved with later ones.
        solution.levels = [
            level
            if level.proved or level.name == WEIGHTED_SUM
            else replace(level, value=self._value(level.name))
            for level in solution.levels
        ]
        return solution

    def _value(self, name: str) -> Fraction | None:
        """Return an objective of the schedule; None for a cushion without limit."""
        if is_layered(name):
            return self._total({name: self._share(name)}, self._solution.offsets)
        return evaluate(self._instance, self._solution.offsets).objectives[name]

    def _total(self, coefficients: Mapping[str, Fraction], offsets: Mapping[str, int]) -> Fraction:
        """Return a sum of layered objectives of a schedule, given the coefficients of Mbit/s."""
        evaluation = evaluate(self._instance, offsets)
        terms = (
            factor * find_layered(name).unserved(self._instance, evaluation)
            for name, factor in coefficients.items()
        )
        return sum(terms, Fraction(0))

    def _share(self, name: str) -> Fraction:
        """Return the value of one Mbit/s of a layered objective."""
        return find_layered(name).share(self._base)

    @property
    def _ended(self) -> bool:
        """Return True if the present schedule is to be returned."""
        return self._solution.stop in (StopReason.INTERRUPTED, StopReason.RULE, StopReason.ERROR)

    # ---------------------------------------------------------------- levels

    def _level(self, name: str, *, last: bool) -> None:
        before = self._solution.levels
        names = [*(level.name for level in before), name]
        earlier = all(level.proved for level in before)
        share = 1.0 if last else _SHARE
        by_solver = not before and is_layered(name)
        callback = self._arguments.callback
        if not (by_solver or self._ended or callback is None):  # a solver sends events itself
            event = ProgressEvent(self._arguments.budget.elapsed, None, None, name)
            if callback(event):
                self._solution.stop = StopReason.RULE
        if self._ended:
            proved = False
        elif by_solver:
            proved = self._by_solver({name: Fraction(1)}, share, first=name)
        elif all(map(is_layered, names)):
            proved = self._next_layered(names, share)
        else:
            is_ideal = name != CUSHION and self._value(name) == 0
            proved = is_ideal or self._over_groups(name, share)
            if not before and proved:
                self._solution.bound = self._value(name)
        before.append(Level(name, self._value(name), proved and earlier))

    def _next_layered(self, names: Sequence[str], share: float) -> bool:
        """Optimise the last of some layered costs with the others held, as one sum.

        A unit of an earlier one costs more than the later ones together do now.
        """
        coefficients: dict[str, Fraction] = {}
        later = 0
        for name in reversed(names):
            alone, _ = weigh(self._instance, {name: Fraction(1)})
            step = scale_of(compile_instance(alone))
            factor = later + 1
            coefficients[name] = factor / step
            later += factor * int(self._total({name: 1 / step}, self._solution.offsets))
        try:
            return self._by_solver(coefficients, share, first=None)
        except TooLargeError:
            return self._arguments.solver.name == "auto" and self._over_groups(names[-1], share)

    def _by_solver(
        self, coefficients: Mapping[str, Fraction], share: float, first: str | None
    ) -> bool:
        """Minimise a sum of layered objectives, or `first`; return whether that is proved."""
        weighted, scale = weigh(self._instance, coefficients)
        # The value of a sum says nothing about an objective.
        factor = None if first is None else scale * self._share(first)
        listener = self._arguments.callback

        def scaled(value: Fraction | None) -> Fraction | None:
            return None if value is None or factor is None else value * factor

        def scaled_event(event: ProgressEvent) -> ProgressEvent:
            return replace(event, incumbent=scaled(event.incumbent), bound=scaled(event.bound))

        arguments = replace(
            self._arguments,
            instance=weighted,
            budget=self._arguments.budget.fraction(share),
            callback=None if listener is None else lambda event: listener(scaled_event(event)),
        )
        found = solve_contention(arguments)
        self._take(found, coefficients)
        if first is not None:
            self._solution.trajectory = tuple(map(scaled_event, found.trajectory))
            self._solution.bound = scaled(found.bound)
        return found.levels[0].proved

    def _take(self, found: Solution, coefficients: Mapping[str, Fraction]) -> None:
        """Take a schedule if it is no worse in the sum that it is for."""
        solution = self._solution

        if not solution.levels or self._total(coefficients, found.offsets) < self._total(
            coefficients, solution.offsets
        ):
            solution.offsets = found.offsets
        if solution.stop in (StopReason.FINISHED, StopReason.PROVED):  # an earlier cut remains
            solution.stop = found.stop
        solution.build_s += found.build_s
        if not solution.levels or not found.levels[0].proved:  # proofs need no excuses
            solution.notes += [note for note in found.notes if note not in solution.notes]

    def _mix(self) -> None:
        """Optimise a weighted sum."""
        mixture = self._mixture
        layered = {n: factor * self._share(n) for n, factor in mixture.items() if is_layered(n)}
        by_solver = len(layered) == len(mixture)
        if layered:
            proved = self._by_solver(layered, 1.0 if by_solver else _SHARE, first=None)
        if not by_solver:
            proved = self._over_groups(WEIGHTED_SUM)
        terms = (factor * (self._value(name) or 0) for name, factor in mixture.items())
        self._solution.levels.append(Level(WEIGHTED_SUM, sum(terms, Fraction(0)), proved))

    def _over_groups(self, name: str, share: float = 1.0) -> bool:
        """Optimise an objective with what is held; return whether that is proved."""
        if self._ended:
            return False
        search = SolverRun(
            self._instance,
            time_limit=self._arguments.budget.fraction(share).remaining,
            seed=self._arguments.seed,
            threads=self._arguments.threads,
        )
        with interrupt_stops(search):
            try:
                proved = self._improve(search, name)
            except KeyboardInterrupt:
                search.interrupt()
                proved = False
        if not proved or search.stop is StopReason.INTERRUPTED:
            self._solution.stop = search.stop
        return proved

    def _improve(self, search: SolverRun, name: str) -> bool:
        names = tuple(self._mixture) or (name, *(level.name for level in self._solution.levels))
        groups, join = group(search, self._base, names)
        before = self._solution.offsets
        parts = [tuple(before[job.name] for job in costs.group.jobs) for costs in groups]
        if name == CUSHION:
            proved = self._widen(groups, parts)
        else:
            # A sum that is too large is refused before any group is improved.
            coefficients = [
                costs.coefficients_of_units(self._mixture) if self._mixture else {name: 1}
                for costs in groups
            ]
            improved = [
                self._improved(costs, wanted, start)
                for costs, wanted, start in zip(groups, coefficients, parts, strict=True)
            ]
            parts = [offsets for offsets, _ in improved]
            proved = all(whole for _, whole in improved)
        named = [costs.offsets_by_job(part) for costs, part in zip(groups, parts, strict=True)]
        joined = join(named)
        self._solution.offsets = {job.name: joined[job.name] for job in self._instance.jobs}
        return proved

    def _improved(
        self, costs: Costs, coefficients: Mapping[str, int], start: Offsets
    ) -> tuple[Offsets, bool]:
        """Optimise a sum of objectives of a group; return the schedule and whether it is proved."""
        values = [level.value for level in self._solution.levels if level.name == CUSHION]
        cushion = max((self._longest if v is None else int(v) for v in values), default=0)
        limits = self._limits(costs, start)
        answer = minimise(costs, coefficients, limits, cushion=cushion, start=start)
        offsets = answer.offsets or start
        if not answer.proved:
            offsets = improve(costs, coefficients, offsets, self._limits(costs, offsets), cushion)
        return offsets, answer.proved

    def _limits(self, costs: Costs, start: Offsets) -> dict[str, int]:
        """Return the limits of the earlier objectives in a group, in units."""
        names = (level.name for level in self._solution.levels)
        # A cushion is no cost.
        return {name: costs.units(name, start) for name in names if name in costs.steps}

    def _widen(self, groups: Sequence[Costs], parts: list[Offsets]) -> bool:
        """Maximise the minimum cushion of all groups; return whether that is proved.

        No group is raised above the maximum of another one.
        """
        proved = True
        ceiling = self._longest
        limited = False
        for number, costs in enumerate(groups):
            high = ceiling
            reached = costs.value(CUSHION, parts[number])
            while reached is not None and reached < high:
                # The maximum is tried first: groups that can bear all there is are common.
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

    def _with_cushion(self, costs: Costs, slots: int, start: Offsets) -> GroupResult:
        """Return any schedule that has a cushion and keeps what is held."""
        limits = self._limits(costs, start)
        held = any(is_layered(level.name) for level in self._solution.levels)
        if not held or not costs.units("latency", start):  # there may be no contention at all
            easy = without_contention(costs, slots)
            if easy is not None and is_feasible(costs, easy, limits):
                return GroupResult(easy, proved=True)
        return minimise(costs, {}, limits, cushion=slots)
