"""New windows, drifting clocks and bursts with windows follow their rules, worked out by hand."""

from __future__ import annotations

import math

import pytest

from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import WindowSchedule
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation import Conditions
from tests.builders import job
from tests.simulation.runs import finish, running

PATTERN = Iteration.of_job(job("a", 10, (6, 4, 100)), 10)  # 60 ms of computing, 40 of bursting


# ------------------------------------------------------------------ a plan is changed


@pytest.mark.parametrize("start", [110.0, 120.0, 150.0])
def test_waiting_job_takes_new_window(start: float) -> None:
    """It waits from 100 to 130; at 110 it gets another start than 130."""
    windows = WindowSchedule(130.0)
    engine = running(PATTERN, windows=[windows], iterations=4)
    assert engine.run(110.0) is None
    engine.set_windows(0, windows, start)
    assert finish(engine) == [[start, 130, 130, 100]]
    assert engine.rephasings(0) == 0


# ------------------------------------------------------------------ clocks drift


@pytest.mark.parametrize("seed", range(8))
def test_clock_is_set_when_off_by_more_than_the_tolerance(seed: int) -> None:
    """A clock fast by p begins 120 p too early, once more each time, until it is off by 1 ms.

    One that is slow by p begins too late, and the plan follows it by as much.
    """
    conditions = Conditions(drift_ppm=1000)

    def drifting(tolerance: float, iterations: int) -> tuple[Engine, list[float]]:
        windows = [WindowSchedule(120.0, tolerance)]
        engine = running(
            PATTERN, windows=windows, iterations=iterations, conditions=conditions, seed=seed
        )
        (times,) = finish(engine)
        return engine, times

    _, free = drifting(10.0, 3)
    drift = 120 / free[0] - 1
    engine, times = drifting(1.0, 200)
    begins = [sum(times[:index]) for index in range(len(times))]
    if drift > 0:
        off = [begin - 120 * index for index, begin in enumerate(begins)]
        assert max(off) <= 1e-6
        each = math.floor(1 / (120 * drift / (1 + drift))) + 1  # iterations until it is set
        assert engine.rephasings(0) == 199 // each
        assert min(off) >= -1 - 1e-6
    else:
        assert times[:-1] == pytest.approx([120 / (1 + drift)] * 199)
        assert engine.rephasings(0) == 0


# ------------------------------------------------------------------ counted once each


def test_rephasing_of_a_held_group_counts_once_per_job() -> None:
    """a and b meet from 60 on, once, when b bursts for 20: a is 20 late, the others wait once."""
    held = WindowSchedule(100.0, 1.0, group=1)
    engine = running(
        *(PATTERN, PATTERN, PATTERN, Iteration.of_job(job("b", 8, (6, 2, 100)), 10)),
        links=["link", "x", "y", "link"],
        starts=[0.0, 30.0, 70.0, 0.0],
        windows=[held, held, held, None],
        iterations=[6, 6, 6, 1],
    )
    assert finish(engine)[1:3] == [[120, 100, 100, 100, 100, 100]] * 2
    assert [engine.rephasings(index) for index in range(3)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("moment", "end"),
    [(0, 100), (20, 100), (55, 100), (99, 100), (100, 200), (250, 300)],
)
def test_job_leaves_at_the_end_of_its_iteration(moment: int, end: int) -> None:
    """Bursts last from 40 to 70 of 100 ms."""
    engine = running(Iteration.of_job(job("x", 10, (4, 3, 100)), 10), iterations=None)
    assert engine.run(float(moment)) is None
    engine.end(0)
    assert engine.run(math.inf) == 0
    assert engine.now == end
    assert engine.times(0).tolist() == [100.0] * (end // 100)
    assert engine.run(math.inf) is None


# ------------------------------------------------------------------ bursts that have windows


@pytest.mark.parametrize(
    ("due", "times"),
    [
        (60.0, [100, 130, 130, 130, 130]),  # bursts end at 100, 230, ...
        (50.0, [100, 120, 130, 130, 130]),  # 10 late at first; idle time makes up for it
    ],
)
def test_bursts_wait_for_windows_and_iterations_do_not(due: float, times: list[float]) -> None:
    engine = running(PATTERN, windows=[WindowSchedule(130.0, 4.0, 0, (due,))], iterations=5)
    assert finish(engine)[0] == times
    assert engine.rephasings(0) == 0
