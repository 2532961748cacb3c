"""Scores: by hand, one rotation over all links, and what the judge says of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.scheduling.cycle import Cycle, First, Partial
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.nodes import Scores, filter_nodes, score_nodes
from metronome_opt.scheduling.state import ClusterState
from tests.scheduling.clusters import (
    CASES,
    cluster,
    gang,
    judged_costs,
    running,
    state_of,
)


def scored(
    state: ClusterState, asked: Gang, placed: str = "", first: First = "compatibility"
) -> Scores:
    """Score all nodes for the next task, others being on the nodes that are named."""
    cycle = Cycle(state, asked, first=first)
    partial = cycle.partial([state.node_index(name) for name in placed.split()])
    return score_nodes(cycle, partial, np.arange(len(state.cluster.nodes)))


# Interfaces carry 100, hyperperiods are 24 slots unless said otherwise.
EARLY = running("early", "n0 n3", (0, 6, 60))  # slots 0 to 5 of 12
LATE = running("late", "n1 n3", (0, 6, 60), offset=6)  # slots 6 to 11
ONE_RACK = cluster([4], gpus=1)


def test_all_links_have_one_rotation() -> None:
    state = state_of(ONE_RACK, EARLY, LATE)
    asked = gang(2, (0, 6, 60))
    alone = scored(state, asked)
    assert [alone.offset[0], alone.offset[1]] == [6, 0]
    assert [alone.cost[0], alone.cost[1]] == [0, 0]
    # Node 0 wants an offset of 6, node 1 one of 0; at any, six slots meet on one or the other.
    both = scored(state, asked, "n0")
    assert both.cost[1] == 2 * 6 * 20
    # Of 2 tasks, 6 slots, 60 and 2 repetitions, 1440, that is 17 percent; of two links on one.
    assert both.score[1] == 100 - 9
    assert scored(state, asked, "n0", first="contention").score[1] == 100 - 17
    assert (both.cost[2], both.offset[2]) == (0, 6)


def test_a_link_in_conflict_counts_more_than_what_is_late() -> None:
    state = state_of(ONE_RACK, running("many", "n0 n1", (0, 12, 41)), running("few", "n2 n3"))
    state.set_capacity("n3", 200)
    asked = gang(2, (0, 8, 60))
    # With a task on node 0, that on 1 is late by little too, and those on 2 and 3 by nothing more.
    found = scored(state, asked, "n0")
    assert found.score.tolist()[1:] == [100 - 51, 100 - 1, 100 - 1]
    by_contention = scored(state, asked, "n0", first="contention")
    assert by_contention.score.tolist()[1:] == [100 - 2, 100 - 1, 100 - 1]


def test_what_weighs_nothing_is_late_at_no_cost_and_has_the_best_score() -> None:
    """Contention is weighted, and the lightest gives way: nobody it meets counts."""
    state = state_of(ONE_RACK, running("full", "n0 n1", (0, 12, 100)))
    found = scored(state, gang(2, (0, 12, 60), weight=0))
    assert found.cost.tolist() == [0, 0, 0, 0]
    assert found.score.tolist() == [100, 100, 100, 100]


@pytest.mark.slow
@given(CASES, st.data())
def test_the_last_task_costs_what_the_judge_finds(cycle: Cycle, data: st.DataObject) -> None:
    partial = Partial()
    for _ in range(cycle.gang.tasks - 1):
        passing = filter_nodes(cycle, partial)
        assume(len(passing))
        partial = cycle.add(partial, data.draw(st.sampled_from(passing.tolist())))
    scores = score_nodes(cycle, partial, filter_nodes(cycle, partial))
    placed = [node for node, count in partial.nodes.items() for _ in range(count)]
    for i, node in enumerate(scores.nodes.tolist()):
        judged = judged_costs(cycle, [*placed, node])
        conflicts = int(scores.least[i]) // cycle.conflict if cycle.conflict else 0
        added = Fraction(int(scores.cost[i]), cycle.state.cluster.hyperperiod)
        assert judged[scores.offset[i]] == min(judged) == (conflicts, added)
