"""The marginal cost of one burst pattern at all offsets, by folding and a sliding window.

Added to a link, a burst of demand d raises the overload of a layer with demand D and capacity C
from ``max(0, D - C)`` to ``max(0, D + d - C)``: by ``max(0, min(D, C) + d - C)``. What a burst
costs that begins at slot u is the sum of this over its slots and over all its repetitions. So fold
the hyperperiod onto the period, then let a window of the burst's length slide over it: O(H + T)
for all offsets at once.

The windows are linear in what they slide over. So all layers and links of a burst are folded and
weighted into one array first, and one window slides over that.

Arrays are int64. The demand of a link has shape (layers, H): layer k holds
the demand of all jobs whose weight is at least the k-th; a job is in the lowest layers, up to its
own weight. The loops are written so that the compiler can turn them into vector instructions: no
index wraps around, no branch depends on the data where it can be avoided.
"""

from __future__ import annotations

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.solvers.kernels.compiled_instance import Ints


@inner
def fold(row: Ints, capacity: int, rate: int, folded: Ints) -> None:
    """Fold what a burst adds to the overload of a layer of demand, shape (H,), onto the period."""
    period = folded.shape[0]
    slack = rate - capacity
    for u in range(period):
        folded[u] = max(min(row[u], capacity) + slack, 0)
    for begin in range(period, row.shape[0], period):
        part = row[begin : begin + period]
        for u in range(period):
            folded[u] += max(min(part[u], capacity) + slack, 0)


@inner
def add_multiple(factor: int, folded: Ints, total: Ints) -> None:
    """Add `factor` times `folded` to `total`, shape (T,) each."""
    for u in range(total.shape[0]):
        total[u] += factor * folded[u]


@kernel
def add_windows(folded: Ints, start: int, length: int, prefix: Ints, cost: Ints) -> int:
    """Add to ``cost[o]`` the cyclic sum of `folded` over a burst at offset o.

    Parameters
    ----------
    folded
        Shape (T,).
    start, length
        The burst inside the period, ``start + length <= T``.
    prefix
        Scratch, shape (2 T,).
    cost
        In and out, shape (T,).

    Returns
    -------
    int
        The minimum entry of `cost` after the addition.
    """
    period = folded.shape[0]
    total = np.int64(0)
    for u in range(period):
        prefix[u] = total
        total += folded[u]
    for u in range(start + length):
        prefix[period + u] = prefix[u] + total
    begin = prefix[start : start + period]
    end = prefix[start + length : start + length + period]
    minimum: int = cost[0] + (end[0] - begin[0])
    for o in range(period):
        value = cost[o] + (end[o] - begin[o])
        cost[o] = value
        minimum = min(minimum, value)
    return minimum


@kernel
def first_offset(cost: Ints, wanted: int, ready: int) -> int:
    """Return the offset of cost `wanted` that waits the shortest time after `ready`."""
    for o in range(ready, cost.shape[0]):
        if cost[o] == wanted:
            return o
    for o in range(ready):
        if cost[o] == wanted:
            return o
    return -1


@kernel
def middle_of_longest_run(cost: Ints, ready: int) -> tuple[int, int]:
    """Return the offset amid the longest run of offsets that cost nothing, and its margin.

    A job that costs nothing at one offset and at `margin` more on either side has that many free
    slots before and after each of its bursts, on each of its links: by so much may it, or what
    surrounds it, grow. Among equals the offset that waits least after `ready` is taken.

    Parameters
    ----------
    cost
        Shape (T,), cyclic, not negative, 0 somewhere.

    Returns
    -------
    tuple of int
        Offset and margin; the margin is T where no offset costs anything.
    """
    period = cost.shape[0]
    anchor = 0
    while anchor < period and cost[anchor] == 0:
        anchor += 1
    if anchor == period:
        return ready, period
    best, most, min_wait = -1, -1, period
    run = 0  # offsets up to o that cost nothing, counted from the anchor on: none is cut in two
    for begin, end in ((anchor + 1, period), (0, anchor + 1)):
        for o in range(begin, end):
            if cost[o] == 0:
                run += 1
                continue
            margin = (run - 1) // 2
            if run > 0 and margin >= most:
                for middle in (o - run + margin, o - 1 - margin):
                    wait = (middle - ready) % period
                    if margin > most or wait < min_wait:
                        best, most, min_wait = middle % period, margin, wait
            run = 0
    return best, most
