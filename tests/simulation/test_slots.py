"""Jobs keep or lose their windows as worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from metronome_opt.engine.jobs import WindowSchedule
from metronome_opt.errors import InputError
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation import Conditions, simulate_schedule
from tests.builders import job
from tests.simulation.runs import column, finish, links, running

# ------------------------------------------------------------------ schedules


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


# ------------------------------------------------------------------ lost slots


def test_late_job_holds_its_group() -> None:
    """The guest, which comes once, makes a end its first iteration at 120 instead of 100.

    Both burst from 60 on at 50: the guest has sent 2000 at 100, when a has 2000 of 4000 left. c is
    on a link of its own and starts at 50: its next iteration begins at 170 instead of 150.
    """
    windows = WindowSchedule(100, 10)
    pattern = Iteration.of_job(job("a", 10, (6, 4, 100)), 10)
    guest = Iteration.of_job(job("guest", 8, (6, 2, 100)), 10)
    engine = running(
        *(pattern, pattern, guest),
        links=["link", "other", "link"],
        starts=[0.0, 50.0, 0.0],
        windows=[windows, windows, None],
        iterations=[5, 5, 1],
    )
    assert finish(engine)[:2] == [[120, 100, 100, 100, 100]] * 2


def test_early_job_waits_only_beyond_its_tolerance() -> None:
    """Of 103 ms it needs 100: 3 and 6 ms early it begins at once, of 9 ms it waits for all."""
    pattern = Iteration.of_job(job("a", 10, (6, 4, 100)), 10)
    windows = WindowSchedule(103, 7)
    assert finish(running(pattern, windows=[windows], iterations=7)) == [
        [100, 100, 109] * 2 + [100]
    ]


def test_iterations_with_jitter_begin_in_their_slots() -> None:
    instance = links(job("a", 10, (6, 4, 100), max_stretch=3))
    jitter = Conditions(jitter=0.05)
    run = simulate_schedule(
        instance, {"a": 0}, {"a": 3}, iterations=300, conditions=jitter, trace=True
    )
    # 60 ms deviate by 9 at the most, and slots leave 30: always on time again.
    starts = run.trace[run.trace["rate_mbps"] > 0]["time_ms"].tolist()
    assert [start // 130 for start in starts] == list(range(300))
    assert all(51 - 1e-6 <= start % 130 <= 69 + 1e-6 for start in starts)
    assert column(run, "iteration_max_ms")["a"] == pytest.approx(130)
    assert column(run, "rephasings") == {"a": 0}
