"""Placements as coming and going leave them: tasks of a job here and there."""

from __future__ import annotations

import random
from collections import Counter

from metronome_opt.scenario.model import Cluster


def take_fragment(
    draw: random.Random, cluster: Cluster, free: Counter[str], workers: int, racks: int
) -> tuple[str, ...] | None:
    """Take a GPU on each of `workers` random nodes, from `racks` racks or as many as it needs.

    Parameters
    ----------
    draw
        Where chance comes from.
    cluster
        The nodes.
    free
        GPUs that are free on each node; those that are taken are subtracted.
    workers, racks
        How many.

    Returns
    -------
    tuple of str or None
        The nodes in order; None if fewer than `workers` have a GPU that is free.
    """
    size = cluster.nodes // cluster.rack_count
    pool: list[str] = []
    for count, rack in enumerate(draw.sample(range(cluster.rack_count), cluster.rack_count), 1):
        names = cluster.node_names[rack * size : (rack + 1) * size]
        pool += [node for node in names if free[node]]
        if count >= racks and len(pool) >= workers:
            break
    if len(pool) < workers:
        return None
    nodes = tuple(sorted(draw.sample(pool, workers)))
    free.subtract(nodes)
    return nodes
