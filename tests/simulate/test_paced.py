"""Bursts that keep slots: who waits, who is pushed, and what is seen of it."""

from __future__ import annotations

import math

import pytest

from metronome_opt.simulate import Conditions
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Manner, Pattern, Runner, Slot
from tests.builders import job

PATTERN = Pattern.of_job(job("a", 10, (6, 4, 100)), 10)  # 60 ms of computing, 40 of bursting


def pair(slots: tuple[Slot, Slot], iterations: int = 5) -> Engine:
    """Return an engine with two jobs that share nothing; both begin at 0."""
    runners = [Runner(name, PATTERN, 1, iterations, 1) for name in "ab"]
    engine = Engine({"one": 100, "two": 100}, runners, observed=True)
    for index, link in enumerate(("one", "two")):
        engine.enter(index, {link: 1}, at=0.0, slot=slots[index])
    return engine


def paced(due: float, manner: Manner, cushion: float = 0.0, period: float = 130.0) -> Slot:
    return Slot(period, cushion, manner, 1, (due,))


def finish(engine: Engine, index: int) -> list[float]:
    while engine.run(math.inf) is not None:
        if all(engine.done(other) == 5 for other in (0, 1)):
            break
    return [float(time) for time in engine.times(index)]


def test_who_is_late_beyond_its_cushion_pushes_its_group_by_the_rest() -> None:
    """a is ready at 60, 10 after its slot; of that 4 are allowed, so b, ready as well, waits 6."""
    engine = pair((paced(50, Manner.HOLD, 4), paced(60, Manner.HOLD, 4)))
    assert finish(engine, 1) == [106, 130, 130, 130, 130]
    assert engine.rephasings(1) == 1


@pytest.mark.parametrize("manner", [Manner.SLIDE, Manner.YIELD])
def test_others_are_left_alone_if_the_late_one_slides_or_yields(manner: Manner) -> None:
    engine = pair((paced(50, manner, 4), paced(60, manner, 4)))
    assert finish(engine, 1) == [100, 130, 130, 130, 130]
    assert engine.rephasings(1) == 0


# ------------------------------------------------------------------ what is seen


def test_a_look_tells_what_happened_since_the_last_one() -> None:
    engine = pair((paced(60, Manner.HOLD), paced(60, Manner.HOLD)))
    engine.run(95.0)
    seen = engine.look(0)
    assert (seen["computed"].tolist(), seen["computing"].tolist()) == ([1, 0], [60, 0])
    assert seen["began"][0] == 60
    assert seen["shortest"][0] == math.inf  # its burst goes on
    engine.run(300.0)
    seen = engine.look(0)
    assert (seen["computed"][0], seen["computing"][0], seen["squares"][0]) == (2, 120, 7200)
    assert (seen["began"][0], seen["shortest"][0], seen["volume"][0]) == (190, 40, 4000)
    assert engine.look(0)["computed"][0] == 0


@pytest.mark.parametrize("manner", list(Manner))
def test_bursts_wait_and_iterations_do_not(manner: Manner) -> None:
    """Bursts end at 100, 230, ...; the next iteration begins at once, its burst 130 later."""
    engine = pair((paced(60, manner), paced(60, manner)))
    assert finish(engine, 0) == [100, 130, 130, 130, 130]
    assert engine.waited(0) == 4 * 30
    assert engine.rephasings(0) == 0


@pytest.mark.parametrize(
    ("manner", "times"),
    [
        (Manner.SLIDE, [100, 126, 130, 130, 130]),  # 6 of 10 ms for good, 4 made up for
        (Manner.YIELD, [100, 120, 130, 130, 130]),  # all made up for
        (Manner.HOLD, [100, 126, 130, 130, 130]),
    ],
)
def test_idle_time_lets_the_late_one_catch_up(manner: Manner, times: list[float]) -> None:
    engine = pair((paced(50, manner, 4), paced(60, manner, 4)))
    assert finish(engine, 0) == times


def test_a_clock_that_is_off_is_set_when_it_is_off_by_more_than_the_cushion() -> None:
    """Without that a clock off by up to 1 % would be off by up to 260 ms at the end."""
    runner = Runner("a", PATTERN, 1, 200, 1)
    engine = Engine({"link": 100}, [runner], conditions=Conditions(drift_ppm=10_000), seed=5)
    engine.enter(0, {"link": 1}, at=0.0, slot=Slot(130.0, 3.0, Manner.HOLD, 0, (60.0,)))
    engine.run(math.inf)
    assert engine.now == pytest.approx(199 * 130 + 100, abs=3 + 1.3)
