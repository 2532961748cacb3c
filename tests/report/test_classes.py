"""Who pays and who gains, against numbers worked by hand."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.report.classes import (
    PriorityClass,
    classes_frame,
    jobs_frame,
    priority_classes,
)
from metronome_opt.report.tables import classes_table
from metronome_opt.verify import Evaluation, evaluate
from tests.builders import job, network
from tests.report.printed import lines
from tests.strategies import instances, offsets_of
from tests.tiers import examples

F = Fraction

# Together, a and b are 20 short in 2 of 4 slots, which a goes without: 40 / 60 slots of each of its
# iterations. c shares nothing with anybody.
PROBLEM = network(
    job("a", 4, (0, 2, 60), max_stretch=4),
    job("b", 4, (0, 2, 60), weight=4),
    job("c", 10, (0, 2, 60), links={}),
)
TOGETHER = evaluate(PROBLEM, {"a": 0, "b": 0, "c": 0})
APART = evaluate(PROBLEM, {"a": 2, "b": 0, "c": 0})


def test_classes_stand_heaviest_first_with_all_at_the_end() -> None:
    assert priority_classes(PROBLEM, TOGETHER, APART) == (
        PriorityClass(4, 1, 0, 0, F(1), F(1), F(0), F(0)),
        PriorityClass(1, 2, 1, 0, (F(7, 6) + 1) / 2, F(1), F(10), F(0)),
        PriorityClass(None, 3, 1, 0, (F(7, 6) + 2) / 3, F(1), F(10), F(0)),
    )


def test_stretching_a_job_makes_its_class_pay() -> None:
    # Of 8 slots a bursts in 6 and 7, b in 0, 1, 4 and 5.
    stretch = {"a": 4}
    stretched = evaluate(PROBLEM, {"a": 6, "b": 0, "c": 0}, stretch)
    _, light, every = priority_classes(PROBLEM, TOGETHER, stretched)
    assert (light.faster, light.slower) == (every.faster, every.slower) == (0, 1)
    assert light.iteration_after == (2 + F(1)) / 2
    row = jobs_frame(PROBLEM, TOGETHER, stretched, stretch).loc["a"]
    assert (row["stretch_ms"], row["after_ms"]) == (20, 40)
    assert row["change_percent"] == pytest.approx(100 * (F(8) / (4 + F(2, 3)) - 1))


def test_jobs_frame_is_in_milliseconds() -> None:
    frame = jobs_frame(PROBLEM, TOGETHER, APART)  # slots of 5 ms
    assert list(frame.index) == ["a", "b", "c"]
    assert dict(frame.loc["a"]) == pytest.approx(
        {
            "weight": 1,
            "period_ms": 20,
            "stretch_ms": 0,
            "before_ms": 5 * (4 + 2 / 3),
            "after_ms": 20,
            "change_ms": -10 / 3,
            "change_percent": -100 / 7,
        }
    )
    assert list(frame["change_ms"][1:]) == [0, 0]
    assert list(frame["period_ms"]) == [20, 20, 50]


def test_classes_frame_has_the_classes_by_weight() -> None:
    frame = classes_frame(PROBLEM, TOGETHER, APART)
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


def test_what_is_not_known_before_is_missing() -> None:
    jobs = jobs_frame(PROBLEM, None, TOGETHER)
    unknown = ["before_ms", "change_ms", "change_percent"]
    assert jobs[unknown].isna().all(axis=None)
    assert jobs.drop(columns=unknown).notna().all(axis=None)
    classes = classes_frame(PROBLEM, None, TOGETHER)
    unknown = ["faster", "slower", "iteration_before", "unserved_before"]
    assert classes[unknown].isna().all(axis=None)
    assert classes.drop(columns=unknown).notna().all(axis=None)
    known = classes_frame(PROBLEM, APART, TOGETHER)
    pd.testing.assert_series_equal(classes["unserved_after"], known["unserved_after"])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (
            TOGETHER,
            [
                ["4", "1", "0", "0", "100.0%", "100.0%", "0.0", "0.0"],
                ["1", "2", "1", "0", "108.3%", "100.0%", "10.0", "0.0"],
                ["all", "3", "1", "0", "105.6%", "100.0%", "10.0", "0.0"],
            ],
        ),
        (
            None,
            [
                ["4", "1", "-", "-", "-", "100.0%", "-", "0.0"],
                ["1", "2", "-", "-", "-", "100.0%", "-", "0.0"],
                ["all", "3", "-", "-", "-", "100.0%", "-", "0.0"],
            ],
        ),
    ],
)
def test_the_table_shows_a_class_a_row(
    before: Evaluation | None, expected: list[list[str]]
) -> None:
    assert lines(classes_table(PROBLEM, before, APART))[3:] == expected


@given(st.data())
@examples(50, deadline=None)
def test_classes_add_up_to_all_and_gains_are_losses_the_other_way(data: st.DataObject) -> None:
    problem = data.draw(instances(weights=(0, 1, 2), max_jobs=4))
    before, after = (evaluate(problem, data.draw(offsets_of(problem))) for _ in range(2))
    *classes, every = priority_classes(problem, before, after)
    assert every.jobs == sum(each.jobs for each in classes) == len(problem.jobs)
    assert every.iteration_after * every.jobs == sum(c.iteration_after * c.jobs for c in classes)
    assert sum(each.unserved_after for each in classes) == every.unserved_after
    assert every.unserved_after == sum(link.late for link in after.links)
    weighted = sum((each.weight or 0) * each.unserved_after for each in classes)
    assert weighted == after.contention
    for one, other in zip(
        priority_classes(problem, before, after),
        priority_classes(problem, after, before),
        strict=True,
    ):
        assert (one.faster, one.slower) == (other.slower, other.faster)
        assert one.iteration_before == other.iteration_after
