"""``python -m metronome_opt.kernels``: compile all kernels now, so that no run has to wait."""

from __future__ import annotations

import numpy as np

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.batch import score_nodes
from metronome_opt.kernels.conditional import users_of
from metronome_opt.kernels.contacts import contacts_of
from metronome_opt.kernels.grow import grow
from metronome_opt.kernels.jobs import best_offset, contention, demand_of, descend, workspace
from metronome_opt.kernels.perturb import empty_queue, neighbours_of, search_chunk
from metronome_opt.kernels.rotations import rotate, start_rotations
from metronome_opt.kernels.tables import Compiled, compile_instance
from metronome_opt.kernels.tree import Experience, Groups, start_tree


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
    _grow_tree(compiled)
    rotate(
        compiled.tables,
        compiled.empty_demand(),
        start_rotations([[0], [0, 1]], [0, 0], 1),
        work,
        10,
    )
    for dtype in (np.int32, np.int64):
        score_nodes(np.zeros((1, 4), dtype=dtype), np.array([100]), jobs[0])


def _grow_tree(compiled: Compiled) -> None:
    contacts = contacts_of(compiled)
    groups = Groups(*(np.array(column, dtype=np.int64) for column in ([0], [-1], [-1], [0])))
    experience = Experience(np.zeros(2), np.ones(2))
    offsets, free = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.bool_)
    tree, demand = start_tree(compiled, contacts, offsets, 10**6, free, 1.0, experience)
    users, work = users_of(compiled, contacts), workspace(compiled)
    grow(compiled.tables, contacts, users, groups, demand, tree, work, 10)


if __name__ == "__main__":
    main()
