"""New slots, drifting clocks and bursts with slots, worked out by hand."""

from __future__ import annotations

import math

import pytest

from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import LatePolicy, WindowSchedule
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation import Conditions
from tests.builders import job
from tests.simulation.runs import finish, running

PATTERN = Iteration.of_job(job("a", 10, (6, 4, 100)), 10)  # 60 ms of computing, 40 of bursting
ALL = pytest.mark.parametrize("lateness", list(LatePolicy))


# ------------------------------------------------------------------ a plan is changed


@ALL
@pytest.mark.parametrize("start", [110.0, 120.0, 150.0])
def test_waiting_job_takes_new_slot(lateness: LatePolicy, start: float) -> None:
    """It waits from 100 to 130; at 110 it is assigned another start than 130."""
    slot = WindowSchedule(130.0, 0.0, lateness)
    engine = running(PATTERN, slots=[slot], iterations=4)
    assert engine.run(110.0) is None
    engine.assign(0, slot, start)
    assert finish(engine) == [[start, 130, 130, 100]]
    assert engine.rephasings(0) == 0


# ------------------------------------------------------------------ clocks drift


@pytest.mark.parametrize("seed", range(8))
def test_clock_is_set_when_off_by_more_than_the_cushion(seed: int) -> None:
    """A clock fast by p begins 120 p too early, once more each time, until it is off by 1 ms.

    A job that is late by more than its cushion waits for the next slot and is on time.
    """
    conditions = Conditions(drift_ppm=1000)

    def drifting(cushion: float, iterations: int) -> tuple[Engine, list[float]]:
        slots = [WindowSchedule(120.0, cushion, LatePolicy.YIELD)]
        engine = running(
            PATTERN, slots=slots, iterations=iterations, conditions=conditions, seed=seed
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
    else:
        off = [(begin + 60) % 120 - 60 for begin in begins]
        assert engine.rephasings(0) == sum(time > 180 for time in times)
    assert max(map(abs, off)) <= 1 + 1e-6


# ------------------------------------------------------------------ counted once each


def test_rephasing_of_a_held_group_counts_once_per_job() -> None:
    """a and b meet from 60 on, once, when b bursts for 20: a is 20 late, the others wait once."""
    held = WindowSchedule(100.0, 1.0, LatePolicy.HOLD, group=1)
    engine = running(
        *(PATTERN, PATTERN, PATTERN, Iteration.of_job(job("b", 8, (6, 2, 100)), 10)),
        links=["link", "x", "y", "link"],
        starts=[0.0, 30.0, 70.0, 0.0],
        slots=[held, held, held, None],
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


# ------------------------------------------------------------------ bursts that keep slots


def pair(lateness: LatePolicy, due: float, cushion: float) -> Engine:
    """Return two jobs on links of their own, the first with a slot at `due`, the second at 60."""
    slots = [WindowSchedule(130.0, cushion, lateness, 1, (at,)) for at in (due, 60.0)]
    return running(PATTERN, PATTERN, links=["one", "two"], slots=slots, iterations=5)


@ALL
def test_bursts_wait_for_slots_and_iterations_do_not(lateness: LatePolicy) -> None:
    """Bursts end at 100, 230, ...; the next iteration begins at once, its burst 130 later."""
    engine = pair(lateness, 60.0, 0.0)
    assert finish(engine)[0] == [100, 130, 130, 130, 130]
    assert engine.rephasings(0) == 0


@pytest.mark.parametrize(
    ("lateness", "times"),
    [
        (LatePolicy.YIELD, [100, 120, 130, 130, 130]),  # all made up for
        (LatePolicy.HOLD, [100, 126, 130, 130, 130]),  # 6 of 10 ms for good, 4 made up for
    ],
)
def test_late_job_catches_up_in_idle_time(lateness: LatePolicy, times: list[float]) -> None:
    assert finish(pair(lateness, 50.0, 4.0))[0] == times


def test_late_job_pushes_its_group_by_what_exceeds_its_cushion() -> None:
    """The first is ready at 60, 10 after its slot; of that 4 are allowed: the other waits 6."""
    engine = pair(LatePolicy.HOLD, 50.0, 4.0)
    assert finish(engine)[1] == [106, 130, 130, 130, 130]
    assert engine.rephasings(1) == 1
