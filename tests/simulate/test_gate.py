"""Paced jobs that yield take the slots that the gate gives to jobs that run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.gate.plan import Claim, SlotPlan
from metronome_opt.instance import Instance
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Lateness, Pattern, Runner, Slot
from tests.simulate.whole import SLOT, meeting
from tests.slots import CASES, Case
from tests.tiers import examples


def begun(case: Case) -> list[float]:
    """Return when bursts begin if the link is as wide as makes each as long as it is to be."""
    volume = math.lcm(*case.lengths)
    computing = tuple(Fraction(time) for time in (*case.compute, 0))
    bursts = (Fraction(volume),) * len(case.starts)
    runner = Runner("a", Pattern(computing, bursts, bursts), 1, None, 1)
    engine = Engine({"link": volume}, [runner], watched=["link"])
    engine.enter(0, {"link": 1}, at=0.0)
    engine.run(0.0)
    planned = case.taken[0] - case.starts[0]
    starts = tuple(float(start) for start in case.starts)
    slot = Slot(case.period, case.cushion, Lateness.YIELD, 0, starts)
    engine.assign(0, slot, float(planned + case.period))
    now = 0.5  # between any two whole moments
    for count, length in enumerate(case.lengths, start=1):
        engine._world.links["capacity"] = volume / length
        while engine.carried()[0] < count * volume:
            engine.run(now)
            now += 1.0
    engine.run(float(case.begins[-1]))
    trace = engine.trace()
    return [float(time) for time in trace[trace["rate_mbps"] > 0]["time_ms"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bursts_begin_when_it_was_worked_out(case: Case) -> None:
    assert begun(case) == list(case.begins)


# ------------------------------------------------------------------ many jobs


@dataclass
class _Sent:
    """When the bursts of a job began and ended."""

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)


@st.composite
def claimed(draw: st.DrawFn, instance: Instance) -> tuple[int, tuple[Claim, ...]]:
    """Draw claims that have little to do with what jobs do, in parts of a slot."""
    parts = draw(st.sampled_from((1, 2, 4)))
    made = []
    for each in instance.jobs:
        first = parts * min(phase.start for phase in each.phases)
        period = draw(st.integers(first + len(each.phases), first + 10 * parts))
        size = len(each.phases)
        starts = draw(st.sets(st.integers(first, period - 1), min_size=size, max_size=size))
        offset = draw(st.integers(0, 8 * parts))
        # The first burst is ready in time for its slot, and not for the one before it.
        cushion = draw(st.integers(0, period - 1 - (min(starts) - first)))
        made.append(Claim(offset, period, tuple(sorted(starts)), cushion))
    return parts, tuple(made)


@examples(200)
@given(st.data(), meeting(min_jobs=1), st.integers(1, 5))
def test_bursts_take_the_slots_of_the_gate(
    data: st.DataObject, instance: Instance, iterations: int
) -> None:
    parts, claims = data.draw(claimed(instance))
    unit = SLOT // parts
    patterns = [Pattern.of_job(each, SLOT) for each in instance.jobs]
    engine = Engine(
        {"link": instance.links[0].capacity},
        [
            Runner(each.name, pattern, 1, iterations, 1)
            for each, pattern in zip(instance.jobs, patterns, strict=True)
        ],
        watched=["link"],
    )
    for index, claim in enumerate(claims):
        starts = tuple(float(start * unit) for start in claim.starts_ns)
        slot = Slot(claim.period_ns * unit, claim.cushion_ns * unit, Lateness.YIELD, 0, starts)
        engine.enter(index, {"link": 1}, at=float(claim.offset_ns * unit), slot=slot)
    for _ in claims:
        engine.run(math.inf)
    sent = sent_bursts(engine, [each.name for each in instance.jobs])
    for pattern, claim, each in zip(patterns, claims, sent, strict=True):
        assume(all(time.is_integer() for time in (*each.begins, *each.ends)))
        scaled = Claim(
            claim.offset_ns * unit,
            claim.period_ns * unit,
            tuple(start * unit for start in claim.starts_ns),
            claim.cushion_ns * unit,
        )
        assert each.begins == gated(scaled, pattern, each.ends)


def sent_bursts(engine: Engine, names: list[str]) -> list[_Sent]:
    """Read in the trace when bursts began and ended."""
    found = {name: _Sent() for name in names}
    trace = engine.trace()
    rows = zip(trace["job"], trace["time_ms"].tolist(), trace["rate_mbps"], strict=True)
    for name, time, rate in rows:
        bursts = found[name]
        if rate == 0.0:
            bursts.ends.append(time)
        elif len(bursts.begins) == len(bursts.ends):
            bursts.begins.append(time)
    return [found[name] for name in names]


def gated(claim: Claim, pattern: Pattern, ends: list[float]) -> list[int]:
    """Return when the gate lets bursts begin that end so."""
    plan = SlotPlan(claim)
    ready = claim.offset_ns + int(pattern.compute[0])
    begins = []
    for end in ends:
        begins.append(plan.take(ready)[0])
        computing = pattern.compute[plan.phase]
        if not plan.phase:
            computing += pattern.compute[-1]
        ready = int(end) + int(computing)
    return begins
