"""Racks filled as cheaply as can be: against all ways to fill them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.clusters import small_case
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.gangs.fills import NEVER, RackFill

CROWDED = st.builds(
    small_case,
    st.integers(0, 2**32),
    nodes=st.just((2, 4)),
    most_racks=st.just(2),
    tasks=st.just((2, 5)),
)


def cheapest(cycle: Cycle, rack: int, tasks: int) -> list[int] | None:
    """Return the least cost of so many tasks on a rack's interfaces at each offset."""
    most = np.minimum(cycle.room, cycle.carried)
    nodes = np.flatnonzero(cycle.state.rack == rack).tolist()
    ways = [
        [cycle.row(int(cycle.state.interface[n]), k).tolist() for n, k in counts.items()]
        for counts in map(Counter, combinations_with_replacement(nodes, tasks))
        if all(count <= most[node] for node, count in counts.items())
    ]
    costs = [[sum(each) for each in zip(*rows, strict=True)] for rows in ways]
    return [min(each) for each in zip(*costs, strict=True)] if costs else None


@given(CROWDED)
def test_a_rack_is_filled_as_cheaply_as_can_be(cycle: Cycle) -> None:
    for rack in range(len(cycle.whole)):
        fill = RackFill(cycle, rack)
        for tasks in range(1, cycle.gang.tasks + 1):
            expected = cheapest(cycle, rack, tasks)
            if expected is None:
                assert len(fill.least) <= tasks
                continue
            assert fill.least[tasks].tolist() == expected
            for offset in (0, cycle.period - 1):
                counts = Counter(fill.nodes(tasks, offset))
                assert counts.total() == tasks
                assert (cycle.state.rack[list(counts)] == rack).all()
                spent = [
                    cycle.row(int(cycle.state.interface[node]), count)[offset]
                    for node, count in counts.items()
                ]
                assert sum(spent) == expected[offset]


@given(CROWDED)
def test_the_uplink_comes_on_top(cycle: Cycle) -> None:
    for rack in range(len(cycle.whole)):
        fill = RackFill(cycle, rack)
        assert (fill.lifted[0] == 0).all()
        for tasks in range(1, cycle.gang.tasks + 1):
            if tasks > fill.holds:
                assert (fill.lifted[tasks] == NEVER).all()
            else:
                on_top = fill.lifted[tasks] - fill.least[tasks]
                assert on_top.tolist() == cycle.lift({rack: tasks}).tolist()
