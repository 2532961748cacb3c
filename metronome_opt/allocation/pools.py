"""Pools of placements of a job, of which a joint model takes one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.paths import list_paths
from metronome_opt.allocation.request import JobRequest
from metronome_opt.scenario.flows import Placement

_SHAPES = 12  # candidates of a job that are rotated
_MAX_POOL = 96  # placements of a job


def build_pool(
    resources: CandidatePlacements, job: JobRequest, first: Sequence[Placement] = ()
) -> list[Placement]:
    """Return placements of a job on free nodes: its candidates, moved to other racks and nodes.

    They are moved by rotation, as all permutations of equal nodes would be too many.

    Parameters
    ----------
    first
        Placements to begin with.
    """
    pool = {(placement.nodes, placement.paths): placement for placement in first}
    for shape in resources.candidates(job, _SHAPES):
        turned = _rotations(resources, shape, job) if job.nodes is None else [shape.nodes]
        for nodes in dict.fromkeys(turned):
            if len(pool) >= _MAX_POOL:
                break
            if (placement := resources.try_nodes(nodes, job)) is not None:
                for routed in _with_paths(resources, job, placement):
                    pool.setdefault((routed.nodes, routed.paths), routed)
    return list(pool.values())


def _with_paths(
    resources: CandidatePlacements, job: JobRequest, placement: Placement
) -> Iterator[Placement]:
    """Yield a placement with the paths that its flows may take."""
    if not placement.paths or resources.cluster.routing != "chosen":
        yield placement
        return
    for paths in list_paths(placement.paths, resources.cluster.spines):
        routed = resources.by_paths(placement.nodes, job, paths)
        if job.fits(routed):
            yield routed


def _rotations(
    resources: CandidatePlacements, placement: Placement, job: JobRequest
) -> Iterator[tuple[str, ...]]:
    """Yield the nodes of a placement with racks, and nodes within racks, rotated."""
    free = resources.tasks_by_node(job.task_resources)
    racks: dict[str | None, list[str]] = {}
    for node in resources.cluster.nodes:
        racks.setdefault(node.rack, []).append(node.name)
    nodes = list(racks.values())
    counts = Counter(placement.nodes)
    parts = [[counts[node] for node in there if node in counts] for there in nodes]
    yield tuple(sorted(placement.nodes))
    for turn in range(len(parts)):
        for step in range(max(map(len, nodes))):
            chosen: list[str] = []
            for rack, part in enumerate(parts):
                there = nodes[(rack + turn) % len(parts)]
                able = [node for node in there if free[node] >= max(part, default=1)]
                if len(able) >= len(part):
                    for place, count in enumerate(part, step):
                        chosen += [able[place % len(able)]] * count
            if len(chosen) == job.tasks:
                yield tuple(sorted(chosen))
