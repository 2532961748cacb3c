"""Independent groups of jobs, and a search for the best schedule of one group."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CUSHION
from metronome_opt.problem.result import ProgressEvent
from metronome_opt.solvers import auto
from metronome_opt.solvers.elimination import prove
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError
from metronome_opt.solvers.multiobjective.costs import (
    Costs,
    Offsets,
    SumRun,
    can_rotate,
    is_layered,
    weigh,
)
from metronome_opt.solvers.presolve.blocks import components, split
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun

_MAX_ROTATIONS = 100_000


Join = Callable[[Sequence[dict[str, int]]], dict[str, int]]
"""Puts offsets by job name together, one mapping per group."""


def group(
    search: SolverRun, traffic: Fraction, names: Sequence[str]
) -> tuple[tuple[Costs, ...], Join]:
    """Return the smallest groups that can be decided separately, with the arguments of `Costs`.

    Blocks where rotating a group changes nothing that is asked for; components where it does.
    """
    fewer = simplify_links(search.instance)
    groups: Sequence[Instance]

    def join(parts: Sequence[dict[str, int]]) -> dict[str, int]:
        return {name: offset for part in parts for name, offset in part.items()}

    if can_rotate(names):
        cut = split(fewer)
        groups, join = cut.blocks, cut.join
    else:
        groups = components(fewer)
    costs = (Costs(search.subproblem(part), traffic, names) for part in groups)
    return tuple(costs), join


@dataclass(frozen=True)
class GroupResult:
    """The best known schedule of a group, if any, and whether there is no better one."""

    offsets: Offsets | None
    proved: bool


def minimise(
    costs: Costs,
    coefficients: Mapping[str, int],
    limits: Mapping[str, int],
    *,
    cushion: int = 0,
    start: Offsets | None = None,
) -> GroupResult:
    """Return the schedule with the minimum weighted sum of objectives, others within limits.

    Parameters
    ----------
    costs
        Costs of the group; its run says when to stop.
    coefficients
        What a unit of each objective costs, by name; none if any schedule will do.
    limits
        The units of other objectives in the order in which they are held, by name: those of `start`
        if there is one.
    cushion
        Slots by which all bursts must be able to grow on links that are not overloaded.
    start
        A schedule within the limits, if one is known. Only a better one is looked for; otherwise
        the first one within the limits is returned.
    """
    if not limits and not cushion and coefficients and all(map(is_layered, coefficients)):
        return _by_contention(costs, coefficients)
    # What is held comes first: a unit of it costs more than all that comes after it does now.
    in_order = dict(coefficients)
    limit = 0 if start is None else costs.total(coefficients, start)
    for name in reversed(list(limits)):
        in_order[name] = limit + 1
        limit += in_order[name] * limits[name]
    if start is not None:
        limit -= 1
    if limit < 0:
        return GroupResult(start, proved=True)
    try:
        run = SumRun(costs, in_order, limit, _has_schedule if start is None else None)
        prove(run, run.network(cushion))
    except (TooLargeError, MemoryError):
        return GroupResult(start, proved=False)
    return GroupResult(run.best or start, run.proved)


def _has_schedule(event: ProgressEvent) -> bool:
    return event.incumbent is not None


def _by_contention(costs: Costs, coefficients: Mapping[str, int]) -> GroupResult:
    """Minimise a sum of layered objectives as the contention of other weights."""
    instance, _ = weigh(costs.group, costs.per_bandwidth(coefficients))
    search: SolverRun | None = None
    with suppress(TooLargeError):
        search = costs.search.subproblem(instance)
        auto.run(search)
    if search is None or search.best is None:
        return GroupResult(None, proved=False)
    return GroupResult(search.best, search.proved)


def without_contention(costs: Costs, slots: int) -> Offsets | None:
    """Return a schedule of longer bursts without contention, None without success."""
    equal, _ = weigh(costs.group, {"latency": Fraction(1)})  # a weight of 0 costs nothing
    search = costs.search.subproblem(extend_bursts(equal, slots))
    search.limit_to(search.remaining, 4)
    auto.run(search)
    return search.best if search.incumbent == 0 else None


def is_feasible(
    costs: Costs, offsets: Offsets, limits: Mapping[str, int], cushion: int = 0
) -> bool:
    """Return whether a schedule of a group keeps to limits, in units, and has a cushion."""
    if any(costs.units(name, offsets) > limit for name, limit in limits.items()):
        return False
    reached = costs.value(CUSHION, offsets) if cushion else None
    return reached is None or reached >= cushion


def improve(
    costs: Costs,
    coefficients: Mapping[str, int],
    start: Offsets,
    limits: Mapping[str, int],
    cushion: int,
) -> Offsets:
    """Rotate the group, then move single jobs, as long as a weighted sum falls within the limits.

    The arguments are those of `minimise`.
    """
    layered = all(map(is_layered, coefficients))
    offsets = start if layered else _rotated(costs, coefficients, start, limits)
    better = True
    while better and not costs.search.stopped:
        better = False
        for job, moved in enumerate(costs.group.jobs):
            if moved.fixed_offset is not None:
                continue
            around = costs.around(offsets, job)
            total = np.asarray(sum(factor * around[name] for name, factor in coefficients.items()))
            kept = np.flatnonzero(
                np.all([around[held] <= limit for held, limit in limits.items()], axis=0)
                & (total < total[offsets[job]])
            )
            for offset in kept[np.argsort(total[kept], kind="stable")]:
                tried = (*offsets[:job], int(offset), *offsets[job + 1 :])
                if is_feasible(costs, tried, {}, cushion):
                    offsets, better = tried, True
                    break
    return offsets


def _rotated(
    costs: Costs, coefficients: Mapping[str, int], start: Offsets, limits: Mapping[str, int]
) -> Offsets:
    """Return the rotation of the whole group with the minimum weighted sum."""
    jobs = costs.group.jobs
    common = math.lcm(*(job.period for job in jobs))
    if any(job.fixed_offset is not None for job in jobs) or common > _MAX_ROTATIONS:
        return start
    singles = {held: limit for held, limit in limits.items() if not is_layered(held)}
    rotations = (
        tuple((offset + by) % job.period for job, offset in zip(jobs, start, strict=True))
        for by in range(common)
    )
    allowed = (rotated for rotated in rotations if is_feasible(costs, rotated, singles))
    return min(allowed, key=partial(costs.total, coefficients), default=start)
