from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.report.classes import classes_frame, jobs_frame
from metronome_opt.slowdown.times import Times
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.strategies import instances, offsets_of
from tests.tiers import examples

F = Fraction

# Together, a and b are 20 short in 2 of 4 slots, which a goes without. c shares nothing.
PROBLEM = network(
    job("a", 4, (0, 2, 60), max_stretch=4),
    job("b", 4, (0, 2, 60), weight=4),
    job("c", 10, (0, 2, 60), links={}),
)
TOGETHER = evaluate(PROBLEM, {"a": 0, "b": 0, "c": 0})
APART = evaluate(PROBLEM, {"a": 2, "b": 0, "c": 0})


PERIODS = {"a": F(20), "b": F(20), "c": F(50)}  # ms, slots of 5
TIMES = Times({**PERIODS, "a": F(70, 3)}, PERIODS)
"""Beside b an iteration of a takes a sixth longer."""


@pytest.mark.parametrize(("time", "slower"), [("20.2", 0), ("20.21", 1)])
def test_change_of_one_percent_does_not_count(time: str, slower: int) -> None:
    times = Times(PERIODS, {**PERIODS, "b": F(time)})
    heavy = classes_frame(PROBLEM, TOGETHER, APART, times).loc[4]
    assert (heavy["faster"], heavy["slower"]) == (0, slower)


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


def test_classes_frame_is_sorted_by_weight() -> None:
    frame = classes_frame(PROBLEM, TOGETHER, APART, TIMES)
    assert list(frame.index) == [4, 1, "all"]
    assert dict(frame.loc[1]) == pytest.approx(
        {
            "jobs": 2,
            "faster": 1,
            "slower": 0,
            "iteration_before": 13 / 12,
            "iteration_after": 1,
            "unserved_before": 10,
            "unserved_after": 0,
        }
    )
    assert frame.loc["all", "iteration_before"] == pytest.approx(19 / 18)


def test_unknown_values_are_missing() -> None:
    classes = classes_frame(PROBLEM, None, TOGETHER)
    unknown = ["faster", "slower", "iteration_before", "iteration_after", "unserved_before"]
    assert classes[unknown].isna().all(axis=None)
    assert classes.drop(columns=unknown).notna().all(axis=None)
    known = classes_frame(PROBLEM, APART, TOGETHER)
    pd.testing.assert_series_equal(classes["unserved_after"], known["unserved_after"])


@given(st.data())
@examples(50, deadline=None)
def test_unserved_bandwidth_adds_up_to_contention(data: st.DataObject) -> None:
    problem = data.draw(instances(weights=(0, 1, 2), max_jobs=4))
    before, after = (evaluate(problem, data.draw(offsets_of(problem))) for _ in range(2))
    frame = classes_frame(problem, before, after)
    classes, everything = frame.drop(index="all"), frame.loc["all"]
    assert everything["jobs"] == classes["jobs"].sum() == len(problem.jobs)
    assert everything["unserved_after"] == pytest.approx(float(sum(x.late for x in after.links)))
    weighted = sum(weight * classes.loc[weight, "unserved_after"] for weight in classes.index)
    assert weighted == pytest.approx(float(after.contention))
