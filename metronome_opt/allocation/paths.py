"""Paths of the flows of a job through spines: the widest remaining in time, one after the other.

A flow goes by the spine on whose two links it costs least: by what the links, with the other flows
of its job, leave of its rate, and by pairs of jobs, as `meetings` has them from simulations over
time. Of equals it takes the one with most bandwidth free in the mean. Two rounds, since later flows
of the job are not known in the first.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from metronome_opt.allocation.request import JobRequest
from metronome_opt.scenario.cluster import Paths
from metronome_opt.scenario.flows import Placement

if TYPE_CHECKING:
    from metronome_opt.allocation.occupancy import Occupancy

_ROUNDS = 2
_BLINK = 0.25  # chance of a spine to be left out in a search
_MOST_CHOICES = 16  # of the flows of a job, all of which are listed

Flow = tuple[int, int]
"""The task that sends, and the number of the interface."""


def choose_paths(
    occupancy: Occupancy, job: JobRequest, placement: Placement, draw: random.Random | None = None
) -> Placement:
    """Return a placement of a job that is not placed with other paths of its flows.

    Parameters
    ----------
    draw
        Leaves spines out at random, so that a search finds other paths.
    """
    spines = range(occupancy.room.cluster.spines)
    flows = [(task, n) for task, its in enumerate(placement.paths) for n in range(len(its))]
    chosen = {flow: number % len(spines) for number, flow in enumerate(flows)}
    links, fastest = _links_of(occupancy, job, placement, flows)
    transport, capacities = placement.transport, occupancy.room.cluster.capacities
    parts = {flow: transport.flows // len(placement.paths[flow[0]]) for flow in flows}
    own: Counter[str] = Counter()
    for flow in flows:
        own.update(dict.fromkeys(links[flow][chosen[flow]], parts[flow]))

    def key(flow: Flow, spine: int) -> tuple[float, float, int]:
        counts = {link: own[link] + parts[flow] for link in links[flow][spine]}
        shares = (Fraction(capacities[link], count) for link, count in counts.items())
        at = transport._replace(rate=min([fastest, *shares]))
        if at.rate < 1:
            return math.inf, math.inf, spine
        cost, load = job.cost_weight * job.expected_ms * job.loss(at), 0.0
        for link, count in counts.items():
            price, full = occupancy.price_on(link, job, job.traffic(at), count)
            cost, load = cost + price, load + full
        return cost, load, spine

    for _ in range(_ROUNDS):
        for flow in flows:
            own.subtract(dict.fromkeys(links[flow][chosen[flow]], parts[flow]))
            offered = [s for s in spines if draw is None or draw.random() >= _BLINK] or [*spines]
            *_, chosen[flow] = min(key(flow, spine) for spine in offered)
            own.update(dict.fromkeys(links[flow][chosen[flow]], parts[flow]))
    return _with_paths(occupancy, job, placement, chosen)


def list_paths(paths: Paths, spines: int) -> Iterator[Paths]:
    """Yield spines for flows that have some: all choices, or turns if there are many."""
    count = sum(map(len, paths))
    choices: Iterator[Sequence[int]] = product(range(spines), repeat=count)
    if spines**count > _MOST_CHOICES:
        choices = (
            [(first + step * number) % spines for number in range(count)]
            for first in range(spines)
            for step in range(2)
        )
    for choice in choices:
        left = iter(choice)
        yield tuple(tuple(next(left) for _ in its) for its in paths)


def _with_paths(
    occupancy: Occupancy, job: JobRequest, placement: Placement, chosen: Mapping[Flow, int]
) -> Placement:
    paths = tuple(
        tuple(chosen[task, n] for n in range(len(its))) for task, its in enumerate(placement.paths)
    )
    return occupancy.room.by_paths(placement.nodes, job, paths)


def _links_of(
    occupancy: Occupancy, job: JobRequest, placement: Placement, flows: Sequence[Flow]
) -> tuple[Mapping[Flow, Sequence[Sequence[str]]], Fraction]:
    """Return the links between racks that flows cross by each spine, and the most that rails do."""
    cluster = occupancy.room.cluster
    rails = {rail for node in {*placement.nodes} for rail in cluster.nodes_by_name[node].rails}
    links: dict[Flow, list[Sequence[str]]] = {flow: [] for flow in flows}
    for spine in range(cluster.spines):
        there = _with_paths(occupancy, job, placement, dict.fromkeys(flows, spine))
        for task, number in flows:
            between = dict.fromkeys(link for link in there.routes[task] if link not in rails)
            links[task, number].append(tuple(between))
    counts = {link: n for link, n in placement.links.items() if link in rails}
    return links, min(Fraction(cluster.capacities[link], n) for link, n in counts.items())
