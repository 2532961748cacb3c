"""Simulated jobs take the windows that the gate gives to training loops."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.engine.jobs import WindowSchedule
from metronome_opt.gate.windows import Claim, WindowTracker
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario.iteration import Iteration
from tests.builders import iteration_of
from tests.simulation.runs import finish, running
from tests.simulation.whole import CAPACITY, SLOT, meeting
from tests.slots import CASES, Case
from tests.tiers import examples

if TYPE_CHECKING:
    import pandas as pd


def begun(case: Case) -> list[float]:
    """Return when bursts begin on a link whose capacity gives each burst its length."""
    volume = math.lcm(*case.lengths)
    computing = tuple(Fraction(time) for time in (*case.compute, 0))
    bursts = (Fraction(volume),) * len(case.starts)
    pattern = iteration_of(computing, bursts, bursts)
    engine = running(pattern, iterations=None, capacity=volume, watched=["link"])
    engine.run(0.0)
    assert case.taken[0] is not None
    planned = case.taken[0] - case.starts[0]
    starts = tuple(float(start) for start in case.starts)
    slot = WindowSchedule(case.period, case.cushion, 0, starts)
    engine.set_windows(0, slot, float(planned + case.period))
    now = 0.5  # between any two whole moments
    for count, length in enumerate(case.lengths, start=1):
        engine._state.links["capacity"] = volume / length
        while engine.carried()[0] < count * volume:
            engine.run(now)
            now += 1.0
    engine.run(float(case.begins[-1]))
    trace = engine.trace()
    return [float(time) for time in trace[trace["rate_mbps"] > 0]["time_ms"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bursts_begin_as_in_table(case: Case) -> None:
    assert begun(case) == list(case.begins)


@st.composite
def claimed(draw: st.DrawFn, instance: Instance) -> tuple[Claim, ...]:
    """Draw claims that do not fit the jobs, in parts of a slot."""
    parts = draw(st.sampled_from((1, 2, 4)))
    unit = SLOT // parts
    made = []
    for each in instance.jobs:
        first = parts * min(phase.start for phase in each.phases)
        period = draw(st.integers(first + len(each.phases), first + 10 * parts))
        size = len(each.phases)
        starts = draw(st.sets(st.integers(first, period - 1), min_size=size, max_size=size))
        offset = draw(st.integers(0, 8 * parts))
        # The first burst is ready in time for its window, and not for the one before it.
        cushion = draw(st.integers(0, period - 1 - (min(starts) - first)))
        due = tuple(start * unit for start in sorted(starts))
        made.append(Claim(offset * unit, period * unit, due, cushion * unit))
    return tuple(made)


@examples(200)
@given(st.data(), meeting(min_jobs=1), st.integers(1, 5))
def test_bursts_take_slots_of_gate(
    data: st.DataObject, instance: Instance, iterations: int
) -> None:
    claims = data.draw(claimed(instance))
    patterns = [Iteration.of_job(each, SLOT) for each in instance.jobs]
    engine = running(
        *patterns,
        starts=[float(claim.offset_ns) for claim in claims],
        windows=[
            WindowSchedule(claim.period_ns, claim.cushion_ns, 0, claim.starts_ns)
            for claim in claims
        ],
        iterations=iterations,
        capacity=CAPACITY,
        watched=["link"],
    )
    finish(engine)
    trace = engine.trace()
    for runner, claim in zip(engine.jobs, claims, strict=True):
        begins, ends = sent_bursts(trace[trace["job"] == runner.name])
        assume(all(time.is_integer() for time in (*begins, *ends)))
        assert begins == gated(claim, runner.pattern, ends)


def sent_bursts(trace: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return when the bursts of the job of a trace begin and end."""
    begins: list[float] = []
    ends: list[float] = []
    for time, rate in zip(trace["time_ms"].tolist(), trace["rate_mbps"], strict=True):
        if rate == 0.0:
            ends.append(time)
        elif len(begins) == len(ends):
            begins.append(time)
    return begins, ends


def gated(claim: Claim, pattern: Iteration, ends: list[float]) -> list[int]:
    """Return when the gate lets bursts with these ends begin."""
    plan = WindowTracker(claim)
    ready = claim.offset_ns + int(pattern.pauses[0])
    begins = []
    for end in ends:
        begins.append(plan.take(ready)[0])
        computing = pattern.pauses[plan.phase]
        if not plan.phase:
            computing += pattern.pauses[-1]
        ready = int(end) + int(computing)
    return begins
