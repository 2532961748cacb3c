"""One objective after the other, the earlier ones held: at given periods, from a first schedule.

Each level is optimised group by group. What an earlier level came to in a group may not become
worse there; where it may become worse by a tolerance, it is the sum over all groups that is held,
so that they can no longer be decided apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.best import Answer, least
from metronome_opt.multiobjective.costs import MIXTURE, Costs, Offsets
from metronome_opt.multiobjective.groups import Grouping, group, named
from metronome_opt.multiobjective.weighting import is_layered, weigh, weight_in
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Level
from metronome_opt.solvers import auto
from metronome_opt.solvers.search import Search
from metronome_opt.verify import evaluate

_MOST_TURNS = 100_000
_CUSHION = "cushion"


@dataclass(frozen=True)
class Held:
    """An objective that has been optimised.

    Attributes
    ----------
    name
        Of the objective.
    most
        What it may come to over all groups; of a cushion what it must come to, None if nothing may
        limit it.
    exact
        Whether that is what the schedule has: then it is held group by group.
    """

    name: str
    most: Fraction | None
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
        Prices of objectives whose sum is a level, see `costs.MIXTURE`.
    """

    whole: Search
    base: Fraction
    offsets: dict[str, int]
    mixture: Mapping[str, Fraction] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)

    def hold(self, level: Level) -> None:
        """Hold an objective at what it came to, or within its tolerance of that."""
        if level.value is None or not level.tolerance:
            self.held.append(Held(level.name, level.value))
        elif level.name == _CUSHION:
            least = max(Fraction(0), level.value * (1 - level.tolerance))
            self.held.append(Held(level.name, least))
        else:
            most = level.value * (1 + level.tolerance)
            self.held.append(Held(level.name, most, exact=False))

    def limit(self, name: str, most: Fraction) -> None:
        """Hold an objective at no more than a value, of a cushion at no less."""
        self.held.append(Held(name, most, exact=False))

    def value(self, name: str) -> Fraction | None:
        """Return an objective of the schedule at its periods; None for a cushion without limit."""
        evaluation = evaluate(self.whole.instance, self.offsets)
        if name == "latency":
            late = sum((link.late for link in evaluation.links), Fraction(0))
            return late / self.base if self.base else Fraction(0)
        if name not in evaluation.objectives:
            jobs = self.whole.instance.jobs
            return sum(
                (evaluation.unserved[job.name] * weight_in(name, job.weight) for job in jobs),
                Fraction(0),
            )
        return evaluation.objectives[name]

    def improve(self, name: str) -> bool:
        """Optimise an objective with the earlier ones held; return whether that is proved."""
        names = [each for each in (name, *(held.name for held in self.held)) if each != MIXTURE]
        apart = all(each.exact or each.name == _CUSHION for each in self.held)
        grouping = group(self.whole.instance, [*names, *self.mixture], apart=apart)
        every = grouping.costs(self.whole, self.base, names, self.mixture)
        if name == _CUSHION:
            return self._widen(grouping, every)
        proved = True
        parts = []
        for costs in every:
            start = self._at(costs)
            answer = self._least(costs, name, start if self._within(costs, start) else None)
            offsets = answer.offsets or start
            if not answer.proved:
                offsets = self._descended(costs, name, offsets)
            proved = proved and answer.proved
            parts.append(named(costs, offsets))
        self._take(grouping, parts)
        return proved

    # ---------------------------------------------------------------- one group

    def _within(self, costs: Costs, offsets: Offsets) -> bool:
        most = self._most(costs, offsets)
        kept = all(costs.units(name, offsets) <= limit for name, limit in most.items())
        return kept and self._bears(costs, offsets)

    def _least(self, costs: Costs, name: str, start: Offsets | None) -> Answer:
        most = self._most(costs, self._at(costs))
        if start is not None and not self._cushion and all(map(is_layered, (name, *most))):
            answer = self._scalar(costs, name, start, most)
            if answer is not None:
                return answer
        return least(costs, {name: 1}, most, cushion=self._cushion, start=start)

    def _scalar(
        self, costs: Costs, name: str, start: Offsets, most: Mapping[str, int]
    ) -> Answer | None:
        """Return the answer if the sum of two layered costs gives it: nothing is to be gained."""
        if len(most) != 1 or not all(each.exact for each in self.held):
            return None
        (first,) = most
        if first == name:
            return None
        answer = least(costs, {first: costs.units(name, start) + 1, name: 1}, {})
        kept = answer.offsets is not None and costs.units(first, answer.offsets) <= most[first]
        return answer if kept and answer.proved else None

    def _most(self, costs: Costs, start: Offsets) -> dict[str, int]:
        """Return what the earlier objectives may come to in a group, in units."""
        most: dict[str, int] = {}
        for each in self.held:
            if each.name == _CUSHION or each.name not in costs.steps:
                continue
            units = costs.units(each.name, start)
            if not each.exact:
                assert each.most is not None  # noqa: S101 (only a cushion has no limit)
                units = int(each.most / costs.steps[each.name])
            most[each.name] = min(units, most.get(each.name, units))
        return most

    @property
    def _cushion(self) -> int:
        """The cushion that has to be kept."""
        cushions = (each.most for each in self.held if each.name == _CUSHION)
        return max(
            (self._longest if most is None else math.ceil(most) for most in cushions), default=0
        )

    @property
    def _longest(self) -> int:
        """A growth of bursts that fills every period."""
        return max(job.period for job in self.whole.instance.jobs)

    def _at(self, costs: Costs) -> Offsets:
        return tuple(self.offsets[job.name] for job in costs.group.jobs)

    def _take(self, grouping: Grouping, parts: Sequence[dict[str, int]]) -> None:
        joined = grouping.join(parts)
        self.offsets = {job.name: joined[job.name] for job in self.whole.instance.jobs}

    # ---------------------------------------------------------------- moves of single jobs

    def _descended(self, costs: Costs, name: str, start: Offsets) -> Offsets:
        """Turn the group, then move single jobs, as long as that is better and holds the rest."""
        offsets = start if is_layered(name) else self._turned(costs, name, start)
        most = self._most(costs, start)
        better = True
        while better and not self.whole.stopped:
            better = False
            for job, moved in enumerate(costs.group.jobs):
                if moved.fixed_offset is not None:
                    continue
                around = costs.around(offsets, job)
                kept = np.flatnonzero(
                    np.all([around[held] <= limit for held, limit in most.items()], axis=0)
                    & (around[name] < around[name][offsets[job]])
                )
                for offset in kept[np.argsort(around[name][kept], kind="stable")]:
                    tried = (*offsets[:job], int(offset), *offsets[job + 1 :])
                    if self._bears(costs, tried):
                        offsets, better = tried, True
                        break
        return offsets

    def _turned(self, costs: Costs, name: str, start: Offsets) -> Offsets:
        """Return the rotation of the whole group that is best for a sum over its jobs."""
        jobs = costs.group.jobs
        common = math.lcm(*(job.period for job in jobs))
        if any(job.fixed_offset is not None for job in jobs) or common > _MOST_TURNS:
            return start
        most = self._most(costs, start)

        def turn(by: int) -> Offsets:
            return tuple(
                (offset + by) % job.period for job, offset in zip(jobs, start, strict=True)
            )

        turns = (turn(by) for by in range(common))
        singles = [held for held in most if not is_layered(held)]
        allowed = (
            each for each in turns if all(costs.units(held, each) <= most[held] for held in singles)
        )
        return min(allowed, key=lambda each: costs.units(name, each), default=start)

    def _bears(self, costs: Costs, offsets: Offsets) -> bool:
        """Return whether a schedule of a group has the cushion that has to be kept."""
        if not self._cushion:
            return True
        reached = _cushion_of(costs.group, offsets)
        return reached is None or reached >= self._cushion

    # ---------------------------------------------------------------- cushions

    def _widen(self, grouping: Grouping, every: Sequence[Costs]) -> bool:
        """Raise the least cushion of all groups as far as it goes."""
        parts = {id(costs): self._at(costs) for costs in every}
        proved = True
        ceiling: int | None = None  # what some group cannot exceed
        for costs in every:
            most, whole = self._widest(costs, parts, ceiling)
            proved = proved and whole
            if most is not None:
                ceiling = most if ceiling is None else min(ceiling, most)
        self._take(grouping, [named(costs, parts[id(costs)]) for costs in every])
        return proved

    def _widest(
        self, costs: Costs, parts: dict[int, Offsets], ceiling: int | None
    ) -> tuple[int | None, bool]:
        """Raise the cushion of a group, no further than `ceiling`; return it and whether proved."""
        reached = _cushion_of(costs.group, parts[id(costs)])
        high = self._longest if ceiling is None else ceiling
        proved = True
        while reached is not None and reached < high:
            # The first look is at the top: groups that can bear all there is are common.
            middle = high if high == ceiling or high - reached == 1 else (reached + high + 1) // 2
            answer = self._with_cushion(costs, middle, parts[id(costs)])
            if answer.offsets is not None:
                parts[id(costs)] = answer.offsets
                reached = _cushion_of(costs.group, answer.offsets)
            else:
                proved = proved and answer.proved
                high = middle - 1
                ceiling = None
            if self.whole.stopped:
                return reached, False
        return reached, proved

    def _with_cushion(self, costs: Costs, slots: int, start: Offsets) -> Answer:
        """Return any schedule that has a cushion and keeps what is held."""
        most = self._most(costs, start)
        easy = self._at_peace(costs, slots) if self._may_be_at_peace(costs, start) else None
        if easy is not None and all(
            costs.units(name, easy) <= limit for name, limit in most.items()
        ):
            return Answer(easy, proved=True)
        return least(costs, {}, most, cushion=slots)

    def _may_be_at_peace(self, costs: Costs, start: Offsets) -> bool:
        """Return whether a group may be without contention, going by what is held at its least."""
        held = any(each.exact and is_layered(each.name) for each in self.held)
        return not held or not costs.units("latency", start)

    def _at_peace(self, costs: Costs, slots: int) -> Offsets | None:
        """Return a schedule without any contention although bursts are longer, if one is found."""
        alike = weigh(costs.group, {"latency": Fraction(1)}).instance  # a weight of 0 costs nothing
        longer = lengthen(alike, slots)
        search = costs.search.below(longer)
        search.limit_to(search.remaining, 4)
        auto.run(search)
        return search.best if search.incumbent == 0 else None


def _cushion_of(block: Instance, offsets: Offsets) -> int | None:
    """Return the cushion of a schedule of a group, None if nothing limits it."""
    names = (job.name for job in block.jobs)
    value = evaluate(block, dict(zip(names, offsets, strict=True))).objectives[_CUSHION]
    return None if value is None else int(value)
