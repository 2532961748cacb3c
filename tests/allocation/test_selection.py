"""The least weight times GPUs waits where not all jobs fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.allocation.placement_search import PlacementSearch
from metronome_opt.allocation.scenario_search import nearest
from metronome_opt.allocation.selection import lost, select_running
from metronome_opt.scenario import Scenario

JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5
)  # tasks, GPUs of a task, weight


def search(nodes: Sequence[int], jobs: Sequence[tuple[int, int, int]]) -> PlacementSearch:
    burst = {"start_ms": 60, "length_ms": 20, "rate_gbps": 1}
    document = {
        "format": "metronome-scenario/1",
        "name": "selection",
        "slot_ms": 5,
        "cluster": {
            "topology": "listed",
            "nodes": [
                {"name": f"n{i}", "has": {"gpus": gpus}, "interface": f"nic-{i}"}
                for i, gpus in enumerate(nodes)
            ],
            "links": [{"name": f"nic-{i}", "capacity": 100_000} for i in range(len(nodes))],
        },
        "patterns": {"p": {"period_ms": 100, "phases": [burst]}},
        "jobs": [
            {
                "name": f"j{i}",
                "traffic": "p",
                "workers": tasks,
                "each": {"gpus": gpus},
                "priority": weight,
            }
            for i, (tasks, gpus, weight) in enumerate(jobs)
        ],
    }
    return PlacementSearch(Scenario.from_dict(document))


def shares(tasks: int, nodes: int) -> Iterator[tuple[int, ...]]:
    for chosen in combinations_with_replacement(range(nodes), tasks):
        yield tuple(chosen.count(node) for node in range(nodes))


def fit(jobs: Sequence[tuple[int, int, int]], free: Sequence[int]) -> bool:
    """Return whether all jobs have room together, by trying all placements."""
    if not jobs:
        return True
    (tasks, gpus, _), *others = jobs
    return any(
        fit(others, [has - gpus * count for has, count in zip(free, counts, strict=True)])
        for counts in shares(tasks, len(free))
        if all(gpus * count <= has for has, count in zip(free, counts, strict=True))
    )


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), JOBS)
def test_no_other_choice_lets_more_run(nodes: list[int], jobs: list[tuple[int, int, int]]) -> None:
    jobs = [job for job in jobs if fit([job], nodes)]
    if not jobs:
        return
    asked = search(nodes, jobs)
    room = asked.occupancy().resources
    found = select_running(asked.unplaced, room)
    left = [job for job in asked.unplaced if job.name not in found]
    free = np.array(nodes)
    for name, places in found.items():
        for node in places:
            free[int(node[1:])] -= asked.jobs[name].task_resources.gpus
        assert len(places) == asked.jobs[name].tasks
    assert (free >= 0).all()
    values = [
        (
            sum(
                max(1, w) * tasks * gpus for i, (tasks, gpus, w) in enumerate(jobs) if i not in run
            ),
            len(jobs) - len(run),
        )
        for count in range(len(jobs) + 1)
        for run in combinations(range(len(jobs)), count)
        if fit([jobs[i] for i in run], nodes)
    ]
    assert lost(left) == min(values)


def test_fewest_gpus_stay_idle() -> None:
    # 132 GPUs are asked for, there are 128; 4 of them is the least that can wait.
    jobs = [(24, 1, 1), (64, 1, 1), (40, 1, 1), (4, 1, 1)]
    problem = nearest(search([8] * 16, jobs).scenario)
    assert problem.waiting == ("j3",)


def test_whole_nodes_are_kept_for_jobs_that_need_them() -> None:
    # Two jobs of one task with 4 GPUs fit beside four tasks of 1 GPU only on nodes of their own.
    jobs = [(4, 1, 1), (1, 4, 1), (1, 4, 1)]
    problem = nearest(search([4, 4, 4], jobs).scenario)
    assert problem.waiting == ()
