"""Runs are equal to recorded ones, under all ways to share links."""

from __future__ import annotations

import pytest

from metronome_opt.simulation import Conditions
from tests.builders import job
from tests.simulation.runs import free_run, links

CROWD = links(
    job("a", 10, (6, 4, 100)),
    job("b", 9, (3, 2, 80), (6, 3, 100), weight=2, links={"link": 1, "other": 1}),
    job("c", 12, (7, 5, 60), weight=0, links={"other": 2}),
    other=100,
)
# Of 40 iterations of each job together, in ms.
RECORDED = {
    "fair": (4745.456702783491, 5482.277705839208, 5996.686915792866),
    "strict": (4972.408464299155, 3603.1248429957686, 6214.131515334631),
    "weighted": (4888.325000258339, 3961.4169021491493, 6403.375096918063),
    "tcp": (4744.74042771179, 5496.256642749638, 5952.954308996818),
}


@pytest.mark.parametrize("sharing", list(RECORDED))
def test_runs_are_as_recorded(sharing: str) -> None:
    run = free_run(CROWD, {"a": 0, "b": 1, "c": 2}, 40, sharing, Conditions(jitter=0.05), seed=7)
    sums = [float(times.sum()) for times in run.times.values()]
    assert sums == pytest.approx(RECORDED[sharing], rel=1e-12)
