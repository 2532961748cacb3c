"""A job that is to leave does so with the end of an iteration."""

from __future__ import annotations

import math

import pytest

from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Pattern, Runner
from tests.builders import job


def engine_of(*patterns: Pattern, iterations: int | None = None) -> Engine:
    """Return jobs called a, b and so on that are on one link from now on."""
    runners = [Runner(chr(97 + i), each, 1, iterations, 1) for i, each in enumerate(patterns)]
    engine = Engine({"link": 100}, runners)
    for index in range(len(runners)):
        engine.enter(index, {"link": 1}, at=0.0)
    return engine


ALTERNATING = Pattern.of_job(job("x", 10, (4, 3, 100)), 10)  # bursts from 40 to 70 ms of 100


@pytest.mark.parametrize(
    ("moment", "end"),
    [(0, 100), (20, 100), (55, 100), (99, 100), (100, 200), (250, 300)],
)
def test_a_job_leaves_with_the_end_of_the_iteration_that_it_is_in(moment: int, end: int) -> None:
    engine = engine_of(ALTERNATING)
    assert engine.run(float(moment)) is None
    engine.end(0)
    assert engine.run(math.inf) == 0
    assert engine.now == end
    assert list(engine.times(0)) == [100.0] * (end // 100)
    assert engine.run(math.inf) is None


def test_a_job_that_waits_leaves_after_the_iteration_that_it_waits_for() -> None:
    engine = Engine({"link": 100}, [Runner("a", ALTERNATING, 1, None, 1)])
    engine.enter(0, {"link": 1}, at=500.0)
    engine.run(300.0)
    engine.end(0)
    assert engine.run(math.inf) == 0
    assert engine.now == 600.0
