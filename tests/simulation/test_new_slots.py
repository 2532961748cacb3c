"""New slots for a job whose burst waits for one, worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob, WindowSchedule
from tests.builders import iteration_of

# It computes for 60 ms, then sends for 20 ms: an iteration of 80 ms, in slots 100 ms apart.
PATTERN = iteration_of((Fraction(60), Fraction(0)), (Fraction(2000),), (Fraction(100),))


def slot(due: float, period: float = 100.0) -> WindowSchedule:
    return WindowSchedule(period, bursts_ms=(due,))


def waiting_engine() -> Engine:
    """Return an engine at 65 ms, where a burst has been ready for 5 ms, and its slot is at 80."""
    engine = Engine({"link": 100}, [EngineJob("job", PATTERN)])
    engine.start_job(0, {"link": 1}, at=0.0, windows=slot(80.0))
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
def test_a_burst_that_waits_follows_new_slots(start: float, first: float) -> None:
    """The slot of this iteration is a period before that of the next one, which `start` begins."""
    engine = waiting_engine()
    engine.set_windows(0, slot(80.0), start)
    assert ends(engine) == [first, first + 100, first + 200]


def test_a_burst_that_waits_begins_at_once_without_slots() -> None:
    engine = waiting_engine()
    engine.set_windows(0, None)
    assert ends(engine) == [85.0, 165.0, 245.0]


def test_what_waits_could_begin_now() -> None:
    engine = waiting_engine()
    assert engine.earliest_start(0) == 85.0


def test_a_job_takes_the_first_new_slot_that_it_is_not_late_for() -> None:
    """Told at 10, its burst is ready at 60, and late for the slot at 55."""
    engine = Engine({"link": 100}, [EngineJob("job", PATTERN)])
    engine.start_job(0, {"link": 1}, at=0.0)
    engine.run(10.0)
    engine.set_windows(0, slot(55.0), 100.0)
    assert ends(engine) == [175.0, 275.0, 375.0]
