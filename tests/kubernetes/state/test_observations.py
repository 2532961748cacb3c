"""What gates count, as observations, and reservations corrected by them: values worked by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from metronome_opt.kubernetes.state.observations import (
    GateCounter,
    Observation,
    correct_reservation,
    observe_gates,
)
from metronome_opt.kubernetes.state.records import Gang, Reservation
from metronome_opt.problem.instance import Phase
from tests.kubernetes.state.states import counters

# In 50 iterations of 200 ms it computed for 130 ms, waited for 10 ms and sent for 60 ms, each time
# 0.75 MB, which is 6 Mbit; it was late by 1 ms.
COUNTED = {
    "iterations": 50.0,
    "iteration_seconds": 10.0,
    "bursts": 50.0,
    "burst_seconds": 3.0,
    "waited_seconds": 0.5,
    "late_seconds": 0.05,
    "sent_bytes": 50 * 750_000.0,
    "fastest_bytes": 3 * 750_000.0,
    "fastest_seconds": 3 * 0.06,
}


def claimed(*bursts: tuple[int, int], period: int = 190, stretch: int = 10) -> Reservation:
    """Return a reservation of 190 ms and 10 ms of idle time, in slots of a millisecond."""
    phases = tuple(Phase(start=start, length=length, rate=100) for start, length in bursts)
    gang = Gang(name="a", tasks=2, period=period, phases=phases, max_stretch=stretch)
    return Reservation(gang=gang, nodes=("n0", "n1"), offset=20, stretch=stretch)


def observe(counted: Mapping[str, float], **notified_s: float) -> Observation | str:
    """Return what is observed at 100 s of counters that grew for ten seconds."""
    growing = counters({"a": counted}, 90.0, 10)
    times = {"now_s": 100.0, "for_s": 10.0}
    held = {"a": claimed((130, 60))}
    return observe_gates(held, 1, lambda *_: growing, **times, notified_s=notified_s)["a"]


def test_an_iteration_is_computing_sending_and_waiting() -> None:
    seen = observe(COUNTED)
    assert isinstance(seen, Observation)
    assert (seen.period_ms, seen.own_ms, seen.burst_ms) == pytest.approx((200, 190, 60))


DELAYED = COUNTED | {"iteration_seconds": 11.0, "burst_seconds": 4.0, "fastest_seconds": 3 * 0.05}


@pytest.mark.parametrize(
    ("counted", "period_ms", "burst_ms"),
    [
        (COUNTED | {"fastest_seconds": 3 * 0.05}, 200, 60),  # in its windows it meets no other job
        (DELAYED, 220, 50),  # others delayed all bursts but the fastest ones
        (DELAYED | {"fastest_bytes": 0.0}, 220, 80),  # a gate began anew: nothing is known of them
        (DELAYED | {"sent_bytes": 0.0}, 220, 80),
    ],
)
def test_bursts_of_a_late_job_count_as_its_fastest(
    counted: Mapping[str, float], period_ms: float, burst_ms: float
) -> None:
    seen = observe(counted)
    assert isinstance(seen, Observation)
    assert (seen.period_ms, seen.burst_ms) == pytest.approx((period_ms, burst_ms))


@pytest.mark.parametrize(
    ("products", "differences", "jitter"),
    [
        (50 * 0.13**2, 50 * 2 * 0.0065**2, 0.05),  # of 130 ms by 6.5
        (50 * 0.13**2, 0.0, 0.0),
        (0.0, 0.0, None),  # an older gate
    ],
)
def test_jitter_is_observed_and_claimed(
    products: float, differences: float, jitter: float | None
) -> None:
    counted = {"computing_products": products, "computing_differences": differences}
    seen = observe(COUNTED | counted)
    assert isinstance(seen, Observation)
    assert seen.jitter == pytest.approx(jitter)
    reservation = claimed((130, 60))
    stated = reservation.model_copy(
        update={"gang": reservation.gang.model_copy(update={"jitter": 0.03})}
    )
    after = correct_reservation(stated, seen, 1, 1200)
    assert after is not None
    assert after.gang.job({}).jitter == (0.03 if jitter is None else seen.jitter)


def test_computing_times_that_vary_too_much_tell_nothing() -> None:
    counted = COUNTED | {"computing_products": 1.0, "computing_differences": 8.0}
    said = "its gates count computing times that vary by 200 %; 100 % can be"
    assert observe(counted) == said


def test_counters_beyond_all_bounds_tell_nothing() -> None:
    assert observe(COUNTED | {"burst_seconds": 1e307}) == "counts of its gates are too large"


def test_too_few_or_too_early_iterations_tell_nothing() -> None:
    few = {name: value / 10 for name, value in COUNTED.items()}
    assert observe(few) == "5 iterations only; at least 8 are needed"
    none = "no bursts were counted by its gates"
    assert observe(dict.fromkeys(COUNTED, 0.0)) == none
    # Eight periods after it was notified two and a half seconds are left, twelve iterations.
    assert isinstance(observe(COUNTED, a=95.9), Observation)
    assert observe(COUNTED, a=98.5) == none


def test_a_counter_that_begins_anew_loses_nothing_but_the_step() -> None:
    times, values = np.arange(5.0), np.array([10.0, 12, 1, 4, 4])
    counter = GateCounter("a", "bursts", times, values)
    assert [counter.increase(since) for since in (0.0, 1.0, 2.5)] == [5, 3, 0]


@pytest.mark.parametrize(
    ("computing_ms", "burst_ms", "waited_ms", "unlike", "late"),
    [
        (150, 50, 0, "", False),
        (152, 50, 0, "", False),  # half a slot
        (153, 50, 0, "period", False),
        (147, 50, 0, "period", False),
        (145, 55, 0, "", False),  # a slot longer
        (144, 56, 0, "bursts", False),
        (150, 44, 0, "period bursts", False),
        (150, 50, 4, "", False),  # 2 % late
        (150, 50, 5, "", True),
    ],
)
def test_what_is_beyond_its_tolerance_differs(
    computing_ms: float, burst_ms: float, waited_ms: float, unlike: str, late: bool
) -> None:
    reservation = claimed((0, 10), period=40, stretch=0)
    seen = Observation(computing_ms + burst_ms + waited_ms, computing_ms, burst_ms)
    lines = seen.differences(reservation, slot_ms=5)
    assert [line.split()[1] for line in lines] == unlike.split()
    assert seen.is_late(reservation, slot_ms=5) == late
    free = reservation.model_copy(update={"gated": False})
    assert not seen.is_late(free, slot_ms=5)
    assert seen.no_longer(reservation, slot_ms=5).burst_ms == min(burst_ms, 50)


def test_differences_that_are_within_the_error_are_none() -> None:
    seen = Observation(210.0, 160.0, 50.0, error_ms=10.0)
    assert seen.differences(claimed((0, 10), period=40, stretch=0), slot_ms=5) == []


@pytest.mark.parametrize(
    ("bursts", "seen_ms", "phases", "period", "stretch", "offset"),
    [
        # It computes for 110 ms, and keeps the window of its burst at 130 ms after 20.
        ([(130, 60)], (110, 60), [(110, 60)], 170, 30, 40),
        # It computes as long after each of two bursts, which grow alike.
        ([(0, 20), (100, 20)], (150, 80), [(0, 40), (120, 40)], 230, 10, 20),
        # 195 ms fit the 200 that it has.
        ([(130, 60)], (135, 60), [(135, 60)], 195, 5, 15),
        # The next divisor of 1200 after 230 is 240.
        ([(130, 60)], (170, 60), [(170, 60)], 230, 10, 220),
    ],
)
def test_reservations_are_as_measured(
    bursts: list[tuple[int, int]],
    seen_ms: tuple[float, float],
    phases: list[tuple[int, int]],
    period: int,
    stretch: int,
    offset: int,
) -> None:
    after = correct_reservation(claimed(*bursts), Observation(sum(seen_ms), *seen_ms), 1, 1200)
    assert after is not None
    assert [(phase.start, phase.length) for phase in after.gang.phases] == phases
    assert (after.gang.period, after.stretch, after.offset) == (period, stretch, offset)
    assert after.gang.max_stretch >= stretch


def test_an_iteration_longer_than_the_hyperperiod_is_no_reservation() -> None:
    assert correct_reservation(claimed((130, 60)), Observation(240, 180, 60), 1, 200) is None
