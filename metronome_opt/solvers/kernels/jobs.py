"""Whole jobs on all their links: place, remove, score at all offsets."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.solvers.kernels.burst_costs import (
    add_multiple,
    add_windows,
    first_offset,
    fold,
    middle_of_longest_run,
)
from metronome_opt.solvers.kernels.compiled_instance import CompiledInstance, DemandState, Ints

# Not literal numbers, for each of which numba would compile a function anew.
ADD: Any = np.int64(1)
REMOVE: Any = np.int64(-1)


@kernel
def put_use(state: DemandState, job: int, use: int, offset: int, sign: int) -> None:
    """Add or remove (`sign`) the demand of a job on one of its links."""
    tables, demand = state.tables, state.demand
    period = tables.jobs[job]["period"]
    link = tables.uses[use]["link"]
    hyperperiod = tables.links[link]["hyperperiod"]
    for p in range(tables.jobs[job]["first_phase"], tables.jobs[job]["end_phase"]):
        amount = sign * tables.uses[use]["flows"] * tables.phases[p]["rate"]
        first = (offset + tables.phases[p]["start"]) % period
        straight = min(tables.phases[p]["length"], period - first)
        wrapped = tables.phases[p]["length"] - straight
        for layer in range(tables.uses[use]["layers"]):
            block = tables.links[link]["base"] + layer * hyperperiod
            for begin in range(block, block + hyperperiod, period):
                for t in range(begin + first, begin + first + straight):
                    demand[t] += amount
                for t in range(begin, begin + wrapped):
                    demand[t] += amount


@kernel
def put_job(state: DemandState, job: int, offset: int, sign: int) -> None:
    """Add or remove the demand of a job on all its links.

    Parameters
    ----------
    state
        Its demand is changed.
    job, offset
        Index of the job, and its offset in slots.
    sign
        `ADD` or `REMOVE`.
    """
    jobs = state.tables.jobs
    for use in range(jobs[job]["first_use"], jobs[job]["end_use"]):
        put_use(state, job, use, offset, sign)


@kernel
def score_job(state: DemandState, job: int, cost: Ints) -> int:
    """Compute what a job adds to the contention at every offset; return the minimum.

    `cost`, shape (T,), takes added contention times the scale of the job, in units. It may be the
    first T entries of the scratch memory, of which the next 4 T are used.
    """
    jobs = state.tables.jobs
    return _score_uses(state, job, jobs[job]["first_use"], jobs[job]["end_use"], cost)


@kernel
def score_use(state: DemandState, job: int, use: int, cost: Ints) -> int:
    """Compute the same for one of its links; return the minimum."""
    return _score_uses(state, job, use, use + 1, cost)


@inner
def _score_uses(state: DemandState, job: int, first: int, last: int, cost: Ints) -> int:
    tables, work = state.tables, state.work
    period = tables.jobs[job]["period"]
    weighted = work[period : 2 * period]
    folded = work[2 * period : 3 * period]
    prefix = work[3 * period : 5 * period]
    minimum = 0
    cost[:] = 0
    for p in range(tables.jobs[job]["first_phase"], tables.jobs[job]["end_phase"]):
        weighted[:] = 0
        for use in range(first, last):
            link = tables.uses[use]["link"]
            hyperperiod = tables.links[link]["hyperperiod"]
            rate = tables.uses[use]["flows"] * tables.phases[p]["rate"]
            for layer in range(tables.uses[use]["layers"]):
                begin = tables.links[link]["base"] + layer * hyperperiod
                row = state.demand[begin : begin + hyperperiod]
                fold(row, tables.links[link]["capacity"], rate, folded)
                factor = tables.coefficients[tables.links[link]["first_coefficient"] + layer]
                add_multiple(tables.uses[use]["scale"] * factor, folded, weighted)
        start, length = tables.phases[p]["start"], tables.phases[p]["length"]
        minimum = add_windows(weighted, start, length, prefix, cost)
    return minimum


@inner
def scored(state: DemandState, job: int) -> tuple[Ints, int]:
    """Score a job; return its cost at every offset, in scratch memory, and the minimum of them."""
    cost = state.work[: state.tables.jobs[job]["period"]]
    minimum = score_job(state, job, cost)
    return cost, minimum


@kernel
def score_two(
    state: DemandState, first: int, second: int, offsets: Ints, domain: Ints, added: Ints
) -> None:
    """Compute what a second job adds at the offsets in `domain`, for each of `offsets` of a first.

    Neither is placed; `added` has the shape (offsets, domain).
    """
    for i in range(offsets.shape[0]):
        put_job(state, first, offsets[i], ADD)
        cost, _ = scored(state, second)
        put_job(state, first, offsets[i], REMOVE)
        for k in range(domain.shape[0]):
            added[i, k] = cost[domain[k]]


@kernel
def best_offset(state: DemandState, job: int) -> tuple[int, int]:
    """Return the best offset of a job and its scaled cost.

    Least cost; among equals the largest margin, then the shortest wait.
    """
    cost, minimum = scored(state, job)
    ready = state.tables.jobs[job]["ready"]
    if minimum > 0:
        return first_offset(cost, minimum, ready), minimum
    return middle_of_longest_run(cost, ready)[0], minimum


@kernel
def link_sums(state: DemandState, sums: Ints) -> None:
    """Compute the contention of each link, in units, times its hyperperiod."""
    links, coefficients, demand = state.tables.links, state.tables.coefficients, state.demand
    for link in range(links.shape[0]):
        hyperperiod = links[link]["hyperperiod"]
        capacity = links[link]["capacity"]
        total = np.int64(0)
        for layer in range(links[link]["layers"]):
            begin = links[link]["base"] + layer * hyperperiod
            over = np.int64(0)
            for t in range(begin, begin + hyperperiod):
                over += max(demand[t] - capacity, 0)
            total += coefficients[links[link]["first_coefficient"] + layer] * over
        sums[link] = total


def contention(compiled: CompiledInstance, state: DemandState) -> Fraction:
    """Return the contention of what is placed, exact, in weight * Mbit/s."""
    sums = np.zeros(len(compiled.links), dtype=np.int64)
    link_sums(state, sums)
    return sum(
        (
            Fraction(int(total) * compiled.unit, link.hyperperiod)
            for total, link in zip(sums, compiled.links, strict=True)
        ),
        Fraction(0),
    )


def state_of(compiled: CompiledInstance, offsets: Iterable[int] | Ints) -> DemandState:
    """Return the state with all jobs at the given offsets (in the order of the instance)."""
    state = compiled.empty()
    for job, offset in enumerate(offsets):
        put_job(state, job, int(offset), 1)
    return state
