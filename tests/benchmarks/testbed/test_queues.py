"""Links with other queues, and bursts that meet there."""

from __future__ import annotations

from math import exp, log
from typing import Any

import pandas as pd
import pytest

from benchmarks.testbed.agreement import as_run, steady
from benchmarks.testbed.cases import QUEUES, read_cases
from benchmarks.testbed.meeting import fitted, for_queue, meetings, refitted, shares
from benchmarks.testbed.pictures import draw_apart
from benchmarks.testbed.run import BedRun, JobRun
from benchmarks.testbed.shaping import mark_lines, shape_lines
from metronome_opt.engine.conditions import TcpShares
from tests.benchmarks.testbed.bed import bed_case, bed_job, bed_run, begins

PAIR = bed_case(bed_job(400, (0, 180)), bed_job(400, (0, 180)), name="pair", seconds=120)


def sent(**bursts: list[tuple[float, float]]) -> BedRun:
    """Return a run in which bursts were ready at once and began and ended then."""
    jobs = {
        name: JobRun(begins_ms=(0.0, 400.0), bursts_ms=tuple((a, a, b) for a, b in each))
        for name, each in bursts.items()
    }
    return bed_run("pair", "free", {}, jobs=jobs)


def test_a_queue_has_room_for_its_time_and_for_sixteen_pieces() -> None:
    """1 ms of 200 Mbit/s is 25,000 bytes, 17 packets; 20 ms of 2 Gbit/s 5 MB."""
    assert "bfifo limit 25000" in "".join(shape_lines("eth0", 200, 1))
    assert "bfifo limit 5000000" in "".join(shape_lines("eth0", 2000, 20))
    for mbps, queue_ms, segments in ((200, 1, 1), (1000, 1, 5), (200, 20, 21), (2000, 20, 44)):
        case = PAIR.model_copy(update={"uplink_mbps": mbps, "queue_ms": queue_ms})
        assert case.layout.segments == segments


def test_marks_begin_at_a_quarter_of_a_queue() -> None:
    """98 % of 25 MB/s, of which one packet in a piece has 1,514 bytes, all counted."""
    assert "rate over 24500000 bytes/second burst 125000 bytes" in mark_lines("up", 200, 20, 1)[2]
    assert "rate over 23" in mark_lines("up", 200, 20, 21)[2]


def test_a_run_knows_its_link() -> None:
    run = bed_run("pair", "free", {}, uplink_mbps=1000, queue_ms=2, congestion="bbr")
    found = as_run(PAIR, run)
    assert (found.uplink_mbps, found.queue_ms, found.congestion) == (1000, 2, "bbr")
    assert found.burst_over_queue == 90
    assert as_run(PAIR, bed_run("pair", "free", {})).queue_ms == 20


def test_a_run_is_steady_if_sleeps_and_processors_seldom_were_not() -> None:
    whole = {job: begins(400, 400) for job in "ab"}
    fields: tuple[dict[str, Any], ...] = (
        {},
        {"late_p95_ms": 2.1},
        {"stopped_ms": 3700.0},
        {"late_max_ms": 90.0, "busy": True},
    )
    runs = [bed_run("pair", "free", whole, seconds=120, **each) for each in fields]
    assert steady(runs) == [runs[0], runs[3]]


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        # a has sent 100 of 180 when b begins, and its last 80 take 200: b has sent 120.
        ((0.0, 300.0), (100.0, 360.0), 0.6),
        # b is served first, in 240: it has 3 in 4.
        ((0.0, 360.0), (100.0, 340.0), 0.75),
    ],
)
def test_shares_follow_from_who_ends_first(
    a: tuple[float, float], b: tuple[float, float], share: float
) -> None:
    away = (1000.0, 1180.0)
    run = sent(a=[a, away, (2500.0, 2680.0)], b=[(-500.0, -320.0), b, (2000.0, 2180.0)])
    (found,) = shares(PAIR, run)
    assert found == pytest.approx(log(share / (1 - share)))


def test_bursts_that_meet_more_than_one_say_nothing() -> None:
    run = sent(a=[(0.0, 300.0), (320.0, 600.0)], b=[(-500.0, -320.0), (100.0, 360.0), (900, 1080)])
    assert shares(PAIR, run) == []


def test_shares_of_a_newcomer_are_found_again() -> None:
    """Two numbers a deviation around a mean of logarithms have twice the variance of a share."""
    spread, newcomer = 0.3, 0.5
    found = fitted([log(newcomer) + sign * 2**0.5 * spread for sign in (-1, 1)])
    assert found == pytest.approx(TcpShares(spread, newcomer))
    cells = [for_queue(over) for over in (9.0, 36.0, 180.0)]
    table = pd.DataFrame([each._asdict() for each in cells])
    table = table.assign(meetings=[100, 50, 10], **{"burst over queue": [9.0, 36.0, 180.0]})
    chance, delay = refitted(table)
    assert for_queue(1.0) == pytest.approx(TcpShares(chance, exp(-delay)))


def test_meetings_of_a_cell_are_counted_and_drawn() -> None:
    cases = read_cases(QUEUES)
    bursts: dict[str, list[tuple[float, float]]] = {"a": [], "b": [(-500.0, -320.0)]}
    for start in range(0, 50_000, 1000):
        bursts["a"].append((start, start + 300.0))
        bursts["b"].append((start + 100.0, start + 360.0))
    run = sent(**bursts).model_copy(update={"case": "together", "queue_ms": 1})
    table = meetings(cases, [run, bed_run("alone", "free", {})])
    (row,) = table.to_dict("records")
    assert (row["case"], row["queue_ms"], row["burst over queue"]) == ("together", 1, 180)
    assert row["newcomer"] == pytest.approx(1.5)
    assert row["spread"] == pytest.approx(0, abs=1e-6)
    left, right = draw_apart(cases, [run], table, {"together": 3, "three": 5}).axes
    assert left.get_yscale() == right.get_xscale() == "log"
    assert left.get_xlabel() == "burst over queueing time"
