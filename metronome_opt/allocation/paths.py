"""Paths of the flows of a job through spines: the widest remaining in time, one after the other.

A flow goes by the spine on whose two links it meets least of its own job, then costs least by pairs
of jobs, as `meetings` has them from simulations over time, then finds most bandwidth free in the
mean. Two rounds, since later flows of the job are not known in the first.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from metronome_opt.allocation.demand import Demand
from metronome_opt.scenario.flows import Paths, Placement

if TYPE_CHECKING:
    from metronome_opt.allocation.occupancy import Occupancy

_ROUNDS = 2
_BLINK = 0.25  # chance of a spine to be left out in a search
_MOST_CHOICES = 16  # of the flows of a job, all of which are listed

Flow = tuple[int, int]
"""The task that sends, and the number of the interface."""


def choose_paths(
    occupancy: Occupancy, job: Demand, placement: Placement, draw: random.Random | None = None
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
    base = _with_paths(occupancy, job, placement, chosen)
    links = _links_of(occupancy, job, placement, chosen)
    own = Counter(link for flow in flows for link in links[flow][chosen[flow]])
    prices: dict[str, tuple[float, float]] = {}

    def key(flow: Flow, spine: int) -> tuple[float, float, float, int]:
        crossed = links[flow][spine]
        for link in crossed:
            if link not in prices:
                prices[link] = occupancy.price_on(link, job, base)
        cost, load = (sum(prices[link][at] for link in crossed) for at in range(2))
        return sum(own[link] for link in crossed), cost, load, spine

    for _ in range(_ROUNDS):
        for flow in flows:
            own.subtract(links[flow][chosen[flow]])
            offered = [s for s in spines if draw is None or draw.random() >= _BLINK] or [*spines]
            *_, chosen[flow] = min(key(flow, spine) for spine in offered)
            own.update(links[flow][chosen[flow]])
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
    occupancy: Occupancy, job: Demand, placement: Placement, chosen: Mapping[Flow, int]
) -> Placement:
    paths = tuple(
        tuple(chosen[task, n] for n in range(len(its))) for task, its in enumerate(placement.paths)
    )
    return occupancy.room.placement(placement.nodes, job, paths)


def _links_of(
    occupancy: Occupancy, job: Demand, placement: Placement, flows: Mapping[Flow, int]
) -> Mapping[Flow, Sequence[tuple[str, ...]]]:
    """Return the links between racks that each flow crosses by each spine."""
    links: dict[Flow, list[tuple[str, ...]]] = {flow: [] for flow in flows}
    own = {rail for node in {*placement.nodes} for rail in occupancy.room.cluster.hosts[node].rails}
    for spine in range(occupancy.room.cluster.spines):
        there = _with_paths(occupancy, job, placement, dict.fromkeys(flows, spine))
        for task, number in flows:
            between = dict.fromkeys(link for link in there.routes[task] if link not in own)
            links[task, number].append(tuple(between))
    return links
