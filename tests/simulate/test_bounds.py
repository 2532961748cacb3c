"""Lower bounds of the time that jobs run, at the places where they run."""

from __future__ import annotations

import pytest

from metronome_opt.simulate import simulate
from tests.simulate.scenes import scene, switch, work


def test_two_jobs_that_ask_for_more_than_a_link_are_bounded() -> None:
    """Both send 40 of 60 ms over the same links, which is done in 80 ms at best."""
    jobs = (work(name, 0, 1, model="Long", batch=2, iterations=50) for name in "ab")
    run = simulate(scene(switch(2, 2), *jobs), "default", bounded=True)
    assert run.bound == pytest.approx(80 / 60, rel=1e-3)
    assert (run.jobs["iteration_mean_ms"] >= 80 - 1e-9).all()


def test_bound_is_a_mean_over_time() -> None:
    """Alone for three quarters of its time, which ends when the other one comes, or leaves."""
    jobs = [work("a", 0, 1, model="Long", batch=2, iterations=1000)]
    jobs.append(work("b", 0, 1, model="Long", batch=2, iterations=100, arrival_s=20))
    run = simulate(scene(switch(2, 2), *jobs), "default", bounded=True)
    a, b = run.jobs["end_s"]
    together = b - 20
    jobs_s = a + together
    assert run.bound == pytest.approx(jobs_s / (jobs_s - together / 2), rel=1e-3)


def test_no_bound_is_1_without_contention_and_none_without_asking() -> None:
    jobs = [work("a", 0, 1), work("b", 0, 1)]
    assert simulate(scene(switch(2, 2), *jobs), "default", bounded=True).bound == 1
    assert simulate(scene(switch(2, 2), *jobs), "default").bound is None
