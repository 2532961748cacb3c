"""Several objectives when jobs may be stretched: `harmonise` chooses periods, `offsets` the rest.

At given stretches every objective is optimised as it would be at any periods; what the stretches
themselves cost is one of the values that are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.clock import Clock, Run
from metronome_opt.multiobjective.costs import MIXTURE, Costs
from metronome_opt.multiobjective.found import Found
from metronome_opt.multiobjective.front import as_stated, to_minimise
from metronome_opt.multiobjective.goals import Goal, normal, weighted_sum
from metronome_opt.multiobjective.groups import traffic
from metronome_opt.multiobjective.harmonise import Harmonised, harmonise
from metronome_opt.multiobjective.looks import Solved
from metronome_opt.multiobjective.objectives import BY_NAME
from metronome_opt.multiobjective.offsets import solve_offsets
from metronome_opt.multiobjective.periods import price_of, stretched
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Event, Level, Stop
from metronome_opt.solvers import auto, greedy
from metronome_opt.solvers.search import Callback, Search
from metronome_opt.solvers.solve import interrupt_stops
from metronome_opt.verify import evaluate

_STRETCH = "stretch"
Values = tuple[Fraction, ...]


def solve_stretched(
    instance: Instance, run: Run, cushion_slots: int, *, clock: Clock | None = None
) -> Found:
    """Choose stretches and offsets.

    Parameters
    ----------
    clock
        Says when to stop, beside the time limit of the run.

    Raises
    ------
    InputError
        If no stretches bring the hyperperiods within the limit, or if tolerances or limits are
        asked for, which hold at given periods only.
    """
    return _Stretching(instance, run, cushion_slots, clock).found()


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
    base = traffic(original)
    late = sum((link.late for link in evaluation.links), Fraction(0))
    return {**evaluation.objectives, "latency": late / base if base else Fraction(0)}


class _Stretching:
    def __init__(
        self, instance: Instance, run: Run, cushion_slots: int, clock: Clock | None
    ) -> None:
        goal = run.goal
        if goal.tolerance or goal.epsilon or goal.strict:
            name = "tolerance" if goal.tolerance else "epsilon" if goal.epsilon else "strict"
            why = ", as hyperperiods are too long without" if instance.needs_stretch else ""
            raise InputError(
                f"{name}: cannot be kept while jobs are stretched{why}; leave it out, or choose "
                "periods first (multiobjective.choose_periods) and solve at those"
            )
        names = goal.objectives
        if not goal.prices and _STRETCH not in names:
            names = (*names, _STRETCH)
        self._instance = instance
        self._names = names
        self._run = run
        self._reserve = cushion_slots
        self._original = lengthen(instance, cushion_slots)
        self._clock = Clock(run) if clock is None else clock
        self._best: dict[tuple[str, ...], Values] = {}
        self._trajectory: list[Event] = []

    def found(self) -> Found:
        """Search for the best stretches."""
        with interrupt_stops(self._clock):
            best = harmonise(
                self._instance,
                self._solve_at,
                floor_of=self._floor,
                apart="cushion" not in self._names,
                stopped=lambda: self._clock.stopped,
                seed=self._run.seed,
                seconds=self._run.remaining,
            )
        return self._report(best)

    # ---------------------------------------------------------------- values

    def _values(
        self, part: Instance, offsets: Mapping[str, int], stretch: Mapping[str, int]
    ) -> Values:
        """Return what is compared, the most important first, less is better."""
        stated = self._stated(part, offsets, stretch)
        if not self._run.goal.prices:
            return tuple(to_minimise(name, stated[name]) for name in self._names)
        return (weighted_sum(self._original, self._run.goal.prices, stated),)

    def _stated(
        self, part: Instance, offsets: Mapping[str, int], stretch: Mapping[str, int]
    ) -> dict[str, Fraction | None]:
        """Return the objectives that matter, by the kernels wherever they know them."""
        wanted = self._run.goal.prices or self._names
        if "cushion" in wanted:
            return judged(self._original, part, offsets, stretch, self._reserve)
        there = at_periods(part, stretch, self._reserve)
        search = Search(there, time_limit=None, seed=0, workers=1)
        costs = Costs(search, traffic(self._original), ())
        order = tuple(offsets[job.name] for job in there.jobs)
        known = {name: costs.value(name, order) for name in wanted if name != _STRETCH}
        return {**known, _STRETCH: price_of(part, stretch)}

    def _floor(self, contention: Fraction, price: Fraction) -> Values:
        """Return what the values are at least, given what contention and stretch are at least."""
        least = {"contention": contention, _STRETCH: price}
        if not self._run.goal.prices:
            return tuple(
                to_minimise(name, None) if BY_NAME[name].maximised else least.get(name, Fraction(0))
                for name in self._names
            )
        total = Fraction(0)
        for name, weight in self._run.goal.prices.items():
            if BY_NAME[name].maximised:
                longest = max(job.period + job.max_stretch for job in self._instance.jobs)
                total -= weight * longest / normal(self._original, name)
            else:
                total += weight * least.get(name, Fraction(0)) / normal(self._original, name)
        return (total,)

    # ---------------------------------------------------------------- at given stretches

    def _solve_at(
        self,
        part: Instance,
        stretch: Mapping[str, int],
        seconds: float | None,
        beat: Values | None,
    ) -> Solved:
        """Solve the rotation problem of a component."""
        there = at_periods(part, stretch, self._reserve)
        if seconds == 0:
            offsets = _quick(there)
            return self._told(part, Solved(self._values(part, offsets, stretch), offsets))
        left = self._run.remaining
        allowed = min((each for each in (seconds, left) if each is not None), default=None)
        price = price_of(part, stretch)

        def told(event: Event) -> bool:
            return self._is_enough(event, price, beat)

        goal = self._goal_at_periods()
        if goal.objectives == ("contention",) and not goal.prices:
            return self._least_contention(part, stretch, there, allowed, told)
        run = Run(goal, "auto", allowed, self._run.seed, self._run.workers, told)
        found = solve_offsets(there, run, self._original)
        if found.stop is Stop.INTERRUPTED:
            self._clock.interrupt()
        proved = all(level.proved for level in found.levels)
        values = self._values(part, found.offsets, stretch)
        return self._told(
            part, Solved(values, found.offsets, self._bound(values, found.bound, proved), proved)
        )

    def _least_contention(
        self,
        part: Instance,
        stretch: Mapping[str, int],
        there: Instance,
        seconds: float | None,
        told: Callback,
    ) -> Solved:
        """Solve for contention alone; there is no need for the judge at every choice of periods."""
        search = Search(
            there,
            time_limit=seconds,
            seed=self._run.seed,
            workers=self._run.workers,
            callback=told,
            parent=self._clock,
        )
        auto.run(search)
        offsets = search.named() or dict(there.unshifted)
        values = self._values(part, offsets, stretch)
        bound = self._bound(values, search.bound, search.proved)
        return self._told(part, Solved(values, offsets, bound, search.proved))

    def _told(self, part: Instance, solved: Solved) -> Solved:
        """Tell of what is better than all before; return what was given."""
        jobs = tuple(job.name for job in part.jobs)
        if jobs in self._best and solved.values >= self._best[jobs]:
            return solved
        self._best[jobs] = solved.values
        incumbent = None
        if sum(map(len, self._best)) == len(self._instance.jobs):  # every component has one
            incumbent = sum((values[0] for values in self._best.values()), Fraction(0))
            if not self._run.goal.prices:
                incumbent = as_stated(self._names[0], incumbent)
        event = Event(self._run.elapsed, incumbent, None, "stretch")
        self._trajectory.append(event)
        if self._run.callback is not None and self._run.callback(event):
            self._clock.call_off()
        return solved

    def _is_enough(self, event: Event, price: Fraction, beat: Values | None) -> bool:
        """Return whether to leave some stretches, because of the time or of what they promise."""
        if self._clock.stopped:
            return True
        if beat is None or event.bound is None or self._names[:2] != ("contention", _STRETCH):
            return False
        return not self._run.goal.prices and (event.bound, price) >= beat[:2]

    def _goal_at_periods(self) -> Goal:
        goal = self._run.goal
        names = tuple(name for name in self._names if name != _STRETCH) or ("contention",)
        prices = {name: price for name, price in goal.prices.items() if name != _STRETCH}
        return replace(goal, objectives=names, prices=prices)

    def _bound(self, values: Values, first: Fraction | None, proved: bool) -> Fraction | None:
        """Return a lower bound of the first value at given stretches.

        Parameters
        ----------
        first
            Of the first objective at given periods.
        """
        if proved or (self._names[0] == _STRETCH and not self._run.goal.prices):
            return values[0]
        return first if self._names[0] == "contention" and not self._run.goal.prices else None

    # ---------------------------------------------------------------- the result

    def _report(self, best: Harmonised) -> Found:
        values = self._values(self._instance, best.offsets, best.stretch)
        if self._run.goal.prices:
            levels = [Level(MIXTURE, values[0], best.proved)]
        else:
            first = best.bound == values[0]
            levels = [
                Level(name, as_stated(name, value), best.proved or (first and not position))
                for position, (name, value) in enumerate(zip(self._names, values, strict=True))
            ]
        bound: Fraction | None = None
        if not self._run.goal.prices:
            if self._names[0] in ("contention", _STRETCH):
                bound = best.bound
            elif best.proved:
                bound = as_stated(self._names[0], values[0])
        stop = Stop.PROVED if best.proved else self._clock.stop
        notes = [
            f"{best.looks} choices of periods were looked at"
            + (", and it is proved that no other is better" if best.proved else "")
        ]
        if self._instance.needs_stretch and _STRETCH not in self._run.goal.names:
            notes.append("jobs are stretched: without, hyperperiods are above the limit")
        return Found(
            offsets=dict(best.offsets),
            stretch=dict(best.stretch),
            levels=levels,
            bound=bound if bound or bound == values[0] else None,  # 0 says nothing unless it is met
            stop=stop,
            trajectory=tuple(self._trajectory),
            notes=notes,
        )


def _quick(instance: Instance) -> dict[str, int]:
    """Return a schedule that costs next to nothing to find."""
    search = Search(instance, time_limit=None, seed=0, workers=1)
    greedy.run(search)
    return search.named() or dict(instance.unshifted)
