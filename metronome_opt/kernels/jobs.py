"""Whole jobs on all their links: put, take away, score at all offsets, improve one by one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from metronome_opt.kernels.compiling import inner, kernel
from metronome_opt.kernels.sliding import (
    add_multiple,
    add_windows,
    first_offset,
    fold,
    roomiest_offset,
)
from metronome_opt.kernels.tables import Compiled, Ints, Tables


@kernel
def put_use(tables: Tables, demand: Ints, job: int, use: int, offset: int, sign: int) -> None:
    """Add (`sign` 1) or take away (-1) the demand of a job on one of its links."""
    period = tables.period[job]
    link = tables.use_link[use]
    hyperperiod = tables.hyperperiod[link]
    for p in range(tables.phase_ptr[job], tables.phase_ptr[job + 1]):
        amount = sign * tables.use_flows[use] * tables.phase_rate[p]
        first = (offset + tables.phase_start[p]) % period
        straight = min(tables.phase_length[p], period - first)
        wrapped = tables.phase_length[p] - straight
        for layer in range(tables.use_layers[use]):
            block = tables.base[link] + layer * hyperperiod
            for begin in range(block, block + hyperperiod, period):
                for t in range(begin + first, begin + first + straight):
                    demand[t] += amount
                for t in range(begin, begin + wrapped):
                    demand[t] += amount


@kernel
def put_job(tables: Tables, demand: Ints, job: int, offset: int, sign: int) -> None:
    """Add (`sign` 1) or take away (-1) the demand of a job at an offset, on all links and layers.

    Parameters
    ----------
    demand
        In and out, the flat layered demand of all links.
    """
    for use in range(tables.use_ptr[job], tables.use_ptr[job + 1]):
        put_use(tables, demand, job, use, offset, sign)


@kernel
def score_job(tables: Tables, demand: Ints, job: int, cost: Ints, work: Ints) -> int:
    """Compute what a job adds to the contention at every offset, given the demand of the others.

    Parameters
    ----------
    demand
        The flat layered demand without the job.
    cost
        Out, shape (T,): added contention times ``tables.scale[job]``, in units.
    work
        Scratch, shape (4 T,) or longer.

    Returns
    -------
    int
        The least cost.
    """
    return _score_uses(
        tables, demand, job, tables.use_ptr[job], tables.use_ptr[job + 1], cost, work
    )


@kernel
def score_use(tables: Tables, demand: Ints, job: int, use: int, cost: Ints, work: Ints) -> int:
    """Compute the same for one of its links; return the least."""
    return _score_uses(tables, demand, job, use, use + 1, cost, work)


@inner
def _score_uses(
    tables: Tables, demand: Ints, job: int, first: int, last: int, cost: Ints, work: Ints
) -> int:
    period = tables.period[job]
    priced = work[:period]
    folded = work[period : 2 * period]
    prefix = work[2 * period : 4 * period]
    least = 0
    cost[:] = 0
    for p in range(tables.phase_ptr[job], tables.phase_ptr[job + 1]):
        priced[:] = 0
        for use in range(first, last):
            link = tables.use_link[use]
            hyperperiod = tables.hyperperiod[link]
            rate = tables.use_flows[use] * tables.phase_rate[p]
            for layer in range(tables.use_layers[use]):
                begin = tables.base[link] + layer * hyperperiod
                row = demand[begin : begin + hyperperiod]
                fold(row, tables.capacity[link], rate, folded)
                price = tables.price[tables.layer_ptr[link] + layer]
                add_multiple(tables.use_scale[use] * price, folded, priced)
        start, length = tables.phase_start[p], tables.phase_length[p]
        least = add_windows(priced, start, length, 1, prefix, cost)
    return least


@kernel
def score_two(
    tables: Tables,
    demand: Ints,
    first: int,
    second: int,
    offsets: Ints,
    domain: Ints,
    added: Ints,
    work: Ints,
) -> None:
    """Compute what a second job adds at some offsets, for each of some offsets of a first.

    Parameters
    ----------
    demand
        Of neither; left as it was.
    offsets, domain
        Offsets of the first, of the second.
    added
        Out, shape (offsets, domain): what the second adds where the first is, scaled.
    work
        Scratch, shape (5 T,) or longer for the second's period T.
    """
    cost = work[: tables.period[second]]
    for i in range(offsets.shape[0]):
        put_job(tables, demand, first, offsets[i], 1)
        score_job(tables, demand, second, cost, work[cost.shape[0] :])
        put_job(tables, demand, first, offsets[i], -1)
        for k in range(domain.shape[0]):
            added[i, k] = cost[domain[k]]


@kernel
def score_placed(
    tables: Tables, demand: Ints, job: int, offset: int, cost: Ints, work: Ints
) -> int:
    """Compute what a job of the demand would add to the contention elsewhere; return the least.

    Parameters
    ----------
    demand
        Of all jobs, this one at `offset`; left as it was.
    cost, work
        As `score_job` has them.
    """
    put_job(tables, demand, job, offset, -1)
    least = score_job(tables, demand, job, cost, work)
    put_job(tables, demand, job, offset, 1)
    return least


@kernel
def best_offset(tables: Tables, demand: Ints, job: int, work: Ints) -> tuple[int, int]:
    """Return the best offset of a job and its scaled cost.

    Least cost; among equals the most room, then the shortest wait.

    Parameters
    ----------
    work
        Scratch, shape (5 T,) or longer.
    """
    period = tables.period[job]
    cost = work[:period]
    least = score_job(tables, demand, job, cost, work[period:])
    if least > 0:
        return first_offset(cost, least, tables.ready[job]), least
    return roomiest_offset(cost, tables.ready[job])[0], least


@kernel
def descend(tables: Tables, demand: Ints, offsets: Ints, order: Ints, work: Ints) -> int:
    """Move each job of `order` in turn to its cheapest offset, if that is cheaper than its own.

    Parameters
    ----------
    demand, offsets
        In and out, consistent with each other.
    work
        Scratch, shape (5 T,) or longer for the longest period T.

    Returns
    -------
    int
        How many jobs moved.
    """
    moved = 0
    for job in order:
        period = tables.period[job]
        cost = work[:period]
        put_job(tables, demand, job, offsets[job], -1)
        least = score_job(tables, demand, job, cost, work[period:])
        if least < cost[offsets[job]]:
            offsets[job] = first_offset(cost, least, tables.ready[job])
            moved += 1
        put_job(tables, demand, job, offsets[job], 1)
    return moved


@kernel
def _link_sums(tables: Tables, demand: Ints, sums: Ints) -> None:
    for link in range(tables.capacity.shape[0]):
        capacity = tables.capacity[link]
        hyperperiod = tables.hyperperiod[link]
        total = np.int64(0)
        for entry in range(tables.layer_ptr[link], tables.layer_ptr[link + 1]):
            begin = tables.base[link] + (entry - tables.layer_ptr[link]) * hyperperiod
            over = np.int64(0)
            for t in range(begin, begin + hyperperiod):
                over += max(demand[t] - capacity, 0)
            total += tables.price[entry] * over
        sums[link] = total


def contention(compiled: Compiled, demand: Ints) -> Fraction:
    """Return the contention of a demand, exact, in weight * Mbit/s."""
    sums = np.zeros(len(compiled.links), dtype=np.int64)
    _link_sums(compiled.tables, demand, sums)
    return sum(
        (
            Fraction(int(total) * compiled.unit, link.hyperperiod)
            for total, link in zip(sums, compiled.links, strict=True)
        ),
        Fraction(0),
    )


def demand_of(compiled: Compiled, offsets: Sequence[int] | Ints) -> Ints:
    """Return the layered demand of all jobs at the given offsets (in the order of the instance)."""
    demand = compiled.empty_demand()
    for job, offset in enumerate(offsets):
        put_job(compiled.tables, demand, job, int(offset), 1)
    return demand


def workspace(compiled: Compiled) -> Ints:
    """Return scratch memory that is large enough for every job."""
    longest = max(job.period for job in compiled.instance.jobs)
    return np.empty(5 * longest, dtype=np.int64)
