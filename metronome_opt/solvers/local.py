"""Iterated local search from the greedy schedule."""

from __future__ import annotations

import numpy as np

from metronome_opt.kernels.jobs import demand_of, descend, workspace
from metronome_opt.kernels.perturb import empty_queue, neighbours_of, search_chunk
from metronome_opt.kernels.tables import CostTooLargeError, compile_instance
from metronome_opt.solvers import greedy
from metronome_opt.solvers.search import Search

STRENGTH = 3
KICKS = 200
PATIENCE = 40


def run(search: Search) -> None:
    """Improve the greedy schedule until the time is over or nothing better turns up for long."""
    greedy.run(search)
    improve(search, share=1.0)


def improve(
    search: Search, *, share: float, seed: int | None = None, patience: int = PATIENCE
) -> None:
    """Descend from the incumbent, then kick and descend again.

    Ends after `patience` chunks of `KICKS` kicks without a gain, or when `share` of the time that
    is left is used up.
    """
    if search.stopped or search.best is None:
        return
    deadline = None if search.remaining is None else search.elapsed + share * search.remaining
    try:
        compiled = compile_instance(search.instance, common_scale=True)
    except CostTooLargeError as error:
        search.notes.append(f"no local search: {error}")
        return
    tables = compiled.tables
    around = neighbours_of(compiled)
    if not len(around.free):
        return
    offsets = np.array(search.best, dtype=np.int64)
    demand = demand_of(compiled, offsets)
    work, queue = workspace(compiled), empty_queue(len(offsets))
    while descend(tables, demand, offsets, around.free, work) and not search.stopped:
        pass
    search.offer(offsets, "descent")
    generator = np.random.default_rng(search.seed if seed is None else seed)
    idle = 0
    while idle < patience and not search.stopped:
        if deadline is not None and search.elapsed > deadline:
            return
        seed = int(generator.integers(2**31))
        gained = search_chunk(tables, demand, offsets, around, queue, STRENGTH, KICKS, seed, work)
        idle = 0 if gained else idle + 1
        if gained:
            search.offer(offsets, "local search")
