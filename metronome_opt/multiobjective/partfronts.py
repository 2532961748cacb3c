"""The exact front of an instance at given periods, from those of its parts.

The instance is taken apart as far as the objectives allow, and the front of the whole is the
non-dominated part of the Minkowski sum of the fronts of its parts.

Of a part both ends are found first: the least of each objective, and of those schedules the least
of the other. What is worth finding lies between them. Single jobs are moved as long as that shows
anything new, which costs next to nothing; then `Nondominated` finds what is missing, or that
nothing is. Cushions are not costs: for each cushion that is reached, the front of the other
objectives among the schedules that have a larger one is found in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.kernels.tables import CostTooLargeError, Ints
from metronome_opt.multiobjective.costs import Costs
from metronome_opt.multiobjective.front import (
    Candidate,
    FrontEvent,
    FrontMemory,
    GroupFront,
    Offsets,
    minkowski,
    nondominated,
)
from metronome_opt.multiobjective.goals import Run
from metronome_opt.multiobjective.groups import group, lexicographic
from metronome_opt.multiobjective.nondominated import Archive, Nondominated
from metronome_opt.objectives import CUSHION, can_rotate, to_minimise, traffic
from metronome_opt.result import Stop
from metronome_opt.solvers import greedy
from metronome_opt.solvers.network.tables import domains_of
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_MAX_SCHEDULES = 10**6
"""Of a part, for a front of three objectives."""


def front_at_periods(
    instance: Instance,
    names: Sequence[str],
    run: Run,
    *,
    base: Fraction | None = None,
    approximate: bool = False,
    memory: FrontMemory | None = None,
    callback: Callable[[FrontEvent], bool | None] | None = None,
) -> tuple[list[dict[str, int]], bool]:
    """Return the schedules of a front, by job name, and whether it is proved complete.

    Parameters
    ----------
    instance
        With the periods, and the bursts, that count.
    names
        One to three objectives.
    base
        The traffic that latency is a share of, Mbit/s; that of the instance if left out.
    approximate, memory, callback
        As `pareto` has them.
    """
    search = Search(
        instance,
        time_limit=run.budget.remaining,
        seed=run.seed,
        workers=run.workers,
        parent=run.budget,
    )
    grouping = group(search, traffic(instance) if base is None else base, names)
    every = grouping.groups
    if not every:
        return [grouping.join([])], True
    if len(names) > 2 and not approximate:
        for costs in every:
            _check_size(costs.group, names)
    fronts: dict[int, list[Candidate]] = {}
    complete = True
    # What is left of the time goes to the large ones.
    for number in sorted(range(len(every)), key=lambda n: len(every[n].group.jobs)):
        found = _front_of_part(f"{number}", every[number], names, memory)
        complete = complete and found.complete
        fronts[number] = [_candidate(every[number], names, each) for each in found.schedules]
        points = sum(map(len, fronts.values()))
        event = FrontEvent(search.elapsed, len(fronts), len(every), points)
        if callback is not None and callback(event):
            run.budget.end(Stop.RULE)
    whole = minkowski(names, [nondominated(fronts[n]) for n in range(len(every))])
    return [grouping.join([offsets for offsets, _ in each.parts]) for each in whole], complete


def _front_of_part(
    part: str, costs: Costs, names: Sequence[str], memory: FrontMemory | None
) -> GroupFront:
    """Return the front of a part, from memory if it is known."""
    jobs = [job.name for job in costs.group.jobs]
    known = None if memory is None else memory.recall(part, jobs)
    if known is not None and known.complete:
        return known
    before = () if known is None else known.schedules
    # Not below the search: there is to be a schedule even if no time is left.
    start = tuple(greedy.construct(Search(costs.group, time_limit=None, seed=0, workers=1)))
    if costs.search.stopped:
        return GroupFront((*before, start), complete=False)
    found = _front_of(costs, names, start, before)
    if not found.schedules:
        found = GroupFront((*before, start), complete=False)
    if memory is not None:
        memory.keep(part, jobs, found)
    return found


def _candidate(costs: Costs, names: Sequence[str], offsets: Offsets) -> Candidate:
    values = (to_minimise(name, costs.value(name, offsets)) for name in names)
    return Candidate(tuple(values), ((costs.named(offsets), {}),))


def _check_size(part: Instance, names: Sequence[str]) -> None:
    count = math.prod(map(len, domains_of(part, turned_alike=can_rotate(names))))
    if count > _MAX_SCHEDULES:
        raise InputError(
            f"objectives: for a front of {len(names)} objectives a part of {len(part.jobs)} jobs "
            f"has {count:.2g} schedules, more than {_MAX_SCHEDULES:,}; take two objectives, "
            "or say approximate for what is found in time"
        )


# ------------------------------------------------------------------ one part


def _front_of(
    costs: Costs, names: Sequence[str], start: Offsets, known: Sequence[Offsets]
) -> GroupFront:
    """Return the front of a group, given any schedule, and those that were found before."""
    others = tuple(name for name in names if name != CUSHION)
    if CUSHION not in names:
        return _without_cushion(costs, others, start, known, 0)
    found: list[Offsets] = list(known)
    cushion: int | None = 0
    complete = True
    while cushion is not None and not costs.search.stopped:
        part = _without_cushion(costs, others or ("latency",), start, (), cushion)
        complete = complete and part.complete
        found += part.schedules
        reached = [costs.value(CUSHION, offsets) for offsets in part.schedules]
        limited = [int(slots) for slots in reached if slots is not None]
        cushion = min(limited) + 1 if limited else None
    return GroupFront(tuple(found), complete and cushion is None)


def _without_cushion(
    costs: Costs, names: tuple[str, ...], start: Offsets, known: Sequence[Offsets], cushion: int
) -> GroupFront:
    """Return the front among the schedules with a cushion of at least some slots."""
    begin = None if cushion else start
    orders = [(first, *(name for name in names if name != first)) for first in names]
    answers = [lexicographic(costs, each, cushion=cushion, start=begin) for each in orders]
    ends = [answer.offsets for answer in answers if answer.offsets is not None]
    proved = all(answer.proved for answer in answers)
    if len(names) == 1 or not ends:
        return GroupFront(tuple(ends), proved)
    try:
        points, whole = _between(costs, names, ends, known if cushion else (*known, start), cushion)
    except (ModelTooLargeError, CostTooLargeError, MemoryError):
        return GroupFront(tuple(ends), complete=False)
    return GroupFront(points, proved and whole)


def _between(
    costs: Costs,
    names: tuple[str, ...],
    ends: Sequence[Offsets],
    known: Sequence[Offsets],
    cushion: int,
) -> tuple[tuple[Offsets, ...], bool]:
    """Return the front between its ends, and whether nothing is missing."""

    def values(offsets: Offsets) -> tuple[int, ...]:
        return tuple(costs.units(name, offsets) for name in names)

    # Of two objectives nothing between is worse than at the other's end; of three it may be.
    worst = [max(column) for column in zip(*map(values, ends), strict=True)]
    limits = worst if len(names) == 2 else [None] * len(names)
    parts = [costs.priced({name: 1}, limit) for name, limit in zip(names, limits, strict=True)]
    archive = Archive([part.network.limit for part in parts], held=[0] if cushion else [])
    for each in (*ends, *known):
        archive.add(values(each), each)
    if not cushion:
        _descend(costs, names, archive)
    if cushion:
        parts.append(costs.bearing(cushion))
    proved = Nondominated(parts, archive, len(names)).run()
    return tuple(offsets for _, offsets in archive.points), proved


def _descend(costs: Costs, names: Sequence[str], archive: Archive) -> None:
    """Move single jobs of what is known, as long as that shows anything new."""
    seen: set[Offsets] = set()
    free = [n for n, job in enumerate(costs.group.jobs) if job.fixed_offset is None]
    while todo := [each for _, each in archive.points if each not in seen]:
        for offsets in todo:
            seen.add(offsets)
            for job in free:
                if costs.search.stopped:
                    return
                around = costs.around(offsets, job)
                rows: Ints = np.stack([around[name] for name in names], axis=1)
                for offset in np.flatnonzero(archive.promising(rows)):
                    moved = (*offsets[:job], int(offset), *offsets[job + 1 :])
                    archive.add(tuple(map(int, rows[offset])), moved)
