"""Statements of a schedule file: each false one is found and named, a true one never."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.schedule import Schedule, Status
from metronome_opt.verify import check, evaluate
from tests.builders import job, network
from tests.strategies import assigned

F = Fraction

PAIR = network(
    job("a", 4, (0, 2, 60), fixed_offset=0),
    job("b", 4, (0, 2, 60), weight=4, max_stretch=1),
)
TRUE: dict[str, Any] = {
    "instance": "by-hand",
    "offsets": {"a": 0, "b": 1},
    "stretch": {"a": 0, "b": 0},
    "status": Status.FEASIBLE,
    # 20 too much in 1 of 4 slots, out of the job of weight 1; b waits 1 slot.
    "objectives": {"contention": F(5), "latency": F(5, 60), "wait": F(4), "cushion": None},
    "lower_bound": F(0),
    "solver": "hand",
    "seed": None,
    "runtime_s": 0.0,
}


def places(**changes: Any) -> list[str]:
    """Return the places of the false statements in the true schedule with `changes`."""
    return [fault.place for fault in check(PAIR, Schedule(**{**TRUE, **changes}))]


def test_a_true_schedule_has_no_fault() -> None:
    assert places() == []
    assert places(lower_bound=None) == []
    assert places(lower_bound=F(5)) == []
    assert places(objectives={}) == []
    assert places(stretch={}) == []
    best = {"offsets": {"a": 0, "b": 2}, "objectives": {"contention": F(0), "cushion": F(0)}}
    assert places(**best, status=Status.OPTIMAL) == []
    unknown = {"status": Status.UNKNOWN, "offsets": {}, "stretch": {}, "objectives": {}}
    assert places(**unknown) == []


@pytest.mark.parametrize("name", ["contention", "latency", "stretch", "wait", "moves", "cushion"])
def test_each_false_value_is_named(name: str) -> None:
    faults = check(PAIR, Schedule(**{**TRUE, "objectives": {name: F(7, 3)}, "lower_bound": None}))
    truth = evaluate(PAIR, TRUE["offsets"]).objectives[name]
    told = "null" if truth is None else str(truth)
    assert [str(fault) for fault in faults] == [f"objectives.{name}: stated 7/3, but it is {told}"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"instance": "another"}, ["instance"]),
        ({"lower_bound": F(6)}, ["lower_bound"]),
        ({"status": Status.OPTIMAL}, ["status"]),
        ({"status": Status.OPTIMAL, "lower_bound": None}, ["status"]),
        ({"objectives": {"contention": None}}, ["objectives.contention"]),
        ({"objectives": {"contention": F(5), "beauty": F(1)}}, ["objectives.'beauty'"]),
        ({"offsets": {"a": 0}}, ["offsets.b"]),
        ({"offsets": {"a": 0, "b": 1, "c": 0}}, ["offsets.'c'"]),
        ({"offsets": {"a": 0, "b": 4}}, ["offsets.b"]),
        ({"offsets": {"a": 1, "b": 2}}, ["offsets.a"]),
        ({"stretch": {"a": 1, "b": 0}}, ["stretch.a"]),
        ({"stretch": {"x": 0}}, ["stretch.'x'"]),
        (
            {"status": Status.INFEASIBLE},
            ["status", "offsets", "stretch", "objectives"],  # every choice of offsets is a schedule
        ),
        ({"status": Status.UNKNOWN}, ["offsets", "stretch", "objectives"]),
        (
            {"instance": "another", "objectives": {"contention": F(4), "wait": F(0)}},
            ["instance", "objectives.contention", "objectives.wait"],
        ),
    ],
)
def test_each_kind_of_false_statement_is_found(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert places(**changes) == expected


@given(assigned(), st.fractions(min_value=F(1, 10), max_value=9, max_denominator=10))
@settings(max_examples=40, deadline=None)
def test_only_the_true_value_passes(drawn: tuple[Instance, dict[str, int]], more: Fraction) -> None:
    problem, offsets = drawn
    truth = evaluate(problem, offsets).objectives
    stated = Schedule(
        **{**TRUE, "instance": "random", "offsets": offsets, "stretch": {}, "objectives": truth}
    )
    assert check(problem, stated) == ()
    for name, value in truth.items():
        wrong = {**truth, name: more if value is None else value + more}
        faults = check(problem, stated.model_copy(update={"objectives": wrong}))
        assert [fault.place for fault in faults] == [f"objectives.{name}"]


SPACED = network(job("a", 10, (0, 2, 60)), job("b", 10, (0, 2, 60), ready=5))


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (2, []),
        # Without the reserve the cushion would be 3, with more of it there is less left.
        (0, ["objectives.cushion"]),
        (3, ["objectives.cushion"]),
        # Now the bursts meet, twice for a slot.
        (4, ["objectives.contention", "objectives.cushion"]),
    ],
)
def test_what_is_stated_is_stated_of_the_longer_bursts(slots: int, expected: list[str]) -> None:
    fields = {
        **TRUE,
        "offsets": {"a": 0, "b": 5},
        "stretch": {},
        "objectives": {"contention": F(0), "cushion": F(1)},
        "cushion_slots": slots,
    }
    assert [fault.place for fault in check(SPACED, Schedule(**fields))] == expected


@pytest.mark.parametrize(("slots", "expected"), [(3, ["lower_bound"]), (4, [])])
def test_a_bound_is_one_of_the_longer_bursts(slots: int, expected: list[str]) -> None:
    # Unshifted, the bursts meet in 2 of 10 slots when they are 4 longer, not before.
    fields = {"offsets": {}, "stretch": {}, "objectives": {}, "status": Status.UNKNOWN}
    stated = Schedule(**{**TRUE, **fields, "lower_bound": F(20 * 2, 10), "cushion_slots": slots})
    assert [fault.place for fault in check(SPACED, stated)] == expected


def test_a_bound_is_not_refuted_by_jobs_that_must_be_stretched() -> None:
    # Not stretched they repeat themselves after 10,117,450 slots, which nobody counts.
    problem = network(
        job("a", 137, (0, 1, 60), max_stretch=7),
        job("b", 211, (0, 1, 60)),
        job("c", 350, (0, 1, 60)),
    )
    fields = {**TRUE, "offsets": {"a": 0, "b": 0, "c": 0}, "stretch": {"a": 3}, "objectives": {}}
    truth = evaluate(problem, fields["offsets"], fields["stretch"])
    assert truth.links[0].hyperperiod == 700 * 211
    assert check(problem, Schedule(**{**fields, "lower_bound": truth.contention})) == ()


def test_a_bound_that_a_known_schedule_refutes_is_false() -> None:
    # A bound above the value of the unshifted schedule is refuted by it.
    unshifted = evaluate(PAIR, PAIR.unshifted).contention
    above = unshifted + 1
    nothing = {"offsets": {}, "stretch": {}, "objectives": {}, "status": Status.UNKNOWN}
    assert check(PAIR, Schedule(**{**TRUE, **nothing, "lower_bound": unshifted})) == ()
    (fault,) = check(PAIR, Schedule(**{**TRUE, **nothing, "lower_bound": above}))
    assert fault.place == "lower_bound"
    (fault,) = check(
        PAIR, Schedule(**{**TRUE, **nothing, "lower_bound": None, "stretch": {"a": 0}})
    )
    assert fault.place == "stretch"
