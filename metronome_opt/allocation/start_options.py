"""Placements of one more job beside those that run: the nearest, the cheapest, and better nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random

from metronome_opt.allocation.candidates import network_cost
from metronome_opt.allocation.occupancy import Occupancy, StartOption
from metronome_opt.allocation.paths import route
from metronome_opt.allocation.request import JobRequest
from metronome_opt.scenario.flows import Placement

_MAX_EXCHANGES = 32  # nodes that are tried in place of one of the best of them
_MAX_EXCHANGED_TASKS = 8192  # placements that are tried for that, times tasks: it takes a while


def nearest_placement(occupancy: Occupancy, job: JobRequest) -> Placement | None:
    """Return the nearest placement of a job, if there is room."""
    placement = occupancy.resources.nearest(job)
    return None if placement is None else route(occupancy, job, placement)


def candidate_starts(
    occupancy: Occupancy, job: JobRequest, after_ms: float = 0.0
) -> list[StartOption]:
    """Return the starts of a job at its candidate placements after a time."""
    limit, resources = occupancy.candidates, occupancy.resources
    if limit > 1:
        placements = resources.candidates(job, limit)
    else:
        nearest = resources.nearest(job)
        placements = [] if nearest is None else [nearest]
    return list(starts_at(occupancy, job, placements, after_ms))


def starts_at(
    occupancy: Occupancy,
    job: JobRequest,
    placements: Iterable[Placement],
    after_ms: float = 0.0,
    draw: Random | None = None,
) -> Iterator[StartOption]:
    """Yield the starts of a job at placements, with paths, spines omitted at random if drawn."""
    for placement in placements:
        yield occupancy.start(job, route(occupancy, job, placement, draw), after_ms)


def cheapest(starts: Iterable[StartOption]) -> StartOption | None:
    """Return the cheapest start, of equals the nearest; None if there is none."""
    return min(starts, key=lambda start: (start.cost, network_cost(start.placement)), default=None)


def exchange_nodes(occupancy: Occupancy, job: JobRequest, best: StartOption) -> StartOption:
    """Return a start after one node after the other was exchanged for a cheaper one."""
    resources = occupancy.resources
    tasks_on = resources.tasks_by_node(job.task_resources)
    left = _MAX_EXCHANGED_TASKS // job.tasks
    for node, tasks in Counter(best.placement.nodes).items():
        if not best.losses or left <= 0 or occupancy.candidates == 1:
            break
        others = [
            other
            for other, count in tasks_on.items()
            if other not in best.placement.nodes and count >= tasks
        ]
        for other in others[: min(left, _MAX_EXCHANGES)]:
            left -= 1
            nodes = (other if name == node else name for name in best.placement.nodes)
            placement = resources.try_nodes(resources.arrange(nodes), job)
            if placement is None:
                continue
            start = occupancy.start(job, route(occupancy, job, placement), best.after_ms)
            if start.cost < best.cost:
                best = start
                break
    return best
