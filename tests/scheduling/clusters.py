"""Small clusters, jobs that run on them, and gangs that ask for a place."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

from hypothesis import strategies as st

from benchmarks.clusters import make_cluster, small_case
from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.state import ClusterState, Mode
from metronome_opt.cluster.views import instance_of
from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scenario.network import Resources
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.place import FIRST
from metronome_opt.verify import evaluate

Price = tuple[tuple[int, Fraction], int, int]
"""Conflicts, 0 if they do not count, and contention; racks; fragments."""

CASES = st.builds(
    lambda case, first: Cycle(case.state, case.gang, first=first),
    st.builds(
        small_case,
        st.integers(0, 2**32),
        nodes=st.just((2, 4)),
        most_racks=st.just(3),
        tasks=st.just((1, 3)),
        mode=st.sampled_from(("shared", "exclusive")),
    ),
    st.sampled_from(FIRST),
)
"""Cases small enough to look at all places."""


def cluster(
    racks: Sequence[int],
    *,
    gpus: int | Sequence[int] = 2,
    interface: int = 100,
    uplink: int | None = 150,
    hyperperiod: int = 24,
) -> ClusterSpec:
    """Return nodes n0, n1, ... in racks of some sizes, whose uplinks are up-0, up-1, ..."""
    return make_cluster(
        racks,
        name="small",
        gpus=gpus,
        interface=interface,
        uplink=uplink,
        hyperperiod=hyperperiod,
    )


def gang(tasks: int, *bursts: tuple[int, int, int], name: str = "new", **fields: Any) -> Gang:
    """Return a gang whose tasks have `bursts` (start, length, rate) in 12 slots.

    They need a GPU each if nothing is said of that.
    """
    phases = tuple(Phase(start=s, length=m, rate=b) for s, m, b in bursts or [(0, 4, 60)])
    return Gang(name=name, tasks=tasks, phases=phases, **{"period": 12, **fields})


def running(
    name: str,
    nodes: str,
    *bursts: tuple[int, int, int],
    offset: int = 0,
    gpus: int = 0,
    **fields: Any,
) -> Reservation:
    """Return the claim of a job with a task on each of `nodes`, "n0 n1"."""
    names = tuple(nodes.split())
    asked = gang(len(names), *bursts, name=name, each=Resources(gpus=gpus), **fields)
    return Reservation(gang=asked, nodes=names, offset=offset)


def state_of(spec: ClusterSpec, *claims: Reservation, mode: Mode = "shared") -> ClusterState:
    """Return a cluster with some claims in force."""
    state = ClusterState(spec, mode=mode)
    for claim in claims:
        state.reserve(claim)
    return state


def judged_contention(state: ClusterState) -> Fraction:
    """Return the contention of what runs, as the judge has it."""
    if not state.claims:
        return Fraction(0)
    offsets = {job: claim.offset for job, claim in state.claims.items()}
    stretch = {job: claim.stretch for job, claim in state.claims.items()}
    return evaluate(instance_of(state), offsets, stretch).contention


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
    """Return what the gang costs on some nodes at each offset, as judged.

    That is to how many links' contention it adds, 0 if that does not count, and how much it adds.
    """
    before = judged_links(cycle.state)
    costs = []
    for offset in range(cycle.period):
        after = judged_links(with_gang(cycle, nodes, offset))
        added = [contention - before.get(link, 0) for link, contention in after.items()]
        conflicts = sum(more > 0 for more in added) if cycle.conflict else 0
        costs.append((conflicts, sum(added, Fraction(0))))
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
