"""Groups of jobs that can be decided apart, and the search for the best schedule of one group."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.kernels.tables import CostTooLargeError
from metronome_opt.multiobjective.costs import Costs, Offsets
from metronome_opt.multiobjective.nondominated import Archive, Nondominated
from metronome_opt.objectives import (
    CUSHION,
    can_rotate,
    is_layered,
    weigh,
)
from metronome_opt.presolve import simplify_links, split
from metronome_opt.presolve.components import components
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.solvers import auto, greedy
from metronome_opt.solvers.registry import LAYERED
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_MAX_ROTATIONS = 100_000
_PARTS = 3  # of the time that is left, for an end of a front: another end, and what is between


@dataclass(frozen=True)
class _Grouping:
    """The groups of an instance that can be decided apart.

    Attributes
    ----------
    groups
        The costs of each; their links are disjoint.
    join
        Puts offsets by job name together, one mapping per group.
    """

    groups: tuple[Costs, ...]
    join: Callable[[Sequence[dict[str, int]]], dict[str, int]]


def group(
    search: Search,
    traffic: Fraction,
    names: Sequence[str],
    mixture: Mapping[str, Fraction] | None = None,
    *,
    apart: bool = True,
) -> _Grouping:
    """Return the smallest groups that can be decided apart.

    Blocks where rotating a group changes nothing that is asked for; components where it does; the
    whole where something is limited that adds up over all of it.

    Parameters
    ----------
    search
        Of the whole; says when to stop.
    traffic, names, mixture
        What latency is a share of, and the objectives that matter, see `Costs`.
    apart
        Whether groups may be decided apart at all.
    """
    fewer = simplify_links(search.instance).instance
    groups: Sequence[Instance]

    def join(parts: Sequence[dict[str, int]]) -> dict[str, int]:
        return {name: offset for part in parts for name, offset in part.items()}

    if not apart:
        groups = (fewer,)
    elif can_rotate([*names, *(mixture or ())]):
        cut = split(fewer)
        groups, join = cut.blocks, cut.join
    else:
        groups = components(fewer)
    costs = (Costs(search.below(each), traffic, names, mixture) for each in groups)
    return _Grouping(tuple(costs), join)


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
        held = [part.network.limit for part in parts[1:]]
        if cushion:
            parts.append(costs.bearing(cushion))
            held.append(0)
        archive = Archive([parts[0].network.limit], held=held)
        criteria = len(limits) + 1
        proved = Nondominated(parts, archive, criteria).run()
    except (ModelTooLargeError, CostTooLargeError, MemoryError):
        return Answer(start, proved=False)
    return Answer(archive.points[0][1] if archive.points else start, proved)


def _by_contention(costs: Costs, prices: Mapping[str, int], *, parts: int = 1) -> Answer:
    """Minimise a sum of layered objectives as the contention of other weights.

    Of the time that is left, one of so many parts may be taken.
    """
    instance, _ = weigh(costs.group, costs.per_bandwidth(prices))
    search: Search | None = None
    with suppress(CostTooLargeError):
        search = costs.search.below(instance)
        search.limit_to(search.remaining, parts)
        auto.run(search)
    if search is None or search.best is None:
        return Answer(None, proved=False)
    return Answer(search.best, search.proved)


def without_contention(costs: Costs, slots: int) -> Offsets | None:
    """Return a schedule without any contention although bursts are longer, if one is found."""
    alike, _ = weigh(costs.group, {"latency": Fraction(1)})  # a weight of 0 costs nothing
    search = costs.search.below(lengthen(alike, slots))
    search.limit_to(search.remaining, 4)
    auto.run(search)
    return search.best if search.incumbent == 0 else None


def keeps(costs: Costs, offsets: Offsets, limits: Mapping[str, int], cushion: int = 0) -> bool:
    """Return whether a schedule of a group keeps to limits, in units, and has a cushion."""
    if any(costs.units(name, offsets) > limit for name, limit in limits.items()):
        return False
    reached = costs.value(CUSHION, offsets) if cushion else None
    return reached is None or reached >= cushion


def descend(
    costs: Costs, name: str, start: Offsets, limits: Mapping[str, int], cushion: int
) -> Offsets:
    """Rotate the group, then move single jobs: while that is better and keeps what is held."""
    offsets = start if is_layered(name) else _rotated(costs, name, start, limits)
    better = True
    while better and not costs.search.stopped:
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
                if keeps(costs, tried, {}, cushion):
                    offsets, better = tried, True
                    break
    return offsets


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
    allowed = (each for each in rotations if keeps(costs, each, singles))
    return min(allowed, key=lambda each: costs.units(name, each), default=start)


def lexicographic(
    costs: Costs, names: tuple[str, ...], *, cushion: int = 0, start: Offsets | None = None
) -> Answer:
    """Minimise objectives one after the other, the earlier ones held at what they came to.

    The answer is proved if every step is; without offsets there is none with the cushion.
    """
    held: dict[str, int] = {}
    answer = Answer(start, proved=True)
    if set(names[:2]) == set(LAYERED) and not cushion:
        # One sum, in which nobody gains a unit of the first by any of the second.
        known = greedy.construct(costs.search.below(costs.group))
        worst = costs.max_beside(names[0], names[1], known)
        both = _by_contention(costs, {names[0]: worst + 1, names[1]: 1}, parts=_PARTS)
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
