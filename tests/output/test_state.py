"""Tables of a cluster's state count resources, tasks and demands."""

from __future__ import annotations

from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.output.state import state_tables
from tests.kubernetes.state.small import cluster, running, state_of
from tests.output.printed import lines


def shown(state: ClusterState) -> list[list[list[str]]]:
    """Return the words of each line of each table."""
    return [lines(table) for table in state_tables(state)]


def test_resources_and_nodes_of_jobs() -> None:
    state = state_of(
        cluster([2, 1], gpus=4),
        running("a", "n0 n0 n2", (0, 4, 50), gpus=1, offset=6, weight=4),
        running("b", "n1", gpus=3),
    )
    state.set_node("n1", up=False)
    resources, jobs = shown(state)
    assert resources[2] == ["GPUs", "12", "6"]
    assert ["nodes", "3", "2", "take", "tasks"] in resources
    # 2 are left on n0, 1 on n1 and 3 on n2.
    # Tasks, nodes, racks; the period of 12 slots and the offset of 6 are of 5 ms each.
    assert jobs[3:] == [
        ["a", "4", "3", "2", "2", "60", "30", "n0", "x", "2,", "n2"],
        ["b", "1", "1", "1", "1", "60", "0", "n1"],
    ]


def test_shared_links_are_sorted_by_load() -> None:
    state = state_of(
        cluster([3], uplink=None),
        running("a", "n0 n1"),
        running("b", "n0 n1", offset=2),
        running("c", "n1 n2", offset=6),
    )
    _, _, links = shown(state)
    # Of 100 Mbit/s each job takes 60 in 4 of 12 slots; in 2 of 12 there are two of them.
    assert links[2:] == [
        ["n1", "3", "100", "60.0%", "16.7%"],
        ["n0", "2", "100", "40.0%", "16.7%"],
    ]
