"""The best place of a gang by enumeration, priced by the verifier."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

from benchmarks.clusters import make_cluster
from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.views import instance_of
from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.scenario.network import Resources
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.verify import evaluate

Price = tuple[tuple[int, Fraction], int, int]
"""Conflicts and contention; racks; fragments."""


def small_case(seed: int) -> Cycle:
    """Draw a cluster in use and a gang that asks for a place there.

    One to three GPUs of each node are free; jobs of two and three tasks run, with weights of 1, 2
    and 4 and periods of 8, 12 and 24 slots. Most of their links can be overloaded.
    """
    draw = random.Random(seed)
    size = draw.randint(2, 4)
    cuts = sorted(draw.sample(range(1, size), draw.randint(1, min(3, size)) - 1))
    spec = make_cluster(
        [end - begin for begin, end in zip([0, *cuts], [*cuts, size], strict=True)],
        gpus=[draw.randint(1, 3) + draw.choice((0, 4)) for _ in range(size)],
        interface=100,
        uplink=draw.choice((None, 100, 160, 250)),
        hyperperiod=24,
    )
    state = ClusterState(spec)
    hosts = [host.name for host in spec.nodes]
    for index in range(draw.randint(size, 3 * size)):
        homes = draw.choices(hosts, k=draw.randint(2, 3))
        gang = _small_gang(draw, f"job-{index}", len(homes), gpus=0)
        _reserve_if_it_fits(state, gang, homes, draw.randrange(gang.period))
    for index, host in enumerate(hosts):
        used = int(state.total[index, 0]) - draw.randint(1, 3)
        if used > 0:
            _reserve_if_it_fits(state, _small_gang(draw, f"alone-{index}", 1, gpus=used), [host], 0)
    limit = draw.choice((None, None, 1, 2))
    gang = _small_gang(draw, "new", draw.randint(1, 3), gpus=1)
    return Cycle(state, gang.model_copy(update={"most_racks": limit}))


def _small_gang(draw: random.Random, name: str, tasks: int, *, gpus: int) -> Gang:
    period = draw.choice((8, 12, 24))
    first = draw.randint(1, period // 2)
    phases = [Phase(start=0, length=first, rate=draw.randint(20, 60))]
    if draw.random() < 0.3:
        length = draw.randint(1, period - first - 1)
        phases.append(Phase(start=first + 1, length=length, rate=draw.randint(20, 60)))
    return Gang(
        name=name,
        tasks=tasks,
        each=Resources(gpus=gpus),
        period=period,
        phases=tuple(phases),
        weight=draw.choice((1, 2, 4)),
        ready=draw.randrange(period),
    )


def _reserve_if_it_fits(state: ClusterState, gang: Gang, homes: Sequence[str], offset: int) -> None:
    crossed = state.cluster.placement(homes).links
    if all(count * gang.peak <= state.room(link) for link, count in crossed.items()):
        state.reserve(Reservation(gang=gang, nodes=tuple(homes), offset=offset))


def with_gang(cycle: Cycle, nodes: Sequence[int], offset: int) -> ClusterState:
    """Return a copy of the state in which the gang runs.

    Raises
    ------
    InputError
        If it finds no room there.
    """
    state = copy.deepcopy(cycle.state)
    names = tuple(state.cluster.nodes[node].name for node in nodes)
    state.reserve(Reservation(gang=cycle.gang, nodes=names, offset=offset, stretch=cycle.stretch))
    return state


def judged_links(state: ClusterState) -> dict[str, Fraction]:
    """Return the contention of each link, as the judge has it."""
    if not state.claims:
        return {}
    offsets = {job: claim.offset for job, claim in state.claims.items()}
    stretch = {job: claim.stretch for job, claim in state.claims.items()}
    links = evaluate(instance_of(state), offsets, stretch).links
    return {link.name: link.contention for link in links}


def judged_costs(cycle: Cycle, nodes: Sequence[int]) -> list[tuple[int, Fraction]]:
    """Return by offset the links to whose contention the gang adds, and how much, as judged."""
    before = judged_links(cycle.state)
    costs = []
    for offset in range(cycle.period):
        after = judged_links(with_gang(cycle, nodes, offset))
        added = [contention - before.get(link, 0) for link, contention in after.items()]
        costs.append((sum(more > 0 for more in added), sum(added, Fraction(0))))
    return costs


def racks_of(cycle: Cycle, nodes: Sequence[int]) -> int:
    """Return how many racks some nodes are in."""
    return len({cycle.state.cluster.nodes[node].rack for node in nodes})


def every_place(cycle: Cycle) -> Iterator[tuple[int, ...]]:
    """Yield all nodes, ascending, that reserving accepts and that are in few enough racks."""
    limit = cycle.gang.most_racks
    for nodes in combinations_with_replacement(range(len(cycle.room)), cycle.gang.tasks):
        if limit is not None and racks_of(cycle, nodes) > limit:
            continue
        try:
            with_gang(cycle, nodes, 0)
        except InputError:
            continue
        yield nodes


def judged_prices(cycle: Cycle) -> Mapping[tuple[int, ...], Price]:
    """Return costs at the best offset, racks and fragments of every place, as judged."""
    prices = {}
    for nodes in every_place(cycle):
        fragments = with_gang(cycle, nodes, 0).fragments - cycle.state.fragments
        prices[nodes] = (min(judged_costs(cycle, nodes)), racks_of(cycle, nodes), fragments)
    return prices
