"""One job against many candidate nodes at once: the scoring of placement."""

from __future__ import annotations

import numpy as np
from numba import njit

from metronome_opt.errors import InputError
from metronome_opt.instance import Job
from metronome_opt.kernels.sliding import (
    add_multiple,
    add_windows,
    first_offset,
    fold,
    roomiest_offset,
)
from metronome_opt.kernels.tables import Ints

_LARGEST = 2**62


def score_nodes(
    demand: Ints, capacity: Ints, job: Job, *, prices: Ints | None = None, flows: int = 1
) -> tuple[Ints, Ints, Ints]:
    """Find the best offset of a job on every candidate node.

    Parameters
    ----------
    demand
        What runs there, Mbit/s, not negative, int32 or int64 (int32 is faster), shape (nodes, H) or
        (nodes, layers, H), H a multiple of the job's period. Layer k holds the demand of the jobs
        whose weight is at least the k-th, the lowest layer that of all. Only the layers up to the
        job's own weight belong here.
    capacity
        Mbit/s, shape (nodes,).
    job
        Its phases, period and ready time are used, its links are not.
    prices
        Weight differences between successive layers, shape (layers,); 1 each if left out.
    flows
        How many times the job's rate is put on the link.

    Returns
    -------
    offset
        Shape (nodes,): least cost, among equals the largest cushion, then the shortest wait.
    cost
        Shape (nodes,): what the job adds to H times the contention, weight * Mbit/s * slots.
    cushion
        Shape (nodes,): free slots on either side of every burst, 0 where the job costs something,
        the period where nothing limits it.

    Raises
    ------
    InputError
        If shapes do not fit or the costs may not fit 64-bit integers.
    """
    for name, numbers in (("demand", demand), ("capacity", capacity), ("prices", prices)):
        if numbers is not None and numbers.dtype.kind not in "iu":
            raise InputError(f"{name}: must be integers, got an array of {numbers.dtype}")
    layered = demand[:, np.newaxis, :] if demand.ndim == 2 else demand
    if layered.ndim != 3 or layered.shape[2] % job.period:
        raise InputError(
            f"demand: shape {demand.shape} must be (nodes, H) or (nodes, layers, H), "
            f"H a multiple of the period {job.period}"
        )
    nodes, layers, hyperperiod = layered.shape
    if prices is None:
        prices = np.ones(layers, dtype=np.int64)
    if capacity.shape != (nodes,) or prices.shape != (layers,):
        raise InputError(
            f"capacity, prices: shapes {capacity.shape}, {prices.shape} must be "
            f"({nodes},), ({layers},)"
        )
    if flows < 1 or (prices < 0).any():
        raise InputError(f"flows, prices: must be positive, got {flows}, {prices.tolist()}")
    bound = _largest_value(job, flows, prices, hyperperiod)
    if max(bound, int(capacity.max(initial=0))) >= _LARGEST:
        raise InputError(f"job {job.name}: its cost may not fit 64-bit integers; use larger units")
    phases = np.array(
        [(phase.start, phase.length, phase.rate * flows) for phase in job.phases], dtype=np.int64
    )
    # Narrow integers are twice as fast: twice as many of them fit a vector register.
    work: Ints = np.empty(0, np.int32 if bound < 2**31 else np.int64)
    return _score_nodes(
        np.ascontiguousarray(layered),
        capacity.astype(np.int64),
        prices.astype(np.int64),
        job.period,
        job.ready % job.period,
        phases,
        work,
    )


def _largest_value(job: Job, flows: int, prices: Ints, hyperperiod: int) -> int:
    """Bound every number that the kernel forms but the entries of `demand`."""
    price: int = max(1, sum(prices.tolist()))
    return price * flows * max(len(job.phases), 2) * job.peak * hyperperiod


@njit(cache=True, nogil=True)
def _score_nodes(
    demand: Ints,
    capacity: Ints,
    prices: Ints,
    period: int,
    ready: int,
    phases: Ints,
    work: Ints,
) -> tuple[Ints, Ints, Ints]:
    nodes, layers = demand.shape[:2]
    bursts = phases.shape[0]
    offset = np.empty(nodes, np.int64)
    value = np.empty(nodes, np.int64)
    cushion = np.zeros(nodes, np.int64)
    priced = np.empty(period, work.dtype)
    folded = np.empty(period, work.dtype)
    prefix = np.empty(2 * period, work.dtype)
    cost = np.empty(period, work.dtype)
    for node in range(nodes):
        least = 0
        cost[:] = 0
        for p in range(bursts):
            start, length, rate = phases[p, 0], phases[p, 1], phases[p, 2]
            fold(demand[node, 0], capacity[node], rate, folded)
            if layers == 1:
                least = add_windows(folded, start, length, prices[0], prefix, cost)
                continue
            priced[:] = 0
            add_multiple(prices[0], folded, priced)
            for layer in range(1, layers):
                fold(demand[node, layer], capacity[node], rate, folded)
                add_multiple(prices[layer], folded, priced)
            least = add_windows(priced, start, length, 1, prefix, cost)
        value[node] = least
        if least > 0:
            offset[node] = first_offset(cost, least, ready)
        else:
            offset[node], cushion[node] = roomiest_offset(cost, ready)
    return offset, value, cushion
