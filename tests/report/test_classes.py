from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.report.classes import jobs_frame
from metronome_opt.slowdown.times import Times
from tests.builders import job, network

F = Fraction

PROBLEM = network(
    job("a", 4, (0, 2, 60), max_stretch=4),
    job("b", 4, (0, 2, 60), weight=4),
    job("c", 10, (0, 2, 60), links={}),
)
PERIODS = {"a": F(20), "b": F(20), "c": F(50)}  # ms, slots of 5
TIMES = Times({**PERIODS, "a": F(70, 3)}, PERIODS)
"""Beside b an iteration of a takes a sixth longer."""


def test_jobs_frame_is_in_milliseconds() -> None:
    frame = jobs_frame(PROBLEM, TIMES, {"b": 2})
    assert list(frame.index) == ["a", "b", "c"]
    assert dict(frame.loc["a"]) == pytest.approx(
        {
            "weight": 1,
            "period_ms": 20,
            "stretch_ms": 0,
            "before_ms": 70 / 3,
            "after_ms": 20,
            "change_ms": -10 / 3,
            "change_percent": -100 / 7,
        }
    )
    assert list(frame["change_ms"][1:]) == [0, 0]
    assert list(frame["period_ms"]) == [20, 20, 50]
    assert list(frame["stretch_ms"]) == [0, 10, 0]
