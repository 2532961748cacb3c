"""Every false statement of a schedule is found and named, and no true one."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import PairPrices, Schedule, Status
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import job, network
from tests.strategies import assigned
from tests.tiers import examples

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


OPTIMAL, FEASIBLE = {"status": Status.OPTIMAL}, {"status": Status.FEASIBLE}
NOTHING: dict[str, Any] = {"offsets": {}, "stretch": {}, "objectives": {}}
UNKNOWN = {"status": Status.UNKNOWN, **NOTHING}
UNLIMITED = {"objectives": {"cushion": None}}


def faults(instance: Instance = PAIR, base: dict[str, Any] = TRUE, /, **changes: Any) -> list[str]:
    """Return the false statements of a schedule, by default the true one, with `changes`."""
    stated = Schedule(**{**TRUE, **base, **changes})
    return [str(fault) for fault in verify_schedule(instance, stated)]


def places(instance: Instance = PAIR, base: dict[str, Any] = TRUE, /, **changes: Any) -> list[str]:
    """Return the locations of these statements."""
    return [fault.partition(": ")[0] for fault in faults(instance, base, **changes)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"lower_bound": None}, []),
        ({"lower_bound": F(5)}, []),
        ({"objectives": {}}, []),
        ({"stretch": {}}, []),
        (
            {**OPTIMAL, "offsets": {"a": 0, "b": 2}, "objectives": {"contention": 0, "cushion": 0}},
            [],
        ),
        (UNKNOWN, []),
        ({"instance": "another"}, ["instance"]),
        ({"lower_bound": F(6)}, ["lower_bound"]),
        (OPTIMAL, ["status"]),
        ({**OPTIMAL, "lower_bound": None}, ["status"]),
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
        ({"classes": {"a": 0, "b": 1}}, ["classes.b"]),  # the network serves one class
        ({"classes": {"a": 0, "b": 0, "c": 0}}, ["classes.'c'"]),
        ({"classes": {"a": 0}}, ["classes.b"]),
        (
            {"instance": "another", "objectives": {"contention": F(4), "wait": F(0)}},
            ["instance", "objectives.contention", "objectives.wait"],
        ),
        # A cushion without limit has no bound.
        ({**UNLIMITED, "lower_bound": F(9)}, ["lower_bound"]),
        ({**UNLIMITED, "lower_bound": F(9), **OPTIMAL}, ["lower_bound", "status"]),
        ({**UNLIMITED, "lower_bound": None}, []),
        ({**UNLIMITED, "lower_bound": None, **OPTIMAL}, ["status"]),
    ],
)
def test_false_statements_are_violations(changes: dict[str, Any], expected: list[str]) -> None:
    assert places(**changes) == expected


def test_classes_are_those_of_the_network() -> None:
    served = PAIR.replace(traffic_classes=3)
    assert faults(served, classes={"a": 2, "b": 0}) == []
    said = "classes.a: stated 3, but the highest class is 2"
    assert faults(served, classes={"a": 3, "b": 0}) == [said]


@given(assigned(), st.fractions(min_value=F(1, 10), max_value=9, max_denominator=10))
@examples(40, deadline=None)
def test_only_true_value_passes(drawn: tuple[Instance, dict[str, int]], more: Fraction) -> None:
    problem, offsets = drawn
    truth = evaluate(problem, offsets).objectives
    stated = {"instance": "random", "offsets": offsets, "stretch": {}}
    assert faults(problem, stated, objectives=truth) == []
    for name, value in truth.items():
        wrong = {**truth, name: more if value is None else value + more}
        told = "null" if value is None else str(value)
        assert faults(problem, stated, objectives=wrong) == [
            f"objectives.{name}: stated {wrong[name]}, but it is {told}"
        ]


SPACED = network(job("a", 10, (0, 2, 60)), job("b", 10, (0, 2, 60), ready=5))
SPACED_TRUE = {"offsets": {"a": 0, "b": 5}, "objectives": {"contention": F(0), "cushion": F(1)}}


@pytest.mark.parametrize(
    ("slots", "changes", "expected"),
    [
        (2, SPACED_TRUE, []),
        # Without the reserve the cushion would be 3, with more of it there is less left.
        (0, SPACED_TRUE, ["objectives.cushion"]),
        (3, SPACED_TRUE, ["objectives.cushion"]),
        # Now the bursts meet, twice for a slot.
        (4, SPACED_TRUE, ["objectives.contention", "objectives.cushion"]),
        # Unshifted, they meet in 2 of 10 slots when they are 4 longer, not before: a bound that
        # the unshifted schedule refutes is false.
        (3, {**UNKNOWN, "lower_bound": F(20 * 2, 10)}, ["lower_bound"]),
        (4, {**UNKNOWN, "lower_bound": F(20 * 2, 10)}, []),
        (4, {**UNKNOWN, "lower_bound": F(20 * 2 + 1, 10)}, ["lower_bound"]),
        (4, {**UNKNOWN, "lower_bound": None, "stretch": {"a": 0}}, ["stretch"]),
    ],
)
def test_statements_include_cushion(
    slots: int, changes: dict[str, Any], expected: list[str]
) -> None:
    assert places(SPACED, {"stretch": {}, **changes}, cushion_slots=slots) == expected


def test_bound_is_not_refuted_where_jobs_must_be_stretched() -> None:
    # Not stretched they repeat themselves after 10,117,450 slots, too many to count.
    problem = network(
        job("a", 137, (0, 1, 60), max_stretch=7),
        job("b", 211, (0, 1, 60)),
        job("c", 350, (0, 1, 60)),
    )
    offsets, stretch = dict.fromkeys("abc", 0), {"a": 3}
    truth = evaluate(problem, offsets, stretch)
    assert truth.links[0].hyperperiod == 700 * 211
    stated = {"offsets": offsets, "stretch": stretch, "objectives": {}}
    assert faults(problem, stated, lower_bound=truth.contention) == []


# Bursts in slots 0 to 2 and 3 to 5 of 8: a cushion of 1, and of 2 if b is a slot later, the most.
SPREAD = network(job("a", 8, (0, 2, 60)), job("b", 8, (3, 2, 60)))
SPREAD_TRUE: dict[str, Any] = {
    **OPTIMAL,
    "offsets": {"a": 0, "b": 1},
    "objectives": {"cushion": F(2)},
    "lower_bound": F(2),
}
OTHER = "status: stated optimal, but the bound is {} and the cushion 2"
LATE = {"offsets": {"a": 0, "b": 7}, "objectives": {"cushion": F(0)}, "lower_bound": F(0)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({**FEASIBLE, "lower_bound": F(4)}, []),
        ({**FEASIBLE, "lower_bound": F(1)}, ["lower_bound: stated 1, but the cushion is 2"]),
        ({"lower_bound": F(3)}, ["status: stated optimal, but the bound is 3 and the cushion 2"]),
        (
            {"lower_bound": None},
            ["status: stated optimal, but the bound is null and the cushion 2"],
        ),
        # No job is late unshifted, so that a burst later than that by 7 of 8 slots is worse.
        ({**FEASIBLE, **LATE}, ["lower_bound: stated 0, but the cushion unshifted is 1"]),
    ],
)
def test_bound_of_cushion_is_upper_bound(changes: dict[str, Any], expected: list[str]) -> None:
    assert faults(SPREAD, SPREAD_TRUE, **changes) == expected


# ------------------------------------------------------------------ gated jobs

# Slots of 5 ms. At periods of 8 a bursts in slots 1 to 3 and b in 5 to 7. c disturbs b, and so a,
# and d is alone.
CROWD = network(
    job("a", 6, (0, 3, 60), weight=1),
    job("b", 8, (0, 3, 60), weight=3, links={"link": 1, "other": 1}),
    job("c", 7, (0, 4, 50), weight=0, links={"other": 1}),
    job("d", 10, (0, 4, 50), weight=4, links={"quiet": 2}),
    other=80,
    quiet=100,
)
TIMES = {"a": F(44), "b": F(56), "c": F(35), "d": F(75)}
KEPT: dict[str, Any] = {
    "offsets": {"a": 1, "b": 5, "c": 0, "d": 9},
    "stretch": {"a": 2, "d": 5},
    "stretch_limit": F(1, 2),
    "gated": {"a": True, "b": True, "c": False, "d": True},
    "expected_ms": TIMES,
    # (1 * 44/30 + 3 * 56/40 + 4 * 75/50) / 8
    "objectives": {"slowdown": F(35, 24)},
    "lower_bound": F(1),
}


def kept(problem: Instance = CROWD, **changes: Any) -> list[str]:
    """Return the false statements in the true kept schedule with `changes`."""
    return faults(problem, KEPT, **changes)


def test_true_gated_schedule_has_no_violation() -> None:
    truth = evaluate(CROWD, KEPT["offsets"], KEPT["stretch"], stretch_limit=F(1, 2)).objectives
    assert truth["stretch"] == F(1 * 2, 6) + F(4 * 5, 10)
    silent: dict[str, Any] = {"objectives": {}, "lower_bound": None}
    for changes in (
        {},
        {"cushion_slots": 1},
        silent,
        {**silent, "expected_ms": None},
        {"gated": None},
        {"objectives": {**KEPT["objectives"], **truth}},
        {"objectives": {**truth, **KEPT["objectives"]}, "lower_bound": None},
    ):
        assert kept(**changes) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Longer by 2, a is in slots 1 to 5 and b in 5 to 9, which is 1.
        ({"cushion_slots": 2}, "gated: stated jobs a, b are gated on link link, but at slot 1 th"),
        # c is in slots 0 to 3 of 7: first beside b in slot 7. That a is late then is no fault.
        ({"gated": {**KEPT["gated"], "c": True}}, "gated: stated jobs b, c are gated on link oth"),
        ({"gated": {**KEPT["gated"], "x": True}}, "gated.'x': stated True, but no such job"),
        ({"gated": {"a": True, "b": True, "c": False}}, "gated.d: stated nothing, but all jobs ar"),
        ({"stretch_limit": F(49, 100)}, "stretch.d: stated 5, but it must be in [0, 4]"),
        ({"stretch_limit": None}, "stretch.a: stated 2, but it must be in [0, 0]"),
        ({"expected_ms": None}, "expected_ms: stated nothing, but a slowdown is that of these"),
        (
            {"expected_ms": {"a": F(44), "b": F(56), "c": F(35)}},
            "expected_ms.d: stated nothing, but all jobs are named or none",
        ),
        ({"before_ms": {"x": F(1)}}, "before_ms.'x': stated 1, but no such job"),
        ({"before_ms": {"a": F(1)}}, "before_ms.a: stated 1, but it takes 30 ms at least"),
        ({"expected_ms": {**TIMES, "x": F(1)}}, "expected_ms.'x': stated 1, but no such job"),
        (
            {"expected_ms": {**TIMES, "c": F(69, 2)}},  # its weight is 0
            "expected_ms.c: stated 69/2, but it takes 35 ms at least",
        ),
        (
            {"objectives": {"slowdown": F(3, 2)}},
            "objectives.slowdown: stated 3/2, but it is 35/24",
        ),
        ({"objectives": {"slowdown": None}}, "objectives.slowdown: stated null, but it is 35/24"),
        ({"lower_bound": F(2)}, "lower_bound: stated 2, but the slowdown is 35/24"),
        ({"status": Status.OPTIMAL}, "status: stated optimal, but the bound is 1 and the slowdown"),
        (
            {**UNKNOWN, "expected_ms": None, "lower_bound": None},
            "gated: stated values, but the status is unknown",
        ),
        ({**UNKNOWN, "gated": None, "lower_bound": None}, "expected_ms: stated values, but the st"),
    ],
)
def test_false_statements_of_gated_schedule_are_violations(
    changes: dict[str, Any], expected: str
) -> None:
    fault, *others = kept(**changes)
    assert fault.startswith(expected)
    if "stretch_limit" not in changes:
        assert others == []


# Each loads a link by 4/5, so that rates add up to at most 5/4: both take 8/5 of their periods of
# 100 ms. With a price p of the link that is 2 * min (s + 4/5 p / s) - p = 4 * sqrt(4/5 p) - p.
FULL = network(*(job(name, 20, (0, 16, 100)) for name in "ab"))
PROVED: dict[str, Any] = {
    "offsets": {"a": 0, "b": 0},
    "gated": {"a": False, "b": False},
    "expected_ms": {"a": F(150), "b": F(180)},
    "objectives": {"slowdown": F(33, 20)},
    "lower_bound": F(8, 5),
    "bound_prices": {"link": F(16, 5)},
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"lower_bound": None}, None),
        ({"lower_bound": F(1), "bound_prices": None}, None),
        (
            {
                "expected_ms": {"a": F(160), "b": F(160)},
                "objectives": {"slowdown": F(8, 5)},
                "status": Status.OPTIMAL,
            },
            None,
        ),
        (
            {"lower_bound": F(1601, 1000)},
            "stated 1601/1000, but the stated prices prove only 1.6",
        ),
        ({"bound_prices": None}, "stated 8/5, but the stated prices prove only 1"),
        # 2 * sqrt(4) - 5/2, and 2 * sqrt(16/5) - 2 = 1.577708764
        ({"bound_prices": {"link": F(5)}}, "stated 8/5, but the stated prices prove only 1.5"),
        (
            {"lower_bound": F(1577708764, 10**9), "bound_prices": {"link": F(4)}},
            "stated 394427191/250000000, but the stated prices prove only 1.57770876",
        ),
        ({"lower_bound": F(1577708763, 10**9), "bound_prices": {"link": F(4)}}, None),
        ({"bound_prices": {"x": F(16, 5)}}, "bound_prices.'x': stated 16/5, but no such link"),
        # A price below 1 leaves jobs at their periods: 1 + (8/5 - 1) / 2 p.
        ({"lower_bound": F(5, 4), "bound_prices": {"link": F(5, 6)}}, None),
    ],
)
def test_prices_prove_a_bound_of_slowdown(changes: dict[str, Any], expected: str | None) -> None:
    found = faults(FULL, PROVED, **changes)
    assert len(found) == (expected is not None)
    assert all(fault.endswith(expected or "") for fault in found)


# With 80 of 100 for 12 of 20 slots, two jobs together need 2 * (9.6 + 8 / 5) slots of 20 in time:
# 28/25 of their periods. c leaves room for the others, and d is elsewhere.
PAIRED = network(
    *(job(name, 20, (0, 12, 80), weight=1) for name in "ab"),
    job("c", 20, (0, 12, 20), weight=0),
    job("d", 20, (0, 12, 80), weight=0, links={"other": 1}),
    other=100,
)


@pytest.mark.parametrize(
    ("link", "jobs", "price", "expected"),
    [
        ("link", "ab", F(56, 25), None),
        ("link", "ba", F(56, 25), None),
        ("link", "ab", F(2), "the stated prices prove only 1.11660105"),  # 2 sqrt(1.12) - 1
        ("link", "ac", F(56, 25), "cannot carry at once"),
        ("link", "aa", F(56, 25), "cannot carry at once"),
        ("link", "ad", F(56, 25), "cannot carry at once"),
        ("link", "ax", F(56, 25), "cannot carry at once"),
        ("x", "ab", F(56, 25), "cannot carry at once"),
    ],
)
def test_prices_of_pairs_prove_a_bound(
    link: str, jobs: str, price: Fraction, expected: str | None
) -> None:
    pair = PairPrices(link=link, jobs=tuple(jobs), prices=(price, F(0), F(0)))
    stated: dict[str, Any] = {
        **PROVED,
        "offsets": dict.fromkeys("abcd", 0),
        "gated": dict.fromkeys("abcd", False),
        "expected_ms": dict.fromkeys("abcd", F(112)),
        "objectives": {"slowdown": F(28, 25)},
        "lower_bound": F(28, 25),
        "bound_prices": None,
    }
    assert len(faults(PAIRED, stated)) == 1  # loads alone prove nothing
    found = faults(PAIRED, stated, bound_pairs=(pair,))
    assert len(found) == (expected is not None)
    assert all(fault.endswith(expected or "") for fault in found)


def test_job_is_no_faster_than_isolated() -> None:
    # 9 slots of 2 * 60 on a link of 100 take 10.8 of then 61.8.
    wide = network(job("a", 60, (2, 9, 60), links={"link": 2}))
    stated: dict[str, Any] = {
        **PROVED,
        "offsets": {"a": 0},
        "stretch": {},
        "gated": {"a": False},
        "expected_ms": {"a": F(310)},
        "objectives": {"slowdown": F(31, 30)},
        "bound_prices": None,
    }
    assert faults(wide, stated, lower_bound=F(103, 100)) == []
    said = "lower_bound: stated 1031/1000, but the stated prices prove only 1.03"
    assert faults(wide, stated, lower_bound=F(1031, 1000)) == [said]


def test_gated_job_is_no_faster_than_its_windows() -> None:
    # (44/30 + 3 * 56/40 + 4 * 74/50) / 8
    value = "objectives.slowdown: stated 35/24, but it is 869/600"
    early = "expected_ms.d: stated 74, but it takes 75 ms at least"
    assert kept(expected_ms={**TIMES, "d": F(74)}) == [early, value]
    # A job that runs freely may take longer than its period.
    assert kept(gated=dict.fromkeys("abcd", False)) == []


def test_slowdown_of_zero_weights_is_unweighted_mean() -> None:
    weightless = [each.model_copy(update={"weight": 0}) for each in CROWD.jobs]
    mean = (F(44, 30) + F(56, 40) + 1 + F(75, 50)) / 4
    assert kept(CROWD.replace(jobs=weightless), objectives={"slowdown": mean}) == []


def test_ungated_jobs_need_no_common_hyperperiod() -> None:
    # a and b repeat themselves after 901 slots, with c after 1,081,200.
    problem = network(
        *(job(name, p, (0, 9, 60)) for name, p in (("a", 900), ("b", 900), ("c", 1200)))
    )
    changes: dict[str, Any] = {
        "offsets": {"a": 0, "b": 9, "c": 0},
        "stretch": {"a": 1, "b": 1},
        "gated": {"a": True, "b": True, "c": False},
        "expected_ms": {"a": F(4505), "b": F(4505), "c": F(6000)},
        "objectives": {"slowdown": F(901 * 2 + 900, 2700)},
    }
    assert kept(problem, **changes) == []
    with pytest.raises(InputError, match="hyperperiod of 1081200 slots on link 'link'"):
        kept(problem, **{**changes, "objectives": {"contention": F(0)}})
    # 901 and 1200 have no common divisor, so that a burst of c meets all others in some slot.
    (wrong,) = kept(problem, **{**changes, "gated": dict.fromkeys("abc", True)})
    assert wrong.startswith("gated: stated jobs ")
    assert "in some slot they ask for" in wrong


@pytest.mark.parametrize("seed", range(60))
def test_gated_jobs_are_verified_with_and_without_hyperperiod(seed: int) -> None:
    draw = Random(seed)
    jobs = [
        job(
            name,
            draw.choice((4, 6, 8, 9, 10, 12)),
            (draw.randint(0, 2), draw.choice((1, 1, 2)), 60),
        )
        for name in "abc"
    ]
    jobs = [each.model_copy(update={"links": {"link": draw.choice((1, 1, 2))}}) for each in jobs]
    problem = network(*jobs, capacity=draw.choice((60, 120, 180)))
    short = Instance.from_dict(problem.to_dict(), hyperperiod_limit=20)
    changes: dict[str, Any] = {
        "offsets": {each.name: draw.randrange(each.period) for each in jobs},
        "stretch": {},
        "gated": dict.fromkeys("abc", True),
        "objectives": {},
        "lower_bound": None,
        "expected_ms": None,
        "cushion_slots": draw.choice((0, 1)),
    }
    periods = [each.period for each in jobs]
    shared = [
        math.lcm(*(math.gcd(p, q) for q in (*periods[:i], *periods[i + 1 :])))
        for i, p in enumerate(periods)
    ]
    if min(math.lcm(*periods), math.lcm(*shared)) > 20:
        with pytest.raises(InputError, match="gated: windows on link 'link' repeat after"):
            kept(short, **changes)
    else:
        assert bool(kept(short, **changes)) == bool(kept(problem, **changes))
