"""Jobs keep, lose and change their windows as worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import pytest

from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob, WindowSchedule
from metronome_opt.errors import InputError
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation import Conditions, simulate_schedule
from tests.builders import iteration_of, job
from tests.simulation.runs import column, finish, links, running

# 60 ms of computing, 40 ms of bursting.
PATTERN = Iteration.of_job(job("a", 10, (6, 4, 100)), 10)
# 60 ms of computing, 20 ms of bursting.
SHORT = iteration_of((Fraction(60), Fraction(0)), (Fraction(2000),), (Fraction(100),))


def test_schedule_may_allow_more_stretch_than_job() -> None:
    instance = links(job("a", 10, (6, 4, 100)))
    run = simulate_schedule(
        instance, {"a": 2}, {"a": 3}, stretch_limit=Fraction(3, 10), iterations=4
    )
    assert column(run, "iteration_max_ms") == {"a": 130}


@pytest.mark.parametrize(
    ("offsets", "iterations", "named"),
    [({"a": 10}, 1, "a"), ({}, 1, "a"), ({"a": 0, "b": 0}, 1, "b"), ({"a": 0}, 0, "iterations")],
)
def test_schedule_of_another_instance_is_refused(
    offsets: Mapping[str, int], iterations: int, named: str
) -> None:
    with pytest.raises(InputError, match=named) as caught:
        simulate_schedule(links(job("a", 10, (6, 4, 100))), offsets, iterations=iterations)
    assert "\n" not in str(caught.value)


def test_early_job_waits_only_beyond_its_tolerance() -> None:
    """Of 103 ms it needs 100: 3 and 6 ms early it begins at once, of 9 ms it waits for all."""
    engine = running(PATTERN, windows=[WindowSchedule(103, 7)], iterations=7)
    assert finish(engine) == [[100, 100, 109] * 2 + [100]]


def test_iterations_with_jitter_begin_in_their_windows() -> None:
    instance = links(job("a", 10, (6, 4, 100), max_stretch=3))
    jitter = Conditions(jitter=0.05)
    run = simulate_schedule(
        instance, {"a": 0}, {"a": 3}, iterations=300, conditions=jitter, trace=True
    )
    # 60 ms deviate by 9 at the most, and windows leave 30: always on time again.
    starts = run.trace[run.trace["rate_mbps"] > 0]["time_ms"].tolist()
    assert [start // 130 for start in starts] == list(range(300))
    assert all(51 - 1e-6 <= start % 130 <= 69 + 1e-6 for start in starts)
    assert column(run, "iteration_max_ms")["a"] == pytest.approx(130)
    assert column(run, "rephasings") == {"a": 0}


@pytest.mark.parametrize("start", [110.0, 120.0, 150.0])
def test_waiting_job_takes_new_window(start: float) -> None:
    """It waits from 100 to 130; at 110 it gets another start than 130."""
    windows = WindowSchedule(130.0)
    engine = running(PATTERN, windows=[windows], iterations=4)
    assert engine.run(110.0) is None
    engine.set_windows(0, windows, start)
    assert finish(engine) == [[start, 130, 130, 100]]
    assert engine.rephasings(0) == 0


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
    ("moment", "end"), [(0, 100), (20, 100), (55, 100), (99, 100), (100, 200), (250, 300)]
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


def due_at(due: float) -> WindowSchedule:
    return WindowSchedule(100.0, bursts_ms=(due,))


def waiting_engine() -> Engine:
    """Return an engine at 65 ms, where a burst has been ready for 5 ms, and its window is at 80."""
    engine = Engine({"link": 100}, [EngineJob("job", SHORT)])
    engine.start_job(0, {"link": 1}, at=0.0, windows=due_at(80.0))
    engine.run(65.0)
    return engine


def ends(engine: Engine) -> list[float]:
    """Return when the first iterations end."""
    engine.run(1000.0)
    times = engine.times(0)[:3]
    return [float(times[:count].sum()) for count in (1, 2, 3)]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (100.0, 100.0),  # as before: from 80 on
        (90.0, 90.0),  # from 70 on
        (115.0, 115.0),
        (80.0, 180.0),  # at 60 it would have been: the next one begins at 160
    ],
)
def test_a_burst_that_waits_follows_new_windows(start: float, first: float) -> None:
    """The window of this iteration is a period before the next one, which begins at `start`."""
    engine = waiting_engine()
    engine.set_windows(0, due_at(80.0), start)
    assert ends(engine) == [first, first + 100, first + 200]


def test_a_burst_that_waits_begins_at_once_without_windows() -> None:
    engine = waiting_engine()
    engine.set_windows(0, None)
    assert ends(engine) == [85.0, 165.0, 245.0]


def test_what_waits_could_begin_now() -> None:
    engine = waiting_engine()
    assert engine.earliest_start(0) == 85.0


def test_a_job_takes_the_first_new_window_that_it_is_not_late_for() -> None:
    """Told at 10, its burst is ready at 60, and late for the window at 55."""
    engine = Engine({"link": 100}, [EngineJob("job", SHORT)])
    engine.start_job(0, {"link": 1}, at=0.0)
    engine.run(10.0)
    engine.set_windows(0, due_at(55.0), 100.0)
    assert ends(engine) == [175.0, 275.0, 375.0]
