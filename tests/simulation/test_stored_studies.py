"""The stored studies of the repository can be drawn and are as they say."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest

from metronome_opt import evaluate, solve
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario import build_scenario
from metronome_opt.simulation.study import Cell
from tests.simulation.studies import NAMES, cells, period, stored


# Of the large one the last cell alone is drawn in `test_draws`.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "fabric-256")) for name in NAMES],
)
def test_jobs_of_stored_studies_can_be_built(name: str) -> None:
    made = stored(name)
    assert made.name == name
    assert made.seeds >= 10
    assert len(made.cells) == prod(len(values) for values in made.grid.values())
    for cell in made.cells[:: max(1, len(made.cells) // 24 - 1)]:  # of large grids a part
        made.conditions_of(cell)
        drawn = made.scenario(cell, 0)
        if all(job.nodes for job in drawn.jobs):
            build_scenario(drawn)
        for job in {job.model: job for job in drawn.jobs}.values():
            assert period(made, cell, job)[0]
            assert job.iterations


def best_score(instance: Instance) -> float:
    """Return the best compatibility that shifts reach; all weights are 1, both links alike."""
    result = solve(instance, time_limit=20, threads=1)
    assert result.status == "optimal"
    score = evaluate(instance, result.schedule.offsets).score_min
    assert score is not None
    return float(score)


@pytest.mark.parametrize("cell", cells("snapshot").values(), ids=cells("snapshot"))
def test_snapshot_has_named_compatibility_on_one_link(cell: Cell) -> None:
    drawn = stored("snapshot").scenario(cell, 7)
    instance = build_scenario(drawn).instance
    count, score = str(cell.settings["mix"]).split("-")
    assert len(drawn.jobs) == {"two": 2, "three": 3, "four": 4}[count]
    assert [dict(job.links) for job in instance.jobs] == [
        {"node-00": 1, "node-01": 1} for _ in drawn.jobs
    ]
    assert best_score(instance) == pytest.approx(float(score), abs=0.005)
    periods = sorted(job.period for job in instance.jobs)
    assert all(longer % shorter == 0 for shorter, longer in pairwise(periods))
    built = build_scenario(drawn)
    for job, exact, made in zip(drawn.jobs, built.iterations, instance.jobs, strict=True):
        assert made.period * instance.slot_ms <= 1.05 * exact.duration + instance.slot_ms
        assert 0 <= job.arrival_s < exact.duration / 1000
        assert (job.iterations or 0) * exact.duration / 1000 == pytest.approx(120, rel=0.01)
