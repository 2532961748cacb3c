"""Objectives in order, as a sum and within limits, against the judge's word on every schedule."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.errors import InputError, SolverError
from metronome_opt.instance import Instance
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Event, Level, Result, Stop
from metronome_opt.schedule import Status
from metronome_opt.solvers import solve as solve_contention
from metronome_opt.verify import Evaluation, check, evaluate
from tests.builders import HARD, job, network
from tests.multiobjective.enumeration import (
    AT_GIVEN_PERIODS,
    Objectives,
    allowed,
    contested,
    cost,
    evaluations,
    every,
    in_order,
)

ZERO = Fraction(0)
Shares = st.fractions(0, 2, max_denominator=4)
ORDERS = st.permutations(AT_GIVEN_PERIODS).flatmap(
    lambda names: st.integers(1, len(names)).map(lambda count: names[:count])
)


def costs(levels: tuple[Level, ...]) -> list[Fraction]:
    return [cost(level.name, level.value) for level in levels]


def final(result: Result, names: list[str]) -> list[Fraction]:
    return [cost(name, result.evaluation.objectives[name]) for name in names]


# ------------------------------------------------------------------ in order


@given(contested(), ORDERS)
@settings(max_examples=60)
def test_objectives_in_any_order_are_least_one_after_the_other(
    instance: Instance, names: list[str]
) -> None:
    result = solve(instance, objectives=names, workers=1)
    assert [level.name for level in result.levels] == names
    assert costs(result.levels) == final(result, names) == in_order(every(instance), names)
    assert all(level.proved for level in result.levels)
    assert result.stop is Stop.PROVED
    assert check(instance, result.schedule) == ()
    # Only a cushion without limit is a value that no bound can meet.
    assert (result.status is Status.OPTIMAL) == (result.objective is not None)


@given(contested(), ORDERS)
@settings(max_examples=25)
def test_the_first_level_is_what_the_objective_alone_comes_to(
    instance: Instance, names: list[str]
) -> None:
    several, alone = (
        solve(instance, objectives=chosen, workers=1) for chosen in (names, names[:1])
    )
    assert several.levels[0] == alone.levels[0]
    assert several.lower_bound == alone.lower_bound


@given(contested(), ORDERS, st.data())
@settings(max_examples=60)
def test_within_a_tolerance_later_objectives_take_what_they_need(
    instance: Instance, names: list[str], data: st.DataObject
) -> None:
    tolerance = {name: data.draw(Shares) for name in names[:-1]}
    result = solve(instance, objectives=names, tolerance=tolerance, workers=1)
    assert costs(result.levels) == in_order(every(instance), names, tolerance)
    assert all(level.proved for level in result.levels)
    assert check(instance, result.schedule) == ()
    for level in result.levels:
        assert level.tolerance == tolerance.get(level.name, 0)
        reached = cost(level.name, result.evaluation.objectives[level.name])
        assert reached <= allowed(level.name, cost(level.name, level.value), level.tolerance)


def test_a_tolerance_is_of_the_least_and_not_of_what_was_used_of_it() -> None:
    # a waits 1 slot whatever happens, weight 2. b is out of its way if it waits 1 slot as well:
    # that is all that 100% allow. For c to stay it would have to wait 1 slot, weight 4.
    instance = network(
        job("a", 4, (0, 1, 60), weight=2, fixed_offset=1),
        job("b", 4, (0, 1, 60), weight=2, ready=1),
        job("c", 4, (0, 1, 60), weight=4, links={}, current_offset=1),
    )
    names = ["wait", "contention", "moves"]
    result = solve(instance, objectives=names, tolerance={"wait": "100%"}, workers=1)
    assert [level.value for level in result.levels] == [2, 0, 4]
    assert result.offsets == {"a": 1, "b": 2, "c": 0}


@given(contested(most_schedules=80), st.permutations(AT_GIVEN_PERIODS), Shares, Shares)
@settings(max_examples=15)
def test_more_tolerance_never_makes_the_next_objective_worse(
    instance: Instance, names: list[str], one: Fraction, other: Fraction
) -> None:
    tight, loose = (
        solve(instance, objectives=names[:2], tolerance={names[0]: share}, workers=1).levels
        for share in sorted((one, other))
    )
    assert costs(loose)[0] == costs(tight)[0]
    assert costs(loose)[1] <= costs(tight)[1]


def test_the_cushion_of_schedules_without_limit_is_none() -> None:
    result = solve(network(job("a", 4, (0, 1, 60))), objectives=["cushion", "wait"], workers=1)
    assert result.levels == (Level("cushion", None, proved=True), Level("wait", Fraction(0), True))


def test_jobs_of_no_weight_need_their_cushion_too() -> None:
    # Halfway round b is 2 slots away from a on either side.
    burst = (0, 1, 60)
    instance = network(
        job("a", 6, burst, weight=0, fixed_offset=3), job("b", 6, burst, weight=0, ready=4)
    )
    result = solve(instance, objectives=["latency", "cushion"], workers=1)
    assert [level.value for level in result.levels] == [0, 2]
    assert result.offsets == {"a": 3, "b": 0}


def test_groups_that_share_nothing_are_added_up() -> None:
    # a and b cannot avoid to meet in 1 slot of 4, 20 over; c and d can. e, fixed, counts nothing.
    instance = network(
        job("a", 4, (0, 2, 60), weight=3),
        job("b", 4, (0, 3, 60), weight=2),
        job("c", 4, (0, 2, 60), links={"other": 1}, current_offset=1),
        job("d", 4, (0, 2, 60), links={"other": 1}, current_offset=2),
        job("e", 4, (0, 2, 60), links={}, weight=0, fixed_offset=3),
        other=100,
    )
    names = ["contention", "moves", "wait"]
    result = solve(instance, objectives=names, workers=1)
    # It is cheapest if b (weight 2) waits 1 slot. One of c and d has to move: they are at 0 and 2,
    # which is 2 slots to wait, or at 1 and 3.
    assert [level.value for level in result.levels] == [10, 1, 2 + 2]
    assert all(level.proved for level in result.levels)


# ------------------------------------------------------------------ sums


def natural_sizes(instance: Instance) -> dict[str, Fraction]:
    """Return what docs/model.md says a weighted sum divides by."""
    jobs = instance.jobs
    traffic = sum(
        Fraction(each.weight * flows * phase.length * phase.rate, each.period)
        for each in jobs
        for phase in each.phases
        for flows in each.links.values()
    )
    sizes = {
        "contention": Fraction(traffic),
        "latency": Fraction(1),
        "wait": Fraction(sum(each.weight * each.period for each in jobs)),
        "moves": Fraction(sum(each.weight for each in jobs if each.current_offset is not None)),
        "cushion": Fraction(max(each.period for each in jobs)),
    }
    return {name: size or Fraction(1) for name, size in sizes.items()}


def weighted(instance: Instance, weights: Mapping[str, Fraction], values: Objectives) -> Fraction:
    """Return the sum; a cushion counts against it, and one without limit as the longest period."""
    sizes = natural_sizes(instance)
    total = Fraction(0)
    for name, weight in weights.items():
        value = values[name]
        share = Fraction(1) if value is None else value / sizes[name]
        total += weight * (-share if name == "cushion" else share)
    return total


@st.composite
def weightings(draw: st.DrawFn) -> dict[str, Fraction]:
    names = draw(st.lists(st.sampled_from(AT_GIVEN_PERIODS), min_size=1, unique=True))
    return {name: draw(st.fractions(0, 9, max_denominator=4)) for name in names}


@given(contested(), weightings())
@settings(max_examples=60)
def test_a_weighted_sum_is_the_least_there_is(
    instance: Instance, weights: dict[str, Fraction]
) -> None:
    assume(any(weights.values()))
    least = min(weighted(instance, weights, each) for each in every(instance))
    result = solve(instance, weights={name: str(each) for name, each in weights.items()}, workers=1)
    assert weighted(instance, weights, result.evaluation.objectives) == least
    assert result.levels == (Level("weighted sum", least, proved=True),)
    assert check(instance, result.schedule) == ()


# ------------------------------------------------------------------ limits


@st.composite
def limits(draw: st.DrawFn, schedules: list[Objectives]) -> dict[str, Fraction]:
    """Draw limits that some schedule keeps, not all of them values that are reached."""
    kept = draw(st.sampled_from(schedules))
    names = draw(st.lists(st.sampled_from(AT_GIVEN_PERIODS), min_size=1, max_size=2, unique=True))
    slack = draw(st.sampled_from((Fraction(0), Fraction(1, 3))))
    return {
        name: value + (-slack if name == "cushion" else slack)
        for name in names
        if (value := kept[name]) is not None and (name != "cushion" or value)
    }


def within(values: Objectives, epsilon: Mapping[str, Fraction]) -> bool:
    return all(
        cost(name, values[name]) <= (-most if name == "cushion" else most)
        for name, most in epsilon.items()
    )


@given(contested(), ORDERS, st.data())
@settings(max_examples=60)
def test_limits_are_kept_and_nothing_else_is_lost(
    instance: Instance, names: list[str], data: st.DataObject
) -> None:
    schedules = every(instance)
    epsilon = data.draw(limits(schedules))
    stated = {name: str(most) for name, most in epsilon.items()}
    result = solve(instance, objectives=names, epsilon=stated, workers=1)
    kept = [each for each in schedules if within(each, epsilon)]
    assert within(result.evaluation.objectives, epsilon)
    assert costs(result.levels) == final(result, names) == in_order(kept, names)
    assert all(level.proved for level in result.levels)
    # What is least within limits bounds no schedule outside: the file must not say so.
    assert check(instance, result.schedule) == ()


def test_what_is_least_within_limits_bounds_no_other_schedule() -> None:
    # Where nobody waits both meet; within the limit one waits 2 slots.
    instance = network(job("a", 4, (0, 2, 60)), job("b", 4, (0, 2, 60)))
    result = solve(instance, objectives=["wait"], epsilon={"contention": 0}, workers=1)
    assert result.levels == (Level("wait", Fraction(2), proved=True),)
    assert result.lower_bound is None
    assert result.status is Status.FEASIBLE


def test_a_limit_between_two_slots_asks_for_the_larger_cushion() -> None:
    # b is closest to where it is ready at 1, without any cushion; at 2 it leaves 1 slot of it.
    instance = network(
        job("a", 6, (0, 1, 60), fixed_offset=0), job("b", 6, (0, 1, 60), ready=1), capacity=100
    )
    result = solve(instance, objectives=["wait"], epsilon={"cushion": "1/3"}, workers=1)
    assert result.offsets == {"a": 0, "b": 2}


def test_a_gain_of_cushion_does_not_break_limits() -> None:
    # 3 slots away b would leave 2 slots of cushion, worth any wait, but it must not wait so long.
    instance = network(job("a", 6, (0, 1, 60), fixed_offset=0), job("b", 6, (0, 1, 60), ready=1))
    result = solve(
        instance, weights={"cushion": 99, "wait": 1}, epsilon={"wait": 1, "latency": 0}, workers=1
    )
    assert result.offsets == {"a": 0, "b": 2}


@given(contested(most_schedules=80), weightings(), st.data())
@settings(max_examples=30)
def test_a_weighted_sum_keeps_limits(
    instance: Instance, weights: dict[str, Fraction], data: st.DataObject
) -> None:
    assume(any(weights.values()))
    schedules = every(instance)
    epsilon = data.draw(limits(schedules))
    result = solve(instance, weights=weights, epsilon=epsilon, workers=1)
    assert within(result.evaluation.objectives, epsilon)
    assert result.levels[0].value == min(
        weighted(instance, weights, each) for each in schedules if within(each, epsilon)
    )


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        ({"contention": 9}, "contention of 9 cannot be had; the best possible is 10; raise"),
        ({"cushion": 4}, "cushion of 4 cannot be had; the best possible is 1; lower"),
        ({"wait": 0, "contention": 10}, "of 10 cannot be had; the best possible is 20; raise"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused_with_what_can(
    epsilon: dict[str, int], message: str
) -> None:
    # a and b meet in 1 slot of 4 at least, 20 over and weight 2; in 2 where nobody waits. c and d,
    # where they are, can grow by 1 slot each.
    instance = network(
        job("a", 4, (0, 2, 60), weight=3),
        job("b", 4, (0, 3, 60), weight=2),
        job("c", 4, (0, 1, 60), links={"other": 1}, fixed_offset=0),
        job("d", 4, (0, 1, 60), links={"other": 1}, ready=2, fixed_offset=2),
        other=100,
    )
    with pytest.raises(InputError, match=message):
        solve(instance, objectives=["latency"], epsilon=epsilon, workers=1)


def test_a_limit_that_is_not_reached_in_time_is_an_error() -> None:
    with pytest.raises(SolverError, match=r"no schedule with contention of 0 was found in time"):
        solve(HARD, objectives=["wait"], epsilon={"contention": 0}, time_limit=0.3, workers=1)


# ------------------------------------------------------------------ reserves


@given(contested(most_schedules=80), ORDERS, st.integers(1, 3))
@settings(max_examples=30)
def test_a_reserved_cushion_is_that_of_longer_bursts(
    instance: Instance, names: list[str], slots: int
) -> None:
    result = solve(instance, objectives=names, cushion_slots=slots, workers=1)
    assert costs(result.levels) == in_order(every(instance, longer=slots), names)
    longer = solve(lengthen(instance, slots), objectives=names, workers=1)
    assert [level.value for level in result.levels] == [level.value for level in longer.levels]
    assert result.schedule.cushion_slots == slots
    assert check(instance, result.schedule) == ()


# ------------------------------------------------------------------ other solvers


@pytest.mark.parametrize("solver", ["greedy", "cpsat", "local", "branch-bound"])
@pytest.mark.parametrize("names", [["latency"], ["contention", "latency"]])
def test_any_solver_knows_latency(solver: str, names: list[str]) -> None:
    instance = network(
        job("a", 4, (0, 3, 60)), job("b", 6, (0, 3, 60), weight=4), job("c", 6, (1, 2, 70))
    )
    best = in_order(every(instance), names)
    result = solve(instance, solver, objectives=names, workers=1)
    assert check(instance, result.schedule) == ()
    assert result.schedule.first == names[0]
    assert [level.name for level in result.levels] == names
    if solver in ("cpsat", "branch-bound"):
        assert [level.value for level in result.levels] == best
        assert all(level.proved for level in result.levels)
    else:
        assert costs(result.levels)[0] >= best[0]
        assert not any(level.proved for level in result.levels)
    assert costs(result.levels) == final(result, names)


@pytest.mark.parametrize(
    ("solver", "arguments", "message"),
    [
        (
            "greedy",
            {"objectives": ["contention", "wait"]},
            r"contention, wait: solver greedy cannot; .* and holds contention, latency; .*: auto$",
        ),
        (
            "cassini",
            {"objectives": ["contention", "latency"]},
            r"cassini cannot; it optimises contention, latency alone; those that can: auto, greedy",
        ),
        (
            "cpsat",
            {"objectives": ["contention", "latency"], "tolerance": {"contention": "5%"}},
            r"contention, latency with tolerance: solver cpsat cannot; .* that can: auto$",
        ),
        (
            "cpsat",
            {"epsilon": {"latency": "1/2"}},
            r"contention, latency with epsilon: solver cpsat cannot; .* that can: auto$",
        ),
    ],
)
def test_what_a_solver_cannot_do_is_refused_with_those_that_can(
    solver: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        solve(HARD, solver, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objectives": []}, "objectives: none given; choose from contention,"),
        ({"objectives": "latency"}, "objectives: must be a list of names, got 'latency'"),
        ({"objectives": ["speed"]}, "objectives: 'speed' is not known; choose from"),
        ({"objectives": ["wait", "wait"]}, "objectives: wait is given twice"),
        ({"tolerance": {"contention": "5%"}}, "contention is not followed by another"),
        ({"tolerance": {"wait": "5%"}}, "wait is not followed by another"),
        ({"tolerance": {"speed": "5%"}}, "tolerance: 'speed' is not known"),
        ({"epsilon": {"wait": -1}}, "epsilon.wait: must not be negative, got '-1'"),
        ({"epsilon": {"wait": 0.5}}, r"epsilon.wait: must be an exact number .* got 0\.5"),
        ({"epsilon": {"wait": "half"}}, "epsilon.wait: must be an exact number .* got 'half'"),
        ({"weights": {"wait": 0}}, "weights: all are 0"),
        ({"weights": {"wait": True}}, "weights.wait: must be an exact number"),
        ({"weights": {"wait": 1}, "tolerance": {"wait": 1}}, "a weighted sum has no levels"),
        ({"strict": True, "objectives": ["wait"]}, "strict: orders contention by classes"),
        ({"strict": True, "epsilon": {"wait": 1}}, "strict: .* leave out weights, tolerance, eps"),
        ({"cushion_slots": -1}, "cushion_slots: must be a number of slots from 0 on, got -1"),
        ({"cushion_slots": "two"}, "cushion_slots: must be a number of slots from 0 on"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        solve(HARD, **arguments)
    assert "\n" not in str(refusal.value)


# ------------------------------------------------------------------ out of time


ALL_LEVELS = ["contention", "latency", "wait", "moves", "cushion"]


@pytest.mark.parametrize("names", [ALL_LEVELS, ALL_LEVELS[::-1]])
def test_too_little_time_gives_a_schedule_and_no_proof(names: list[str]) -> None:
    began = time.monotonic()
    result = solve(HARD, objectives=names, time_limit=0.3, workers=1)
    assert result.stop is Stop.TIME_LIMIT
    assert check(HARD, result.schedule) == ()
    assert costs(result.levels) == final(result, names)
    contention = names.index("contention")
    assert not any(level.proved for level in result.levels[contention:])
    if not contention:
        assert result.status is Status.FEASIBLE
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "goal", [{"objectives": ALL_LEVELS}, {"weights": dict.fromkeys(ALL_LEVELS, 1)}]
)
def test_ctrl_c_ends_all_levels(goal: dict[str, Any]) -> None:
    began = time.monotonic()
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = solve(HARD, time_limit=100, workers=1, **goal)
    timer.join()
    assert result.stop is Stop.INTERRUPTED
    assert not any(level.proved for level in result.levels)
    assert check(HARD, result.schedule) == ()
    assert time.monotonic() - began < 15  # the next level did not begin


def test_a_callback_ends_all_levels() -> None:
    result = solve(HARD, objectives=ALL_LEVELS, workers=1, callback=lambda _: True)
    assert result.stop is Stop.CALLBACK
    assert len(result.trajectory) == 1
    assert not any(level.proved for level in result.levels)
    assert check(HARD, result.schedule) == ()


def test_a_later_proof_does_not_hide_that_time_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[Result] = []

    def hurried(instance: Instance, *arguments: Any, **options: Any) -> Result:
        options["time_limit"] = None if reached else 0
        reached.append(solve_contention(instance, *arguments, **options))
        return reached[-1]

    monkeypatch.setattr("metronome_opt.multiobjective.offsets.solve_contention", hurried)
    crowd = network(job("a", 4, (0, 3, 60)), job("b", 6, (0, 3, 60), weight=4))
    result = solve(crowd, objectives=["contention", "latency"], workers=1)
    assert [each.stop for each in reached] == [Stop.TIME_LIMIT, Stop.PROVED]
    assert not any(level.proved for level in result.levels)
    assert result.stop is Stop.TIME_LIMIT


# ------------------------------------------------------------------ what priority promises


def heaviest_unserved(instance: Instance, unserved: Mapping[str, Fraction]) -> Fraction:
    """Return what the heaviest jobs lack in all, Mbit/s."""
    heaviest = max(each.weight for each in instance.jobs)
    return sum((unserved[each.name] for each in instance.jobs if each.weight == heaviest), ZERO)


def of_classes(instance: Instance, weights: tuple[int, ...]) -> Instance:
    """Return the jobs with these weights in turn."""
    return instance.replace(
        jobs=tuple(
            each.model_copy(update={"weight": weights[index % len(weights)]})
            for index, each in enumerate(instance.jobs)
        )
    )


@given(contested())
@settings(max_examples=30)
def test_weights_that_outweigh_everything_serve_the_heaviest_if_that_can_be(
    drawn: Instance,
) -> None:
    # In a hyperperiod a lighter job cannot lack more than it sends in every slot; a heaviest one
    # lacks 1 Mbit/s in one slot, or nothing.
    hyperperiod = math.lcm(*drawn.hyperperiods.values())
    worst = sum(10 * each.peak * flows for each in drawn.jobs for flows in each.links.values())
    instance = of_classes(drawn, (hyperperiod * worst + 1, 10, 1))
    can_be = any(heaviest_unserved(instance, each.unserved) == 0 for each in evaluations(instance))
    result = solve(instance, workers=1)
    assert result.status is Status.OPTIMAL
    assert (heaviest_unserved(instance, result.evaluation.unserved) == 0) == can_be
    # The same is known from the heaviest alone: all others give way to them.
    alone = solve(of_classes(drawn, (1, 0, 0)), workers=1)
    assert (alone.objective == 0) == can_be


@given(contested(), st.permutations(("latency", "wait", "moves", "cushion")), st.integers(0, 2))
@settings(max_examples=30)
def test_strict_priority_serves_class_after_class(
    drawn: Instance, later: list[str], count: int
) -> None:
    instance = of_classes(drawn, (100, 10, 1))
    classes = sorted({each.weight for each in instance.jobs}, reverse=True)
    judged = evaluations(instance)

    def lacking(each: Evaluation) -> list[Fraction]:
        """Return what each class and those above it lack, then the later objectives."""
        ranks = [
            sum((each.unserved[one.name] for one in instance.jobs if one.weight >= weight), ZERO)
            for weight in classes
        ]
        return [*ranks, *(cost(name, each.objectives[name]) for name in later[:count])]

    result = solve(instance, objectives=["contention", *later[:count]], strict=True, workers=1)
    assert costs(result.levels) == lacking(result.evaluation) == min(map(lacking, judged))
    assert [level.name for level in result.levels[len(classes) :]] == later[:count]
    assert all(level.proved for level in result.levels)
    assert check(instance, result.schedule) == ()


def test_a_hundred_times_the_weight_is_not_priority_at_any_price() -> None:
    """Two heavy jobs give up 1 Mbit/s each, so that a light one does not lack 51."""
    instance = network(
        job("a", 4, (0, 2, 51), weight=100),
        job("b", 4, (0, 2, 51), weight=100),
        job("c", 4, (0, 2, 100), weight=10),
    )
    result = solve(instance, workers=1)
    # Together a and b lack 2 in 2 of 4 slots, and c has the other two for itself.
    assert result.objective == Fraction(100 * 2 * 2, 4)
    assert heaviest_unserved(instance, result.evaluation.unserved) == 1
    # Side by side they lack nothing, and c 51 in both of its slots.
    apart = evaluate(instance, {"a": 0, "b": 2, "c": 0})
    assert apart.contention == Fraction(10 * 51 * 2, 4)
    assert heaviest_unserved(instance, apart.unserved) == 0
    strict = solve(instance, strict=True, workers=1)
    assert strict.objective == apart.contention
    assert [level.value for level in strict.levels] == [0, Fraction(51 * 2, 4)]


@pytest.mark.parametrize(
    "asked",
    [
        {"weights": {"contention": "1e400"}},
        {"weights": {"contention": "1e99999999"}},
        {"epsilon": {"contention": 10**50}},
        {"tolerance": {"contention": "1" * 60}, "objectives": ["contention", "wait"]},
    ],
)
def test_numbers_that_nobody_means_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"40 digits or fewer"):
        solve(HARMLESS, workers=1, **asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": {"contention": "1e30"}},
        {"epsilon": {"wait": "1e20"}, "objectives": ["wait", "moves"]},
        {"tolerance": {"wait": "1e23"}, "objectives": ["wait", "moves"]},
        {"weights": {"contention": "1e-30", "wait": 1}},
        {"weights": {"moves": "1e30", "wait": 1}},
        {
            "weights": {
                "moves": "1/1000000007",
                "wait": "1/1000000009",
                "contention": "1/998244353",
                "latency": "1/999999937",
            }
        },
    ],
)
def test_large_numbers_are_kept_or_honestly_given_up(asked: dict[str, Any]) -> None:
    found = solve(HARMLESS, workers=1, **asked)
    assert check(HARMLESS, found.schedule) == ()


def test_a_callback_hears_of_every_level_and_can_end_all() -> None:
    heard: list[str] = []

    def note(event: Event) -> bool:
        heard.append(event.source)
        return bool(event.source == "moves")

    found = solve(HARMLESS, objectives=["wait", "moves", "cushion"], callback=note, workers=1)
    assert heard[0] == "wait"
    assert heard[-1] == "moves"
    assert found.stop is Stop.CALLBACK
    assert [level.proved for level in found.levels] == [True, False, False]


HARMLESS = network(
    job("a", 6, (0, 3, 60), weight=4, current_offset=1),
    job("b", 6, (1, 2, 60), ready=2),
    job("c", 4, (0, 1, 50)),
)


def test_a_reserve_that_no_burst_can_fill_is_refused() -> None:
    assert solve(HARMLESS, cushion_slots=6, workers=1).schedule.cushion_slots == 6
    with pytest.raises(InputError, match=r"^cushion_slots: 7 is more .* longest period is 6 slots"):
        solve(HARMLESS, cushion_slots=7, workers=1)
