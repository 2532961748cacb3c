"""The front of an instance at given periods, from those of its parts.

The instance is taken apart as far as the objectives allow, and the front of the whole is the
non-dominated part of the Minkowski sum of the fronts of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.clock import Clock, Run
from metronome_opt.multiobjective.costs import Costs, Offsets
from metronome_opt.multiobjective.front import Candidate, minkowski, nondominated, to_minimise
from metronome_opt.multiobjective.groupfront import GroupFront, front_of
from metronome_opt.multiobjective.groups import group, named, traffic
from metronome_opt.multiobjective.objectives import can_turn
from metronome_opt.solvers import greedy
from metronome_opt.solvers.network.tables import domains_of
from metronome_opt.solvers.search import Search
from metronome_opt.verify import evaluate

MOST_SCHEDULES = 10**6
"""Of a part, for a front of three objectives."""


@dataclass(frozen=True)
class FrontEvent:
    """A step of `pareto`.

    Attributes
    ----------
    elapsed_s
        Seconds since the call.
    done, parts
        How many of the parts of the instance have their fronts.
    points
        Schedules on the fronts of those parts.
    """

    elapsed_s: float
    done: int
    parts: int
    points: int


class Memory(Protocol):
    """What is known of the fronts of parts from an earlier run."""

    def recall(self, part: str, jobs: Sequence[str]) -> GroupFront | None:
        """Return what is known of a part, None if nothing is."""

    def keep(self, part: str, jobs: Sequence[str], front: GroupFront) -> None:
        """Remember what was found."""


class PartFronts:
    """The fronts of the parts of an instance at given periods, and that of the whole.

    Parameters
    ----------
    instance
        With the periods, and the bursts, that count.
    names
        One to three objectives.
    clock, run
        When to stop, with which seed and how many workers.
    approximate, memory, callback
        As `pareto` has them.
    """

    def __init__(
        self,
        instance: Instance,
        names: Sequence[str],
        clock: Clock,
        run: Run,
        approximate: bool = False,
        memory: Memory | None = None,
        callback: Callable[[FrontEvent], bool | None] | None = None,
    ) -> None:
        self._clock = clock
        self._search = Search(
            instance,
            time_limit=run.remaining,
            seed=run.seed,
            workers=run.workers,
            parent=clock,
        )
        self._names = tuple(names)
        self._approximate = approximate
        self._memory = memory
        self._callback = callback

    def front(self, base: Fraction | None = None) -> tuple[list[dict[str, int]], bool]:
        """Return the schedules of the front, by job name, and whether it is proved complete.

        Parameters
        ----------
        base
            The traffic that latency is a share of, Mbit/s; that of the instance if left out.
        """
        instance = self._search.instance
        grouping = group(instance, self._names)
        base = traffic(instance) if base is None else base
        every = grouping.costs(self._search, base, self._names)
        if len(self._names) > 2 and not self._approximate:
            for costs in every:
                _check_size(costs.group, self._names)
        fronts: dict[int, list[Candidate]] = {}
        complete = True
        # What is left of the time goes to the large ones.
        for number in sorted(range(len(every)), key=lambda n: len(every[n].group.jobs)):
            found = self._part(number, every[number])
            complete = complete and found.complete
            fronts[number] = [self._candidate(every[number], each) for each in found.schedules]
            self._tell(len(fronts), len(every), sum(map(len, fronts.values())))
        ordered = [nondominated(fronts[number]) for number in range(len(every))]
        whole = minkowski(self._names, ordered)
        if not every:
            return [grouping.join([])], True
        joined = [grouping.join([offsets for offsets, _ in each.parts]) for each in whole]
        return joined, complete

    def _part(self, number: int, costs: Costs) -> GroupFront:
        """Return the front of a part, from memory if it is known."""
        jobs = [job.name for job in costs.group.jobs]
        key = f"{number}"
        known = None if self._memory is None else self._memory.recall(key, jobs)
        if known is not None and known.complete:
            return known
        before = () if known is None else known.schedules
        start = _heuristic(costs)

        def cushion_of(offsets: Offsets) -> int | None:
            value = evaluate(costs.group, named(costs, offsets)).objectives["cushion"]
            return None if value is None else int(value)

        if self._search.stopped:
            return GroupFront((*before, start), complete=False)
        found = front_of(costs, self._names, start, cushion_of, before)
        if not found.schedules:
            found = GroupFront((*before, start), complete=False)
        if self._memory is not None:
            self._memory.keep(key, jobs, found)
        return found

    def _candidate(self, costs: Costs, offsets: Offsets) -> Candidate:
        by_name = named(costs, offsets)
        values = []
        for name in self._names:
            if name == "cushion":
                value = evaluate(costs.group, by_name).objectives[name]
            else:
                value = costs.value(name, offsets)
            values.append(to_minimise(name, value))
        return Candidate(tuple(values), ((by_name, {}),))

    def _tell(self, done: int, parts: int, points: int) -> None:
        event = FrontEvent(self._search.elapsed, done, parts, points)
        if self._callback is not None and self._callback(event):
            self._clock.call_off()


def _heuristic(costs: Costs) -> Offsets:
    """Return a schedule that is found at once."""
    # Not below the search: there is to be one even if no time is left.
    search = Search(costs.group, time_limit=None, seed=0, workers=1)
    greedy.run(search)
    return search.best or tuple(job.unshifted for job in costs.group.jobs)


def _check_size(part: Instance, names: Sequence[str]) -> None:
    count = math.prod(map(len, domains_of(part, turned_alike=can_turn(names))))
    if count > MOST_SCHEDULES:
        raise InputError(
            f"objectives: for a front of {len(names)} objectives a part of {len(part.jobs)} jobs "
            f"has {count:.2g} schedules, more than {MOST_SCHEDULES:,}; take two objectives, "
            "or say approximate for what is found in time"
        )
