"""A migrated job repeats its iteration, and loses nothing else."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob, WindowSchedule
from metronome_opt.scenario import Scenario
from metronome_opt.simulation import Conditions, simulate
from tests.builders import iteration_of
from tests.simulation.runs import job_table
from tests.simulation.scenes import scene, switch, work

BURST = iteration_of((Fraction(40), Fraction(0)), (Fraction(2000),), (Fraction(100),))
"""40 ms of computing and a burst of 20 ms at 100 Mbit/s."""


def engine_of(*counts: int) -> Engine:
    """Return jobs on link one, which may be moved to link two."""
    runners = [EngineJob(name, BURST, 1, count) for name, count in zip("ab", counts, strict=False)]
    engine = Engine({"one": 100, "two": 100}, runners, watched=["one", "two"])
    for job in range(len(counts)):
        engine.start_job(job, {"one": 1})
    return engine


def test_interrupted_iteration_is_begun_anew() -> None:
    engine = engine_of(3)
    engine.run(110)  # of the second burst 10 ms are sent
    engine.move(0, {"two": 1}, at=160)
    assert engine.earliest_start(0) == 160
    assert engine.carried().tolist() == [3000, 0]
    assert engine.run(math.inf) == 0
    assert engine.now == 160 + 2 * 60
    assert engine.times(0).tolist() == [60, 60, 60]
    assert engine.carried().tolist() == [3000, 4000]
    trace = engine.trace()
    one, two = (trace[trace.link == link] for link in ("one", "two"))
    assert one.time_ms.tolist() == [40, 60, 100, 110]
    assert two.time_ms.tolist() == [200, 220, 260, 280]
    assert trace.rate_mbps.tolist() == [100, 0] * 4


def test_links_that_a_moved_job_left_carry_nothing_more() -> None:
    runner = EngineJob("a", BURST, 1, 2, max_links=2)
    engine = Engine({"one": 100, "two": 100}, [runner])
    engine.start_job(0, {"one": 1, "two": 1})
    engine.run(50)  # of the first burst 10 ms are sent
    engine.move(0, {"one": 1}, at=50)
    assert engine.run(math.inf) == 0
    assert engine.carried().tolist() == [1000 + 2 * 2000, 1000]


def test_others_send_faster_once_a_job_is_interrupted() -> None:
    engine = engine_of(2, 1)
    engine.run(50)  # of each burst 5 ms are sent
    engine.move(0, {"two": 1}, at=50)
    assert engine.run(math.inf) == 1
    assert engine.now == 50 + 15
    assert engine.run(math.inf) == 0
    assert engine.now == 50 + 2 * 60
    assert engine.carried().tolist() == [500 + 2000, 2 * 2000]


def test_job_that_waits_between_two_iterations_repeats_none() -> None:
    engine = engine_of(2)
    engine.set_windows(0, WindowSchedule(100.0))
    engine.run(80)
    engine.move(0, {"two": 1}, at=90)
    assert engine.run(math.inf) == 0
    assert engine.now == 90 + 60
    assert engine.times(0).tolist() == [80, 60]


def crossing(*others: dict[str, Any]) -> Scenario:
    """Return a and b on nodes 0 and 1, while another job holds nodes 2 and 3 for 52.5 s.

    Alone an iteration of a and b is a burst of 40 ms after 20 ms, together it takes 80 ms or, with
    slots and idle time, up to 90.
    """
    blocks: dict[str, Any] = {"model": "Short", "batch": 1, "iterations": 2100, "each": {"gpus": 2}}
    return scene(
        switch(4, 2),
        work("block", 2, 3, **blocks),
        work("a", 0, 1, model="Long", batch=2, iterations=2000, arrival_s=0.01),
        work("b", model="Long", batch=2, iterations=1000, arrival_s=0.02),
        *others,
    )


def test_job_moves_when_another_leaves_room() -> None:
    given = crossing()
    rows = job_table(simulate(given, "metronome", conditions=Conditions(move_cost_s=5)))
    assert [rows[job]["moves"] for job in ("block", "a", "b")] == [0, 0, 1]  # a's nodes are given
    leaves_s = rows["block"]["end_s"]
    assert leaves_s == pytest.approx(52.5, rel=0.02)
    for job, iterations, costs_s in (("a", 2000, 0), ("b", 1000, 5)):
        left_s = [0.06 * (iterations - leaves_s / together_s) for together_s in (0.08, 0.09)]
        again_s = rows[job]["end_s"] - leaves_s - costs_s
        assert left_s[0] <= again_s <= left_s[1] + 0.09
        assert rows[job]["iterations"] == iterations


@pytest.mark.parametrize(
    ("policy", "cost_s"), [("metronome", None), ("metronome", 30), ("nearest", 0), ("ideal", 0)]
)
def test_job_stays_where_a_move_does_not_pay(policy: str, cost_s: float | None) -> None:
    run = simulate(crossing(), policy, conditions=Conditions(move_cost_s=cost_s))
    assert run.jobs["moves"].tolist() == [0, 0, 0]


def test_no_job_moves_while_another_waits_for_room() -> None:
    waits = work("waits", workers=8, iterations=1, arrival_s=1)
    run = simulate(crossing(waits), "metronome", conditions=Conditions(move_cost_s=5))
    assert run.jobs["moves"].tolist() == [0, 0, 0, 0]


def test_moves_leave_nothing_to_chance() -> None:
    disturbed = Conditions(move_cost_s=5, jitter=0.1)
    runs = [simulate(crossing(), "metronome", seed=3, conditions=disturbed) for _ in range(2)]
    assert runs[0].jobs.equals(runs[1].jobs)
    assert runs[0].jobs["moves"].sum() == 1
