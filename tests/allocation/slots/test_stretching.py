"""Periods are stretched as far as it pays and is allowed, and files state how far."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import lcm
from random import Random
from typing import Any

import pytest

from metronome_opt import allocate
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule
from metronome_opt.verify import verify_schedule
from tests.allocation.slots.cases import (
    ALTERNATING,
    TIGHT,
    UNEVEN,
    assert_sound,
    gated_jobs,
    minimum,
    value_of,
)
from tests.builders import job, network


def stretchable(slots: int) -> Instance:
    return UNEVEN.replace(
        jobs=tuple(each.model_copy(update={"max_stretch": slots}) for each in UNEVEN.jobs)
    )


@pytest.mark.parametrize(
    ("slots", "limit"),
    [pytest.param(1, None, marks=pytest.mark.slow), (3, None), (1, "20%"), (9, "5%")],
)
def test_jobs_are_stretched_within_both_limits(slots: int, limit: str | None) -> None:
    result = minimum(stretchable(slots), stretch_limit=limit)
    assert_sound(result, "a b", within_loss=True)
    assert result.stretch == {"a": 1, "b": 0}  # enough for both, and 5 % of 20 slots
    assert value_of(result) <= Fraction(107, 100)
    assert result.schedule.stretch_limit is None


@pytest.mark.parametrize("slots", [0, 3])
def test_a_limit_of_0_forbids_to_stretch(slots: int) -> None:
    result = minimum(stretchable(slots), stretch_limit=0)
    assert_sound(result)
    assert set(result.stretch.values()) == {0}
    assert gated_jobs(result) == ""


def test_jobs_are_stretched_as_far_as_it_pays() -> None:
    # 36 and 38 of 80 slots: 6 are idle.
    pair = network(*(job(n, 80, (0, m, 100), jitter=0.01) for n, m in (("a", 36), ("b", 38))))
    result = minimum(pair)
    assert_sound(result, "a b", within_loss=True)
    assert value_of(result) <= Fraction(1015, 1000)
    assert max(result.stretch.values()) <= 1  # two slots alone are 2.5 %


@pytest.mark.slow
@pytest.mark.parametrize("shared", [None, "tcp"])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4, 5))]
)
def test_larger_limit_is_never_worse(shared: str | None, seed: int) -> None:
    draw = Random(seed)
    jobs = []
    for name in "abc"[: draw.randint(2, 3)]:
        period = draw.randint(30, 60)
        burst = (0, draw.randint(period // 5, period // 2), 100)
        jobs.append(job(name, period, burst, weight=draw.randint(1, 3)))
    values = []
    for limit in (0, "3%", "10%", "20%", None):
        result = minimum(network(*jobs), stretch_limit=limit, network=shared)
        assert_sound(result)
        values.append(value_of(result) or 0)
    assert all(more <= less for less, more in pairwise(values))


def test_stretch_limit_allows_more_and_is_stated() -> None:
    result = minimum(UNEVEN, stretch_limit="20%")
    assert_sound(result, "a b", within_loss=True)
    assert 1 <= result.stretch["a"] <= 4
    assert result.schedule.stretch_limit == Fraction(result.stretch["a"], 20)
    document = result.schedule.to_dict()
    assert verify_schedule(UNEVEN, Schedule.from_dict(document)) == ()
    del document["stretch_limit"]
    faults = verify_schedule(UNEVEN, Schedule.from_dict(document))
    assert {fault.location for fault in faults} == {
        f"stretch.{name}" for name, slots in result.stretch.items() if slots
    }


@pytest.mark.parametrize(("limit", "shared"), [(20, "tcp"), (41, "fair")])
def test_stretched_jobs_keep_hyperperiod_limit(limit: int, shared: str) -> None:
    limited = Instance.from_dict(TIGHT.to_dict(), hyperperiod_limit=limit)
    options: dict[str, Any] = {"stretch_limit": "20%", "network": shared}
    assert_sound(allocate(limited, time_limit=None, threads=1, **options))


@pytest.mark.slow
def test_groups_on_wide_link_keep_hyperperiod_limit() -> None:
    # With a slot of room each those on "x" fit into 20 slots, those on "y" into 21. On the link in
    # the middle 20 slots of some, and 20 and 19 of others come to 380, but 20 and 21 to 420.
    lengths = {"x": (9, 9), "y": (9, 10)}
    wide = network(
        *(
            job(f"{link}{n}", period, (0, length, 100), links={link: 1, "middle": 1}, jitter=0.005)
            for link, each in lengths.items()
            for n, (length, period) in enumerate(zip(each, (20, 19), strict=True))
        ),
        x=100,
        y=100,
        middle=1000,
    )
    options: dict[str, Any] = {"time_limit": None, "threads": 1, "stretch_limit": "20%"}
    for limit, hyperperiods in ((1_000_000, {420}), (400, range(401))):
        limited = allocate(Instance.from_dict(wide.to_dict(), hyperperiod_limit=limit), **options)
        assert_sound(limited, "x0 x1 y0 y1")
        periods = (each.period + limited.stretch[each.name] for each in wide.jobs)
        assert lcm(*periods) in hyperperiods


@pytest.mark.slow
def test_coprime_periods_are_allowed() -> None:
    # Shares of 1 / 997, 1 / 991, ... have none that fits 64 bits.
    periods = (997, 991, 983, 977, 971, 967)
    count = len(periods)
    ring = network(
        *(
            job(f"j{n}", period, (0, 300, 100), links={f"l{n}": 1, f"l{(n + 1) % count}": 1})
            for n, period in enumerate(periods)
        ),
        **{f"l{n}": 100 for n in range(count)},
    )
    assert_sound(allocate(ring, time_limit=3, threads=1, stretch_limit="20%"))


@pytest.mark.parametrize("limit", [0, "0%", "4%", Fraction(0)])
def test_limit_below_one_slot_is_allowed(limit: str | Fraction) -> None:
    result = allocate(ALTERNATING, time_limit=None, threads=1, stretch_limit=limit)
    assert_sound(result)
    assert set(result.stretch.values()) == {0}
    assert result.schedule.stretch_limit is None
    assert result.offsets == minimum(ALTERNATING).offsets
