"""What gates count, as observations: numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from immutabledict import immutabledict
from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Kind, detect, put_right
from metronome_opt.control.observation import Observation

from metronome_opt.control.gates import Beliefs, observe_gates
from metronome_opt.profiles import Samples
from tests.builders import job, network

_MBIT = 8e-6  # per byte

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
    "fastest_seconds": 3 * 0.05,
}


def claims(*bursts: tuple[int, int, int], gated: bool = True) -> Claims:
    """Return the claim of a job of 190 ms with 10 ms of idle time, in slots of a millisecond."""
    instance = network(job("a", 190, *bursts, current_offset=20, max_stretch=10)).replace(slot_ms=1)
    return Claims(instance, stretch={"a": 10}, gated={"a": gated})


def counters(counted: Mapping[str, float], begin_s: float = 90.0) -> Any:
    """Return what reads counters that grow evenly over ten seconds, once a second."""
    times = np.arange(begin_s + 1, begin_s + 11)

    def read(_: str, first_s: float, last_s: float) -> Mapping[Any, Samples]:
        inside = (times - 1 >= first_s) & (times <= last_s)
        return {
            immutabledict({"__name__": f"metronome_gate_{name}_total", "job": "a"}): Samples(
                times[inside], np.full(inside.sum(), value / 10 * _MBIT), np.ones(inside.sum())
            )
            for name, value in counted.items()
        }

    return read


def observe(claimed: Claims, counted: Mapping[str, float], **told_s: float) -> Observation | str:
    read = counters(counted)
    return observe_gates(claimed, read, now_s=100.0, for_s=10.0, told_s=told_s)["a"]


def test_an_iteration_is_taken_apart_into_computing_sending_and_waiting() -> None:
    seen = observe(claims((130, 60, 100)), COUNTED)
    assert isinstance(seen, Observation)
    (burst,) = seen.bursts or ()
    assert seen.period_ms == pytest.approx(200)
    assert seen.own_ms == pytest.approx(190)
    assert (burst.start_ms, burst.length_ms, burst.rate_mbps) == pytest.approx((130, 60, 100))
    # The first iteration that is due after 100 s begins at its offset of 20 ms.
    assert seen.origin_ms == pytest.approx(100_000 + 20 + 1)


def test_several_bursts_of_an_iteration_grow_alike() -> None:
    # Claimed are bursts of 20 and 40 ms after 30 and 50 ms of computing, and 50 ms at the end.
    counted = {**COUNTED, "bursts": 100.0, "burst_seconds": 4.5, "waited_seconds": 0.0}
    seen = observe(claims((30, 20, 150), (100, 40, 75)), counted)
    assert isinstance(seen, Observation)
    # Bursts take 90 ms instead of 60, computing 110 ms instead of 130.
    shrunk = 110 / 130
    bursts = [(burst.start_ms, burst.length_ms) for burst in seen.bursts or ()]
    assert bursts[0] == pytest.approx((30 * shrunk, 30))
    assert bursts[1] == pytest.approx((80 * shrunk + 30, 60))


def test_of_a_job_without_slots_the_fastest_bursts_count() -> None:
    seen = observe(claims((130, 60, 100), gated=False), {**COUNTED, "waited_seconds": 0.0})
    assert isinstance(seen, Observation)
    (burst,) = seen.bursts or ()
    assert burst.length_ms == pytest.approx(50)
    assert seen.own_ms == pytest.approx(140 + 50)
    assert seen.origin_ms is None


def test_a_job_that_computes_less_keeps_the_slot_of_its_burst() -> None:
    claimed = claims((130, 60, 100))
    counted = {**COUNTED, "waited_seconds": 1.5, "fastest_seconds": 0.0}  # it computed for 110 ms
    seen = observe(claimed, counted)
    assert isinstance(seen, Observation)
    found = detect(claimed, {"a": seen})
    assert {each.kind for each in found} >= {Kind.PERIOD}
    right, _ = put_right(claimed, found, {"a": seen}, {})
    (phase,) = right.instance.job("a").phases
    assert phase.start == 110
    # Claimed is a burst at 130 ms of iterations that begin at 20 ms.
    assert right.offsets["a"] + phase.start == 20 + 130


def test_what_is_too_little_or_from_before_says_nothing() -> None:
    claimed = claims((130, 60, 100))
    few = {name: value / 10 for name, value in COUNTED.items()}
    assert observe(claimed, few) == "5 iterations only; they have to be 8"
    assert observe(claimed, dict.fromkeys(COUNTED, 0.0)) == "its gates told Prometheus nothing"
    # Eight periods after it was told its slots two and a half seconds are left, twelve iterations.
    seen = observe(claimed, COUNTED, a=95.9)
    assert isinstance(seen, Observation)
    assert observe(claimed, COUNTED, a=97.5) == "its gates told Prometheus nothing"


# It computes for 130 ms as before, and is late: bursts take 90 ms, of the fastest 80 ms.
LATE = COUNTED | {
    "iteration_seconds": 12.5,
    "burst_seconds": 4.5,
    "waited_seconds": 1.5,
    "fastest_seconds": 3 * 0.08,
}


def believed_ms(beliefs: Beliefs, counted: Mapping[str, float], *, tried: bool) -> float:
    claimed = claims((130, 60, 100))
    seen = observe(claimed, counted)
    assert isinstance(seen, Observation)
    believed = beliefs.of(claimed, {"a": seen}, tried=tried)["a"]
    (burst,) = believed.bursts or ()
    assert burst.length_ms * burst.rate_mbps == pytest.approx(6000)  # as much as it sends
    assert believed.own_ms == pytest.approx(130 + burst.length_ms)
    return burst.length_ms


def test_a_job_out_of_its_slots_is_believed_to_burst_as_before_until_slots_were_tried() -> None:
    beliefs = Beliefs()
    assert believed_ms(beliefs, LATE, tried=False) == pytest.approx(60)  # as it claims
    assert believed_ms(beliefs, LATE, tried=True) == pytest.approx(80)
    assert believed_ms(beliefs, LATE, tried=False) == pytest.approx(80)
    shorter = COUNTED | {"burst_seconds": 2.5, "waited_seconds": 1.0}
    assert believed_ms(beliefs, shorter, tried=False) == pytest.approx(50)  # in its slots
    assert believed_ms(beliefs, LATE, tried=False) == pytest.approx(50)
    beliefs.forget("a")
    assert believed_ms(beliefs, LATE, tried=False) == pytest.approx(60)
