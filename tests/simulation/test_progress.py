"""The least time that jobs run, as estimated at their placements from long runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.engine.conditions import Conditions
from metronome_opt.simulation import simulate
from tests.simulation.scenes import scene, switch, work
from tests.simulation.studies import study
from tests.tiers import examples


def test_two_jobs_that_ask_for_more_than_a_link_take_longer() -> None:
    """Both send 40 of 60 ms over the same links, which is done in 80 ms at best."""
    jobs = (work(name, 0, 1, model="Long", batch=2, iterations=50) for name in "ab")
    run = simulate(scene(switch(2, 2), *jobs), "default", estimated=True)
    assert run.estimate == pytest.approx(80 / 60, rel=1e-3)
    assert (run.jobs["iteration_mean_ms"] >= 80 - 1e-9).all()


def test_estimate_is_a_mean_over_time() -> None:
    """Alone for three quarters of its time, which ends when the other one comes, or leaves."""
    jobs = [work("a", 0, 1, model="Long", batch=2, iterations=1000)]
    jobs.append(work("b", 0, 1, model="Long", batch=2, iterations=100, arrival_s=20))
    run = simulate(scene(switch(2, 2), *jobs), "default", estimated=True)
    a, b = run.jobs["end_s"]
    together = b - 20
    jobs_s = a + together
    assert run.estimate == pytest.approx(jobs_s / (jobs_s - together / 2), rel=1e-3)


@examples(15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    policy=st.sampled_from(["default", "nearest", "mltcp", "metronome"]),
    sharing=st.sampled_from(["fair", "tcp"]),
    jitter=st.sampled_from([0.0, 0.1]),
)
def test_jobs_take_little_less_time_than_estimated(
    seed: int, policy: str, sharing: Any, jitter: float
) -> None:
    made = study(draw={"dynamic": {"count": 8, "load": 1.2, "iterations": [100, 200]}})
    scenario = made.scenario(made.cells[0], seed)
    conditions = Conditions(sharing=sharing, jitter=jitter)
    run = simulate(scenario, policy, seed=seed, conditions=conditions, estimated=True)
    took = (run.jobs["end_s"] - run.jobs["start_s"]).sum()
    alone = (run.jobs["iterations"] * run.jobs["ideal_ms"]).sum() / 1000
    assert run.estimate is not None
    assert took / alone >= run.estimate - 0.02  # for how intervals begin, and chance


def test_one_iteration_may_take_less_than_estimated() -> None:
    """Its computing time is as likely shorter than its mean as longer; nothing is shared."""
    alone = scene(switch(2, 1), work("a", 0, 1, iterations=1))
    took = []
    for seed in range(8):
        conditions = Conditions(jitter=0.1)
        run = simulate(alone, "nearest", seed=seed, conditions=conditions, estimated=True)
        assert run.estimate == 1
        took.append(1000 * run.jobs["end_s"][0] / run.jobs["ideal_ms"][0])
    assert min(took) < 1 < max(took)


def test_estimate_is_1_without_contention_and_none_without_asking() -> None:
    jobs = [work("a", 0, 1), work("b", 0, 1)]
    assert simulate(scene(switch(2, 2), *jobs), "default", estimated=True).estimate == 1
    assert simulate(scene(switch(2, 2), *jobs), "default").estimate is None
