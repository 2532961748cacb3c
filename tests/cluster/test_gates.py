"""What gates count, as observations: numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from metronome_opt.cluster.findings import correct_claims, find_differences
from metronome_opt.cluster.gates import Beliefs, GateCounter, Observation, observe_gates
from metronome_opt.slowdown.claims import Claims
from tests.builders import job, network
from tests.cluster.states import counters

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
    return Claims(instance, 6000, stretch={"a": 10}, gated={"a": gated})


def observe(
    claimed: Claims, counted: Mapping[str, float], **notified_s: float
) -> Observation | str:
    """Return what is observed at 100 s of counters that grew for ten seconds."""
    growing = counters({"a": counted}, 90.0, 10)
    found = observe_gates(claimed, growing, now_s=100.0, for_s=10.0, notified_s=notified_s)
    return found["a"]


def observed(claimed: Claims, counted: Mapping[str, float]) -> Observation:
    seen = observe(claimed, counted)
    assert isinstance(seen, Observation)
    return seen


def test_an_iteration_is_computing_sending_and_waiting() -> None:
    claimed = claims((130, 60, 100))
    seen = observed(claimed, COUNTED)
    assert seen.period_ms == pytest.approx(200)
    assert seen.own_ms == pytest.approx(190)
    assert seen.burst_ms == pytest.approx(60)
    assert seen.claimed_ms == pytest.approx(60)


def test_of_a_job_without_slots_the_fastest_bursts_count() -> None:
    seen = observed(claims((130, 60, 100), gated=False), {**COUNTED, "waited_seconds": 0.0})
    assert seen.burst_ms == pytest.approx(50)
    assert seen.own_ms == pytest.approx(140 + 50)
    assert seen.alone


def test_a_job_that_computes_less_keeps_the_slot_of_its_burst() -> None:
    claimed = claims((130, 60, 100))
    # It computed for 110 ms.
    seen = {"a": observed(claimed, {**COUNTED, "waited_seconds": 1.5, "fastest_seconds": 0.0})}
    findings = find_differences(claimed, seen)
    assert "period" in {each.kind for each in findings}
    corrected, _ = correct_claims(claimed, findings, seen)
    (phase,) = corrected.instance.job("a").phases
    assert phase.start == 110
    # Claimed is a burst at 130 ms of iterations that begin at 20 ms.
    assert corrected.offsets["a"] + phase.start == 20 + 130


def test_too_few_or_too_early_iterations_tell_nothing() -> None:
    claimed = claims((130, 60, 100))
    few = {name: value / 10 for name, value in COUNTED.items()}
    assert observe(claimed, few) == "5 iterations only; at least 8 are needed"
    none = "no bursts were counted by its gates"
    assert observe(claimed, dict.fromkeys(COUNTED, 0.0)) == none
    # Eight periods after it was notified two and a half seconds are left, twelve iterations.
    assert isinstance(observe(claimed, COUNTED, a=95.9), Observation)
    assert observe(claimed, COUNTED, a=98.5) == none


def test_a_counter_that_begins_anew_loses_nothing_but_the_step() -> None:
    times, values = np.arange(5.0), np.array([10.0, 12, 1, 4, 4])
    counter = GateCounter("a", "bursts", times, values)
    assert [counter.increase(since) for since in (0.0, 1.0, 2.5)] == [5, 3, 0]


# It computes for 130 ms as before, and is late: bursts take 90 ms, of the fastest 80 ms.
LATE = COUNTED | {
    "iteration_seconds": 12.5,
    "burst_seconds": 4.5,
    "waited_seconds": 1.5,
    "fastest_seconds": 3 * 0.08,
}


def believed_ms(beliefs: Beliefs, counted: Mapping[str, float], *, tried: bool) -> float:
    claimed = claims((130, 60, 100))
    believed = beliefs.of(claimed, {"a": observed(claimed, counted)}, tried=tried)["a"]
    assert believed.claimed_ms == pytest.approx(60)  # it sends as much as it claims
    assert believed.own_ms == pytest.approx(130 + believed.burst_ms)
    return believed.burst_ms


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
