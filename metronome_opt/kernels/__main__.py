"""``python -m metronome_opt.kernels``: compile all kernels now, so that no run has to wait."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels import fitting
from metronome_opt.kernels.conditional import contacts_of, users_of
from metronome_opt.kernels.few import blames, end_release, room_for, start_release, try_offsets
from metronome_opt.kernels.fluid import loop
from metronome_opt.kernels.fluid.world import empty_world
from metronome_opt.kernels.grow import grow
from metronome_opt.kernels.jobs import (
    best_offset,
    contention,
    descend,
    put_use,
    score_job,
    score_two,
    score_use,
    state_of,
)
from metronome_opt.kernels.perturb import (
    anneal,
    go_to,
    gumbel_noise,
    neighbours_of,
    no_kicks,
    recombine,
    spreads,
    start_walk,
    take_steps,
)
from metronome_opt.kernels.tables import Compiled, compile_instance
from metronome_opt.kernels.tree import Groups, Pseudocosts, start_tree


def compile_all() -> None:
    """Compile all kernels on two cores; those that several parts call come first, and once."""
    _score()
    with ProcessPoolExecutor(max_workers=2) as pool:
        for done in [pool.submit(part) for part in _PARTS]:
            done.result()


def _compiled() -> Compiled:
    """Return two jobs on a link."""
    burst = Phase(start=0, length=2, rate=60)
    jobs = tuple(Job(name=name, period=4, phases=(burst,), links={"l": 1}) for name in "ab")
    links = (Link(name="l", capacity=100),)
    instance = Instance(name="warm", slot_ms=1, links=links, jobs=jobs)
    return compile_instance(instance, common_scale=True)


def _score() -> None:
    """Call the kernels that others call as well."""
    compiled = _compiled()
    state, row = state_of(compiled, (0, 0)), np.zeros(4, dtype=np.int64)
    put_use(state, 1, 1, 0, -1)
    score_job(state, 1, row)
    score_use(state, 0, 0, row)
    best_offset(state, 1)
    contention(compiled, state)


def _descend() -> None:
    """Score and improve jobs one by one."""
    compiled = _compiled()
    state, offsets = state_of(compiled, (0, 0)), np.zeros(2, dtype=np.int64)
    score_two(state, 0, 1, offsets, offsets, np.zeros((2, 2), np.int64))
    descend(state, offsets, neighbours_of(compiled).free)
    anywhere = np.ones(2, dtype=np.int64)
    fitting.descend(fitting.start_descent(compiled, offsets, anywhere), 10)


def _search_locally() -> None:
    """Anneal, walk, recombine, and free a few jobs."""
    compiled = _compiled()
    around, generator = neighbours_of(compiled), np.random.default_rng(0)
    state, offsets = state_of(compiled, (0, 0)), np.zeros(2, dtype=np.int64)
    scale = spreads(state, offsets, around.free)
    noise = gumbel_noise(generator, 4)
    anneal(state, offsets, around.free, scale, 1.0, 0.5, noise, generator, 2)
    walk = start_walk(offsets, around, no_kicks())
    take_steps(state, offsets, around, walk, scale, generator, 9)
    go_to(state, offsets, around.free, walk.best)
    recombine(state, around, offsets, offsets, True, generator)
    room = room_for(2, 2, 4)
    blames(state, offsets, around.free)
    start_release(state, offsets, around.free, room)
    try_offsets(state, room, 9)
    end_release(state, offsets, room)


def _let_flow() -> None:
    """Let two jobs of one iteration compute, and then share a link."""
    world = empty_world(jobs=2, links=1, uses=2, segments=4, sample=1, trace=1)
    world.links["capacity"] = 1.0
    for job, row in enumerate(world.jobs):
        row["first_segment"], row["segments"] = 2 * job, 2
        row["first_use"], row["uses"], row["total"] = job, 1, 1
        world.uses[job] = (0, job, 1.0, -1, -1)
        for name in ("compute", "volume", "rate"):
            world.segments[2 * job][name] = 1.0
        loop.enter(world, job, 0.0)
        loop.wait_for(world, job, 1.0)
    loop.run(world, 3.0, 9, 0)
    loop.settle(world)
    loop.add_sent(world, np.zeros(2))


def _grow_tree() -> None:
    """Search a tree."""
    compiled = _compiled()
    contacts = contacts_of(compiled)
    groups = Groups(*(np.array(column, dtype=np.int64) for column in ([0], [-1], [-1], [0])))
    pseudocosts = Pseudocosts(np.zeros(2), np.ones(2))
    offsets, free = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.bool_)
    users, value = users_of(compiled, contacts), 10**6
    grow(start_tree(compiled, contacts, users, groups, offsets, value, free, 1.0, pseudocosts), 10)


_PARTS = (_grow_tree, _search_locally, _let_flow, _descend)  # the longest ones first

if __name__ == "__main__":
    sys.stdout.write("compiling the kernels that are not on disk yet; all of them take a minute\n")
    sys.stdout.flush()
    compile_all()
