"""Exact: depth-first branch and bound on the supermodular bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from metronome_opt.kernels.branch import (
    Tree,
    dual_bound,
    grow,
    incumbent,
    is_done,
    start_tree,
)
from metronome_opt.kernels.jobs import contention, put_job, workspace
from metronome_opt.kernels.tables import Compiled, CostTooLargeError, Ints, compile_instance
from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.search import Search

_CHUNK = 2000  # nodes between two looks at the clock
_SOURCE = "branch-bound"


def run(search: Search) -> None:
    """Start from greedy and a short local search, then prove."""
    greedy.run(search)
    local.improve(search, share=0.1)
    prove(search)


def prove(search: Search, *, most_nodes: int | None = None) -> None:
    """Search the tree from the incumbent until it is done, stopped or has `most_nodes` nodes."""
    if search.stopped or search.best is None or search.incumbent is None:
        return
    try:
        compiled = compile_instance(search.instance, common_scale=True)
    except CostTooLargeError as error:
        search.notes.append(f"no branch and bound: {error}")
        return
    unit = Fraction(compiled.unit, int(compiled.tables.scale[0]))
    tree, demand = _root(compiled, np.array(search.best, dtype=np.int64), search.incumbent / unit)
    work = workspace(compiled)
    spent = 0
    while not is_done(tree) and not search.stopped:
        if most_nodes is not None and spent >= most_nodes:
            return
        value = incumbent(tree)
        grow(compiled.tables, demand, tree, work, _CHUNK)
        spent += _CHUNK
        if incumbent(tree) < value:
            search.offer(tree.best, _SOURCE)
        search.raise_bound(dual_bound(tree) * unit, _SOURCE)


def _root(compiled: Compiled, offsets: Ints, value: Fraction) -> tuple[Tree, Ints]:
    """Return the tree at its root and the demand of the fixed jobs."""
    jobs = compiled.instance.jobs
    demand = compiled.empty_demand()
    for index, job in enumerate(jobs):
        if job.fixed_offset is not None:
            put_job(compiled.tables, demand, index, job.fixed_offset, 1)
    unit = Fraction(compiled.unit, int(compiled.tables.scale[0]))
    traffic = [
        Fraction(job.weight * job.volume * sum(job.links.values()), job.period) for job in jobs
    ]
    ranked = sorted(range(len(jobs)), key=traffic.__getitem__)
    order = np.empty(len(jobs), dtype=np.int64)
    order[ranked] = np.arange(len(jobs))
    placed = contention(compiled, demand) / unit
    return start_tree(compiled, offsets, int(value), int(placed), order), demand
