"""``python -m metronome_opt.kernels``: compile all kernels now, so that no run has to wait."""

from __future__ import annotations

import numpy as np

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.batch import score_nodes
from metronome_opt.kernels.branch import grow, start_tree
from metronome_opt.kernels.jobs import best_offset, contention, demand_of, descend, workspace
from metronome_opt.kernels.perturb import empty_queue, neighbours_of, search_chunk
from metronome_opt.kernels.tables import compile_instance


def main() -> None:
    """Call every kernel once on two jobs; numba keeps what it compiles on disk."""
    burst = Phase(start=0, length=2, rate=60)
    jobs = tuple(Job(name=name, period=4, phases=(burst,), links={"l": 1}) for name in "ab")
    links = (Link(name="l", capacity=100),)
    instance = Instance(name="warm", slot_ms=1, links=links, jobs=jobs)
    compiled = compile_instance(instance, common_scale=True)
    offsets = np.zeros(2, dtype=np.int64)
    demand, work = demand_of(compiled, offsets), workspace(compiled)
    around = neighbours_of(compiled)
    best_offset(compiled.tables, demand, 1, work)
    descend(compiled.tables, demand, offsets, around.free, work)
    search_chunk(compiled.tables, demand, offsets, around, empty_queue(2), 1, 1, 0, work)
    contention(compiled, demand)
    tree = start_tree(compiled, offsets, 10**6, 0, offsets)
    grow(compiled.tables, compiled.empty_demand(), tree, work, 10)
    for dtype in (np.int32, np.int64):
        score_nodes(np.zeros((1, 4), dtype=dtype), np.array([100]), jobs[0])


if __name__ == "__main__":
    main()
