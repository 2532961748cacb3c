"""A schedule is exact and equal to its document, or refused in one line."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.problem.schedule import (
    OBJECTIVES,
    Schedule,
    Status,
    read_schedule,
    write_schedule,
)


def document(**changes: Any) -> dict[str, Any]:
    """Return a schedule document with `changes`."""
    return {
        "format": "metronome-schedule/1",
        "instance": "two-jobs",
        "offsets": {"vgg19-0": 3, "bert-0": 0},
        "stretch": {"vgg19-0": 0, "bert-0": 2},
        "status": "feasible",
        "objectives": {"contention": "199/5", "latency": "1/3", "cushion": None},
        "lower_bound": "39",
        "solver": "auto",
        "seed": 0,
        "runtime_s": 0.41,
        "versions": {"ortools": "9.15"},
        **changes,
    }


names = st.text("abc-/é", min_size=1, max_size=5)
numbers = st.fractions()
schedules = st.builds(
    Schedule,
    instance=names,
    offsets=st.dictionaries(names, st.integers(0, 10**20), max_size=3),
    stretch=st.dictionaries(names, st.integers(0, 9), max_size=3),
    status=st.sampled_from(Status),
    objectives=st.dictionaries(st.sampled_from(OBJECTIVES), st.none() | numbers),
    lower_bound=st.none() | numbers,
    solver=st.text("abc-"),
    seed=st.none() | st.integers(),
    runtime_s=st.floats(0, 1e9),
    versions=st.dictionaries(names, st.text("0123456789."), max_size=2),
    cushion_slots=st.integers(0, 3),
    gated=st.none() | st.dictionaries(names, st.booleans(), max_size=3),
    stretch_limit=st.none() | st.fractions(min_value=0),
    expected_ms=st.none()
    | st.dictionaries(names, st.fractions(min_value=Fraction(1, 9)), max_size=3),
    bound_prices=st.none() | st.dictionaries(names, st.fractions(min_value=0), max_size=3),
)


@given(schedules)
@settings(deadline=None)
def test_document_restores_schedule(schedule: Schedule) -> None:
    text = json.dumps(schedule.to_dict())
    again = Schedule.from_dict(json.loads(text))
    assert again == schedule
    assert again.primary_objective == schedule.primary_objective  # their order is a statement
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert hash(again) == hash(schedule)


def test_exact_numbers_are_text() -> None:
    schedule = Schedule.from_dict(document(lower_bound="-6/4"))
    assert schedule.objectives == {
        "contention": Fraction(199, 5),
        "latency": Fraction(1, 3),
        "cushion": None,
    }
    assert schedule.lower_bound == Fraction(-3, 2)
    assert schedule.to_dict()["lower_bound"] == "-3/2"
    assert schedule.to_dict()["objectives"]["contention"] == "199/5"
    whole = Schedule.from_dict(document(lower_bound=7))
    assert whole.lower_bound == 7
    assert whole.to_dict()["lower_bound"] == "7"


@pytest.mark.parametrize(
    "number",
    [
        *(0.5, 1e3, True, float("nan"), [1], {}),
        *("", "0.5", "1e3", "1/0", "1/-2", "--1", "1/", "/2", " 1", "1 / 2", "+1", "٣", "1_0"),
        "nan",
        "1" * 1001,
    ],
)
def test_inexact_numbers_are_refused(number: object) -> None:
    with pytest.raises(InputError, match=r"^objectives\.contention: must be an exact number"):
        Schedule.from_dict(document(objectives={"contention": number}))
    with pytest.raises(InputError, match=r"^lower_bound: must be an exact number"):
        Schedule.from_dict(document(lower_bound=number))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": "0"}, "seed: must be an integer, got '0'"),
        ({"runtime_s": -1}, "runtime_s: must be at least 0"),
        ({"gated": {"a": 1}}, "gated.a: must be true or false, got 1"),
        ({"stretch_limit": "-1/4"}, "stretch_limit: must be at least 0, got '-1/4'"),
        ({"expected_ms": {"a": "0"}}, "expected_ms.a: must be more than 0, got '0'"),
        ({"expected_ms": {"a": None}}, "expected_ms.a: must be an exact number as text"),
        (
            {"bound_pairs": [{"link": "l", "jobs": ["a", "b"], "prices": ["0", "-1", "0"]}]},
            "bound_pairs[0].prices[1]: must be at least 0, got '-1'",
        ),
        (
            {"bound_pairs": [{"link": "l", "jobs": ["a"], "prices": ["0", "1", "0"]}]},
            "bound_pairs[0].jobs: ",
        ),
    ],
)
def test_invalid_schedules_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Schedule.from_dict(document(**changes))
    assert str(caught.value).startswith(said)


def test_unstated_fields_are_not_written(tmp_path: Path) -> None:
    said = {
        "cushion_slots": 2,
        "gated": {"vgg19-0": True, "bert-0": False},
        "stretch_limit": "1/4",
        "expected_ms": {"vgg19-0": "200", "bert-0": "4321/10"},
        "bound_prices": {"node-0": "16/5"},
        "bound_pairs": [
            {"link": "node-0", "jobs": ["vgg19-0", "bert-0"], "prices": ["0", "1/3", "2"]}
        ],
    }
    assert Schedule.from_dict(document(cushion_slots=0)).to_dict() == document()
    kept = Schedule.from_dict(document(**said))
    assert kept.stretch_limit == Fraction(1, 4)
    write_schedule(kept, tmp_path / "schedule.json")
    assert json.loads((tmp_path / "schedule.json").read_text()) == document(**said)
    assert read_schedule(tmp_path / "schedule.json") == kept
    least = document(gated={}, stretch_limit="0", expected_ms={}, bound_prices={})
    assert Schedule.from_dict(least).to_dict() == least
