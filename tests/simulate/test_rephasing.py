"""Plans that change, clocks that drift, bursts that keep slots: who waits, who is moved, when."""

from __future__ import annotations

import math

import pytest

from metronome_opt.simulate import Conditions
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Lateness, Pattern, Runner, Slot
from tests.builders import job

PATTERN = Pattern.of_job(job("a", 10, (6, 4, 100)), 10)  # 60 ms of computing, 40 of bursting
ALL = pytest.mark.parametrize("lateness", list(Lateness))


def lonely(iterations: int, conditions: Conditions | None = None, seed: int = 0) -> Engine:
    """Return an engine with one job, not there yet, that has a link to itself."""
    runner = Runner("a", PATTERN, 1, iterations, 1)
    return Engine({"link": 100}, [runner], conditions=conditions, seed=seed)


def finish(engine: Engine) -> list[float]:
    while engine.run(math.inf) is None:
        pass
    return [float(time) for time in engine.times(0)]


# ------------------------------------------------------------------ a plan is changed


@ALL
@pytest.mark.parametrize("start", [110.0, 120.0, 150.0])
def test_waiting_job_takes_a_new_slot(lateness: Lateness, start: float) -> None:
    """From 100 to 130 it waits; at 110 it is told to begin at another time than 130."""
    engine = lonely(4)
    engine.enter(0, {"link": 1}, at=0.0, slot=Slot(130.0, 0.0, lateness))
    assert engine.run(110.0) is None
    engine.assign(0, Slot(130.0, 0.0, lateness), start)
    assert finish(engine) == [start, 130, 130, 100]
    assert engine.waited(0) == pytest.approx(start - 100 + 60)
    assert engine.rephasings(0) == 0


# ------------------------------------------------------------------ clocks drift


def drifted(seed: int, cushion: float) -> tuple[float, int, list[float]]:
    """Return the clock's deviation, the re-phasings and the iterations of 200 in slots of 120."""
    conditions = Conditions(drift_ppm=1000)
    free = lonely(3, conditions, seed)
    free.enter(0, {"link": 1}, at=0.0, slot=Slot(120.0, math.inf))
    ppm = 1e6 * (120 / finish(free)[0] - 1)
    engine = lonely(200, conditions, seed)
    engine.enter(0, {"link": 1}, at=0.0, slot=Slot(120.0, cushion, Lateness.YIELD))
    times = finish(engine)
    return ppm, engine.rephasings(0), times


@pytest.mark.parametrize("seed", range(8))
def test_a_fast_clock_is_set_whenever_it_has_run_ahead_of_the_cushion(seed: int) -> None:
    """Fast by p it begins 120 p too early, once more each time, until it is off by 1 ms."""
    ppm, count, times = drifted(seed, 1.0)
    begins = [sum(times[:index]) for index in range(len(times))]
    off = [begin - 120 * index for index, begin in enumerate(begins)]
    if ppm <= 0:
        return
    assert min(off) >= -1 - 1e-6
    assert max(off) <= 1e-6
    each = math.floor(1 / (120e-6 * ppm / (1 + 1e-6 * ppm))) + 1  # iterations until it is set
    assert count == 199 // each


@pytest.mark.parametrize("seed", range(8))
def test_a_slow_clock_that_yields_is_never_off_by_more_than_the_cushion(seed: int) -> None:
    """Late by more than its cushion, it waits for the next slot and is on time."""
    ppm, count, times = drifted(seed, 1.0)
    begins = [sum(times[:index]) for index in range(len(times))]
    if ppm >= 0:
        return
    off = [(begin + 60) % 120 - 60 for begin in begins]
    assert max(map(abs, off)) <= 1 + 1e-6
    assert count == sum(time > 180 for time in times)


# ------------------------------------------------------------------ counted once each


def test_each_member_of_a_group_that_is_held_is_counted_once() -> None:
    """a and b meet from 60 on, once, when b bursts for 20: a is 20 late, the others wait once."""
    patterns = [
        PATTERN,
        Pattern.of_job(job("b", 8, (6, 2, 100)), 10),
        PATTERN,
        PATTERN,
    ]
    links: list[dict[str, int]] = [{"link": 1}, {"link": 1}, {"x": 1}, {"y": 1}]
    engine = Engine(
        {"link": 100, "x": 100, "y": 100},
        [
            Runner(str(index), pattern, 1, 1 if index == 1 else 6, 1)
            for index, pattern in enumerate(patterns)
        ],
    )
    held = Slot(100.0, 1.0, Lateness.HOLD, group=1)
    for index, start in enumerate((0.0, 0.0, 30.0, 70.0)):
        engine.enter(index, links[index], at=start, slot=None if index == 1 else held)
    for _ in patterns:
        assert engine.run(math.inf) is not None
    assert [engine.rephasings(index) for index in (0, 2, 3)] == [0, 1, 1]
    assert list(engine.times(2)) == [120, 100, 100, 100, 100, 100]
    assert list(engine.times(3)) == [120, 100, 100, 100, 100, 100]


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


# ------------------------------------------------------------------ bursts that keep slots


def pair(slots: tuple[Slot, Slot], iterations: int = 5) -> Engine:
    """Return an engine with two jobs that share nothing; both begin at 0."""
    runners = [Runner(name, PATTERN, 1, iterations, 1) for name in "ab"]
    engine = Engine({"one": 100, "two": 100}, runners)
    for index, link in enumerate(("one", "two")):
        engine.enter(index, {link: 1}, at=0.0, slot=slots[index])
    return engine


def paced(due: float, lateness: Lateness, cushion: float = 0.0, period: float = 130.0) -> Slot:
    return Slot(period, cushion, lateness, 1, (due,))


def finish_both(engine: Engine, index: int) -> list[float]:
    while engine.run(math.inf) is not None:
        if all(engine.done(other) == 5 for other in (0, 1)):
            break
    return [float(time) for time in engine.times(index)]


def test_who_is_late_beyond_its_cushion_pushes_its_group_by_the_rest() -> None:
    """a is ready at 60, 10 after its slot; of that 4 are allowed, so b, ready as well, waits 6."""
    engine = pair((paced(50, Lateness.HOLD, 4), paced(60, Lateness.HOLD, 4)))
    assert finish_both(engine, 1) == [106, 130, 130, 130, 130]
    assert engine.rephasings(1) == 1


@pytest.mark.parametrize("lateness", list(Lateness))
def test_bursts_wait_and_iterations_do_not(lateness: Lateness) -> None:
    """Bursts end at 100, 230, ...; the next iteration begins at once, its burst 130 later."""
    engine = pair((paced(60, lateness), paced(60, lateness)))
    assert finish_both(engine, 0) == [100, 130, 130, 130, 130]
    assert engine.waited(0) == 4 * 30
    assert engine.rephasings(0) == 0


@pytest.mark.parametrize(
    ("lateness", "times"),
    [
        (Lateness.SLIDE, [100, 126, 130, 130, 130]),  # 6 of 10 ms for good, 4 made up for
        (Lateness.YIELD, [100, 120, 130, 130, 130]),  # all made up for
        (Lateness.HOLD, [100, 126, 130, 130, 130]),
    ],
)
def test_idle_time_lets_the_late_one_catch_up(lateness: Lateness, times: list[float]) -> None:
    engine = pair((paced(50, lateness, 4), paced(60, lateness, 4)))
    assert finish_both(engine, 0) == times
