"""Paths of the flows of a job through spines: the widest remaining in time, one after the other.

A flow goes by the spine on whose two links it costs least: by what the links, with the other flows
of its job, leave of its rate, and by losses of pairs of jobs, which `pair_losses` has from
simulations. Of equals it takes the one with most bandwidth free in the mean. There are two rounds,
since later flows of the job are not known in the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, islice, product
from random import Random

from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.scenario.cluster import Paths
from metronome_opt.scenario.flows import Placement

_ROUNDS = 2
_BLINK = 0.25  # chance of a spine to be omitted in a search
_MAX_CHOICES = 16  # of the flows of a job, all of which are listed
_TRIES, _WITH = 24, 3  # of jobs that lose by their paths, each with some others
_MIN_SAVING = 0.01  # of what jobs cost, for which their flows change their paths

_Flow = tuple[int, int]  # the task that sends, and the number of the interface


def route(
    occupancy: Occupancy, job: JobRequest, placement: Placement, draw: Random | None = None
) -> Placement:
    """Return a placement with paths of low cost.

    Parameters
    ----------
    occupancy
        All other jobs.
    draw
        Omits spines at random, so that a search finds other paths; None to omit none.

    Returns
    -------
    Placement
        As given where paths cannot be chosen.
    """
    if not placement.paths or occupancy.resources.cluster.routing != "chosen":
        return placement
    spines = range(occupancy.resources.cluster.spines)
    flows = [(task, n) for task, its in enumerate(placement.paths) for n in range(len(its))]
    chosen = {flow: number % len(spines) for number, flow in enumerate(flows)}
    links, fastest = _links_of(occupancy, job, placement, flows)
    transport, capacities = placement.transport, occupancy.resources.cluster.capacities
    parts = {flow: transport.flows // len(placement.paths[flow[0]]) for flow in flows}
    own: Counter[str] = Counter()
    for flow in flows:
        own.update(dict.fromkeys(links[flow][chosen[flow]], parts[flow]))

    def key(flow: _Flow, spine: int) -> tuple[float, float, int]:
        counts = {link: own[link] + parts[flow] for link in links[flow][spine]}
        shares = (Fraction(capacities[link], count) for link, count in counts.items())
        there = transport._replace(rate=min([fastest, *shares]))
        if there.rate < 1:
            return math.inf, math.inf, spine
        cost, load = job.cost_weight * job.expected_ms * job.loss(there), 0.0
        for link, count in counts.items():
            more, full = occupancy.cost_on_link(link, job, job.traffic(there), count)
            cost, load = cost + more, load + full
        return cost, load, spine

    for _ in range(_ROUNDS):
        for flow in flows:
            own.subtract(dict.fromkeys(links[flow][chosen[flow]], parts[flow]))
            offered = [s for s in spines if draw is None or draw.random() >= _BLINK] or [*spines]
            *_, chosen[flow] = min(key(flow, spine) for spine in offered)
            own.update(dict.fromkeys(links[flow][chosen[flow]], parts[flow]))
    return _with_paths(occupancy, job, placement, chosen)


def place_on_nodes(
    occupancy: Occupancy, job: JobRequest, nodes: Sequence[str], paths: Paths | None = None
) -> Placement:
    """Return `CandidatePlacements.placement` beside other jobs, with paths by `route` if None."""
    resources = occupancy.resources
    if paths is None:
        paths = route(occupancy, job, resources.by_paths(nodes, job)).paths
    return resources.placement(nodes, job, paths)


def reroute_jobs(occupancy: Occupancy, names: list[str]) -> dict[str, Placement]:
    """Let flows of jobs take other paths where they cost less; return what changed, by job.

    First one job after the other, then each job with a loss and some others, spines omitted at
    random.
    """
    changed: dict[str, Placement] = {}
    draw = Random(len(names))  # noqa: S311 (nothing is kept secret)

    def has_loss(name: str) -> bool:
        return any(map(any, occupancy.losses_of(occupancy.placed[name]).values()))

    def several() -> Iterator[tuple[str, ...]]:
        losing = [name for name in names if has_loss(name)]
        for name in filter(has_loss, losing * _TRIES):
            if others := [other for other in names if other != name]:
                yield name, *draw.sample(others, min(_WITH, len(others)))

    for group in chain(((name,) for name in names), islice(several(), _TRIES)):
        now = cost = 0.0
        before, after = list[PlacedJob](), list[PlacedJob]()
        for name in group:
            before.append(occupancy.remove(name))
            now += occupancy.start(before[-1].job, before[-1].placement).cost
        for old in before:
            omits = draw if len(group) > 1 else None
            after.append(PlacedJob(old.job, route(occupancy, old.job, old.placement, omits)))
            cost += occupancy.start(old.job, after[-1].placement).cost
            occupancy.add(after[-1])
        if cost < now * (1 - _MIN_SAVING):
            changed |= {new.job.name: new.placement for new in after}
            continue
        for old in before:
            occupancy.remove(old.job.name)
            occupancy.add(old)
    return changed


def list_paths(paths: Paths, spines: int) -> Iterator[Paths]:
    """Yield spines for flows that have some: all choices, or turns if there are many."""
    count = sum(map(len, paths))
    choices: Iterator[Sequence[int]] = product(range(spines), repeat=count)
    if spines**count > _MAX_CHOICES:
        choices = (
            [(first + step * number) % spines for number in range(count)]
            for first in range(spines)
            for step in range(2)
        )
    for choice in choices:
        left = iter(choice)
        yield tuple(tuple(next(left) for _ in its) for its in paths)


def _with_paths(
    occupancy: Occupancy, job: JobRequest, placement: Placement, chosen: Mapping[_Flow, int]
) -> Placement:
    paths = tuple(
        tuple(chosen[task, n] for n in range(len(its))) for task, its in enumerate(placement.paths)
    )
    return occupancy.resources.by_paths(placement.nodes, job, paths)


def _links_of(
    occupancy: Occupancy, job: JobRequest, placement: Placement, flows: Sequence[_Flow]
) -> tuple[Mapping[_Flow, Sequence[Sequence[str]]], Fraction]:
    """Return the links between racks that flows cross by each spine, and the most that rails do."""
    cluster = occupancy.resources.cluster
    rails = {rail for node in {*placement.nodes} for rail in cluster.nodes_by_name[node].rails}
    links: dict[_Flow, list[Sequence[str]]] = {flow: [] for flow in flows}
    for spine in range(cluster.spines):
        there = _with_paths(occupancy, job, placement, dict.fromkeys(flows, spine))
        for task, number in flows:
            between = dict.fromkeys(link for link in there.routes[task] if link not in rails)
            links[task, number].append(tuple(between))
    counts = Counter(link for route in placement.routes for link in route if link in rails)
    return links, min(Fraction(cluster.capacities[link], n) for link, n in counts.items())
