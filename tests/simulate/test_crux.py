"""Crux: classes by GPU intensity."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.simulate import simulate
from tests.simulate.runs import column, job_table
from tests.simulate.scenes import scene, switch, work

# Two workers on two nodes; a sample takes 10 ms to compute, Long bursts for 40 ms. By intensity
# 2 * 80 / 40 = 4, 2 and 1.
MODEL: dict[str, Any] = {"model": "Long"}
KEEN, MIDDLE, IDLE = (MODEL | {"batch": batch} for batch in (8, 4, 2))


def pair(policy: str, *jobs: dict[str, Any]) -> dict[str, float]:
    """Return the mean iteration of jobs on the same two nodes, in ms."""
    given = [work(name, 0, 1, **fields) for name, fields in zip("abc", jobs, strict=False)]
    return column(simulate(scene(switch(2, 3), *given), policy), "iteration_mean_ms")


@pytest.mark.parametrize("order", [(KEEN, IDLE), (IDLE, KEEN)])
def test_the_job_of_higher_intensity_runs_as_alone(order: tuple[dict[str, Any], ...]) -> None:
    keen, idle = "ab" if order[0] is KEEN else "ba"
    means = pair("crux", *order)
    assert means[keen] == pytest.approx(120)
    assert means[idle] > 60
    assert pair("nearest", *order)[keen] > 121


def test_gpus_count_and_not_only_times() -> None:
    """Four workers burst for 60 ms: 4 * 80 / 60 = 5.3, more than 2 * 80 / 40 = 4 of two."""
    given = scene(
        switch(4, 2), work("a", 0, 1, **KEEN), work("b", 0, 1, 2, 3, **KEEN, iterations=40)
    )
    assert column(simulate(given, "crux"), "iteration_mean_ms")["b"] == pytest.approx(140)


def test_the_next_job_is_first_when_the_first_one_leaves() -> None:
    """a bursts for the last 40 of 120 ms, until 1200; c is below both.

    b ends at 80 and 160; it is ready at 200, goes after a, and ends at 280. So every 120 ms until
    1240, its eleventh iteration; then the other 39 take 80 ms each.
    """
    jobs = ({**KEEN, "iterations": 10}, MIDDLE, {**IDLE, "iterations": 400})
    given = [work(name, 0, 1, **fields) for name, fields in zip("abc", jobs, strict=True)]
    rows = job_table(simulate(scene(switch(2, 3), *given), "crux"))
    assert rows["a"]["end_s"] == pytest.approx(1.2)
    assert rows["b"]["end_s"] == pytest.approx(1.24 + 39 * 0.08)


def test_jobs_beyond_eight_on_a_link_share_the_lowest_class() -> None:
    """Ten jobs, each computes for 10 * batch ms: the last seven are in classes of their own.

    The first three have sent 55 / 3, 25 / 3 and 10 / 3 ms of theirs when the fourth one comes, at
    40. The others take the link until 320. A third each until 385, when the first job is done; then
    the others have 10 and 15 left.
    """
    given = [
        work(f"job-{batch:02}", 0, 1, model="Long", batch=batch, iterations=1)
        for batch in range(1, 11)
    ]
    ends = column(simulate(scene(switch(2, 10), *given), "crux"), "end_s")
    lowest = {name: ends[name] for name in ("job-01", "job-02", "job-03")}
    assert lowest == pytest.approx({"job-01": 0.385, "job-02": 0.405, "job-03": 0.41})
    # Each bursts for 10 ms until the next one comes, which goes first, and so on.
    others = {f"job-{batch:02}": 0.14 + 0.03 * (10 - batch) for batch in range(4, 11)}
    assert {name: ends[name] for name in others} == pytest.approx(others)
