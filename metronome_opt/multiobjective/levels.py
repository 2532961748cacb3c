"""One objective after the other, the earlier ones held: at given periods, from a first schedule.

Each level is optimised group by group. What an earlier level came to in a group may not become
worse there; where it may become worse by a tolerance, it is the sum over all groups that is held,
so that they can no longer be decided apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from metronome_opt.kernels.tables import CostTooLargeError
from metronome_opt.multiobjective.costs import Costs, Offsets, group
from metronome_opt.multiobjective.nondominated import Archive, Nondominated
from metronome_opt.multiobjective.objectives import (
    CUSHION,
    LAYERED,
    JobObjective,
    find_objective,
    is_layered,
    layered_share,
    layered_weight,
    weigh,
)
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Level
from metronome_opt.schedule import OBJECTIVES
from metronome_opt.solvers import auto, greedy
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError
from metronome_opt.verify import evaluate

_MAX_ROTATIONS = 100_000
_PARTS = 3  # of the time that is left, for an end of a front: another end, and what is between


@dataclass(frozen=True)
class _Held:
    """An objective that has been optimised.

    Attributes
    ----------
    name
        Of the objective.
    limit
        What it may come to over all groups; of a cushion what it must come to, None if nothing may
        limit it.
    exact
        Whether that is what the schedule has: then it is held group by group.
    """

    name: str
    limit: Fraction | None
    exact: bool = True


@dataclass
class Levels:
    """A schedule that is improved level by level.

    Parameters
    ----------
    whole
        Of the instance at the periods that were chosen; says when to stop.
    base
        The traffic that latency is a share of, Mbit/s.
    offsets
        By job name: the schedule so far.
    mixture
        Prices of objectives whose sum is the level `MIXTURE`.
    """

    whole: Search
    base: Fraction
    offsets: dict[str, int]
    mixture: Mapping[str, Fraction] = field(default_factory=dict)
    held: list[_Held] = field(default_factory=list)

    def hold(self, level: Level) -> None:
        """Hold an objective at what it came to, or within its tolerance of that."""
        if level.value is None or not level.tolerance:
            self.held.append(_Held(level.name, level.value))
        elif level.name == CUSHION:
            smallest = max(Fraction(0), level.value * (1 - level.tolerance))
            self.held.append(_Held(level.name, smallest))
        else:
            self.limit(level.name, level.value * (1 + level.tolerance))

    def limit(self, name: str, limit: Fraction) -> None:
        """Hold an objective at no more than a value, of a cushion at no less."""
        self.held.append(_Held(name, limit, exact=False))

    def value(self, name: str) -> Fraction | None:
        """Return an objective of the schedule at its periods; None for a cushion without limit."""
        jobs = self.whole.instance.jobs
        if name in OBJECTIVES and name != "latency":
            return evaluate(self.whole.instance, self.offsets).objectives[name]
        objective = find_objective(name)
        if isinstance(objective, JobObjective):
            return Fraction(sum(objective.units(job, self.offsets[job.name]) for job in jobs))
        # What each job does not get, by the judge; its latency may be that of a part alone.
        unserved = evaluate(self.whole.instance, self.offsets).unserved
        counted = (unserved[job.name] * layered_weight(name, job.weight) for job in jobs)
        return sum(counted, Fraction(0)) * layered_share(name, self.base)

    def improve(self, name: str) -> bool:
        """Optimise an objective with the earlier ones held; return whether that is proved."""
        names = (name, *(held.name for held in self.held))
        apart = all(each.exact or each.name == CUSHION for each in self.held)
        grouping = group(self.whole.instance, [*names, *self.mixture], apart=apart)
        every = grouping.costs(self.whole, self.base, names, self.mixture)
        parts = [self._at(costs) for costs in every]
        if name == CUSHION:
            proved = self._widen(every, parts)
        else:
            proved = True
            for number, costs in enumerate(every):
                parts[number], whole = self._improved(costs, name, parts[number])
                proved = proved and whole
        named = [costs.named(part) for costs, part in zip(every, parts, strict=True)]
        joined = grouping.join(named)
        self.offsets = {job.name: joined[job.name] for job in self.whole.instance.jobs}
        return proved

    def _improved(self, costs: Costs, name: str, start: Offsets) -> tuple[Offsets, bool]:
        """Optimise an objective of a group; return the schedule and whether it is proved."""
        limits = self._limits(costs, start)
        within = _keeps(costs, start, limits) and self._bears(costs, start)
        answer = minimise(
            costs, {name: 1}, limits, cushion=self._cushion, start=start if within else None
        )
        offsets = answer.offsets or start
        if not answer.proved:
            offsets = self._descended(costs, name, offsets)
        return offsets, answer.proved

    def _limits(self, costs: Costs, start: Offsets) -> dict[str, int]:
        """Return what the earlier objectives may come to in a group, in units."""
        limits: dict[str, int] = {}
        for each in self.held:
            if each.name in costs.steps:  # a cushion is no cost
                units = costs.units(each.name, start)
                if not each.exact and each.limit is not None:
                    units = int(each.limit / costs.steps[each.name])
                limits[each.name] = min(units, limits.get(each.name, units))
        return limits

    @property
    def _cushion(self) -> int:
        """The cushion that has to be kept."""
        cushions = (each.limit for each in self.held if each.name == CUSHION)
        return max(
            (self._longest if slots is None else math.ceil(slots) for slots in cushions), default=0
        )

    @property
    def _longest(self) -> int:
        """A growth of bursts that fills every period."""
        return max(job.period for job in self.whole.instance.jobs)

    def _at(self, costs: Costs) -> Offsets:
        return tuple(self.offsets[job.name] for job in costs.group.jobs)

    def _bears(self, costs: Costs, offsets: Offsets) -> bool:
        """Return whether a schedule of a group has the cushion that has to be kept."""
        if not self._cushion:
            return True
        reached = costs.cushion(offsets)
        return reached is None or reached >= self._cushion

    # ---------------------------------------------------------------- moves of single jobs

    def _descended(self, costs: Costs, name: str, start: Offsets) -> Offsets:
        """Rotate the group, then move single jobs: while that is better and holds the rest."""
        limits = self._limits(costs, start)
        offsets = start if is_layered(name) else _rotated(costs, name, start, limits)
        better = True
        while better and not self.whole.stopped:
            better = False
            for job, moved in enumerate(costs.group.jobs):
                if moved.fixed_offset is not None:
                    continue
                around = costs.around(offsets, job)
                kept = np.flatnonzero(
                    np.all([around[held] <= limit for held, limit in limits.items()], axis=0)
                    & (around[name] < around[name][offsets[job]])
                )
                for offset in kept[np.argsort(around[name][kept], kind="stable")]:
                    tried = (*offsets[:job], int(offset), *offsets[job + 1 :])
                    if self._bears(costs, tried):
                        offsets, better = tried, True
                        break
        return offsets

    # ---------------------------------------------------------------- cushions

    def _widen(self, every: Sequence[Costs], parts: list[Offsets]) -> bool:
        """Raise the least cushion of all groups as far as it goes; return whether proved."""
        proved = True
        ceiling: int | None = None  # what some group cannot exceed
        for number, costs in enumerate(every):
            parts[number], reached, whole = self._widest(costs, parts[number], ceiling)
            proved = proved and whole
            if reached is not None:
                ceiling = reached if ceiling is None else min(ceiling, reached)
        return proved

    def _widest(
        self, costs: Costs, offsets: Offsets, ceiling: int | None
    ) -> tuple[Offsets, int | None, bool]:
        """Raise the cushion of a group, no further than `ceiling`.

        Returns
        -------
        tuple
            The schedule, its cushion, and whether no larger one is possible.
        """
        reached = costs.cushion(offsets)
        high = self._longest if ceiling is None else ceiling
        proved = True
        while reached is not None and reached < high:
            # The first look is at the top: groups that can bear all there is are common.
            middle = high if high == ceiling or high - reached == 1 else (reached + high + 1) // 2
            answer = self._with_cushion(costs, middle, offsets)
            if answer.offsets is not None:
                offsets, reached = answer.offsets, costs.cushion(answer.offsets)
            else:
                proved = proved and answer.proved
                high = middle - 1
                ceiling = None
            if self.whole.stopped:
                return offsets, reached, False
        return offsets, reached, proved

    def _with_cushion(self, costs: Costs, slots: int, start: Offsets) -> Answer:
        """Return any schedule that has a cushion and keeps what is held."""
        limits = self._limits(costs, start)
        held = any(each.exact and is_layered(each.name) for each in self.held)
        if not held or not costs.units("latency", start):  # there may be no contention at all
            easy = _without_contention(costs, slots)
            if easy is not None and _keeps(costs, easy, limits):
                return Answer(easy, proved=True)
        return minimise(costs, {}, limits, cushion=slots)


def _keeps(costs: Costs, offsets: Offsets, limits: Mapping[str, int]) -> bool:
    return all(costs.units(name, offsets) <= limit for name, limit in limits.items())


def _rotated(costs: Costs, name: str, start: Offsets, limits: Mapping[str, int]) -> Offsets:
    """Return the rotation of the whole group that is best for a sum over its jobs."""
    jobs = costs.group.jobs
    common = math.lcm(*(job.period for job in jobs))
    if any(job.fixed_offset is not None for job in jobs) or common > _MAX_ROTATIONS:
        return start
    singles = {held: limit for held, limit in limits.items() if not is_layered(held)}
    rotations = (
        tuple((offset + by) % job.period for job, offset in zip(jobs, start, strict=True))
        for by in range(common)
    )
    allowed = (each for each in rotations if _keeps(costs, each, singles))
    return min(allowed, key=lambda each: costs.units(name, each), default=start)


def _without_contention(costs: Costs, slots: int) -> Offsets | None:
    """Return a schedule without any contention although bursts are longer, if one is found."""
    alike = weigh(costs.group, {"latency": Fraction(1)}).instance  # a weight of 0 costs nothing
    search = costs.search.below(lengthen(alike, slots))
    search.limit_to(search.remaining, 4)
    auto.run(search)
    return search.best if search.incumbent == 0 else None


# ------------------------------------------------------------------ one group


@dataclass(frozen=True)
class Answer:
    """What a group came to.

    Attributes
    ----------
    offsets
        The best schedule that was found, in the order of the jobs; None if none was.
    proved
        Whether there is no better one, or none at all.
    """

    offsets: Offsets | None
    proved: bool


def minimise(
    costs: Costs,
    prices: Mapping[str, int],
    limits: Mapping[str, int],
    *,
    cushion: int = 0,
    start: Offsets | None = None,
) -> Answer:
    """Return the schedule with the least weighted sum of objectives, others within limits.

    Parameters
    ----------
    costs
        Of the group; its search says when to stop.
    prices
        What a unit of each objective costs, by name; none if any schedule will do.
    limits
        The largest units of other objectives, by name.
    cushion
        Slots by which all bursts must be able to grow on links that are not overloaded.
    start
        A schedule within the limits, if one is known. Only a better one is looked for.
    """
    prices = costs.expanded(prices)
    if not limits and not cushion and prices and all(map(is_layered, prices)):
        return _by_contention(costs, prices)
    try:
        known = None if start is None else costs.total(prices, start) - 1
        parts = [costs.priced(prices, known)]
        parts += [costs.priced({name: 1}, limit) for name, limit in limits.items()]
        networks = [part.network for part in parts]
        searches = [part.search for part in parts]
        held = [network.limit for network in networks[1:]]
        if cushion:
            networks.append(costs.bearing(cushion))
            searches.append(costs.search)
            held.append(0)
        archive = Archive([networks[0].limit], held=held)
        proved = Nondominated(searches, networks, archive, len(parts)).run()
    except (ModelTooLargeError, CostTooLargeError, MemoryError):
        return Answer(start, proved=False)
    return Answer(archive.points[0][1] if archive.points else start, proved)


def _by_contention(costs: Costs, prices: Mapping[str, int], *, parts: int = 1) -> Answer:
    """Minimise a sum of layered objectives as the contention of other weights.

    Parameters
    ----------
    parts
        Of the time that is left, one of so many parts may be taken.
    """
    weighting = weigh(costs.group, costs.per_bandwidth(prices))
    search: Search | None = None
    with suppress(CostTooLargeError):
        search = costs.search.below(weighting.instance)
        search.limit_to(search.remaining, parts)
        auto.run(search)
    if search is None or search.best is None:
        return Answer(None, proved=False)
    return Answer(search.best, search.proved)


def lexicographic(
    costs: Costs, names: tuple[str, ...], *, cushion: int = 0, start: Offsets | None = None
) -> Answer:
    """Minimise objectives one after the other, the earlier ones held at what they came to.

    The answer is proved if every step is; without offsets there is none with the cushion.
    """
    held: dict[str, int] = {}
    answer = Answer(start, proved=True)
    if set(names[:2]) == set(LAYERED) and not cushion:
        both = _both_layered(costs, names[0], names[1])
        if both.offsets is not None:
            answer = both
            held = {name: costs.units(name, both.offsets) for name in names[:2]}
    for name in names[len(held) :]:
        step = minimise(costs, {name: 1}, held, cushion=cushion, start=answer.offsets)
        answer = Answer(step.offsets, answer.proved and step.proved)
        if step.offsets is None:
            break
        held[name] = costs.units(name, step.offsets)
    return answer


def _both_layered(costs: Costs, first: str, second: str) -> Answer:
    """Minimise one of contention and latency, then the other.

    The sum is minimised in which nobody gains a unit of the first by any of the second.
    """
    start = greedy.construct(costs.search.below(costs.group))
    worst = costs.max_beside(first, second, start)
    return _by_contention(costs, {first: worst + 1, second: 1}, parts=_PARTS)
