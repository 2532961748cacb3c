"""`crowded`: a leaf-spine packed at random, to measure speed on; no family of stored instances."""

from __future__ import annotations

import random

from metronome_opt.instance import Instance, Job, Link, Phase

NIC = 50_000
OVERSUBSCRIPTION = 2


def crowded(racks: int, nodes_per_rack: int, jobs: int, seed: int = 0) -> Instance:
    """Return multi-node jobs on a leaf-spine, placed in fragments.

    Every node has one interface of 50 Gbit/s, every rack an uplink of half of what its nodes can
    send. A job has 3 to 8 tasks, spread over nodes of one to three racks; periods divide 240 slots,
    bursts take an eighth to two fifths of them, weights are 1, 2 or 4.

    Parameters
    ----------
    racks, nodes_per_rack, jobs
        Size.
    seed
        The same numbers and seed give the same instance.
    """
    draw = random.Random(seed)
    nodes = [
        [f"node-{rack:02}-{node:02}" for node in range(nodes_per_rack)] for rack in range(racks)
    ]
    uplink = nodes_per_rack * NIC // OVERSUBSCRIPTION
    links = [Link(name=name, capacity=NIC) for rack in nodes for name in rack]
    links += [Link(name=f"rack-{rack:02}-uplink", capacity=uplink) for rack in range(racks)]
    return Instance(
        name=f"crowded-{racks}x{nodes_per_rack}-{jobs}-{seed}",
        slot_ms=5,
        links=tuple(links),
        jobs=tuple(_job(draw, index, nodes) for index in range(jobs)),
    )


def _job(draw: random.Random, index: int, nodes: list[list[str]]) -> Job:
    period = draw.choice((60, 80, 120, 240))
    tasks = draw.randint(3, 8)
    chosen = draw.sample(range(len(nodes)), min(len(nodes), draw.randint(1, 3)))
    pool = [(rack, name) for rack in chosen for name in nodes[rack]]
    placed = draw.sample(pool, min(tasks, len(pool)))
    flows = {name: 1 for _, name in placed}
    used = {rack for rack, _ in placed}
    if len(used) > 1:
        for rack in sorted(used):
            flows[f"rack-{rack:02}-uplink"] = sum(home == rack for home, _ in placed)
    length = draw.randint(period // 8, 2 * period // 5)
    return Job(
        name=f"job-{index:03}",
        period=period,
        weight=draw.choice((1, 2, 4)),
        ready=draw.randrange(period),
        phases=(Phase(start=0, length=length, rate=draw.randrange(25_000, NIC + 1, 500)),),
        links=flows,
    )
