"""Jobs that hold each other up, from the event loop of the simulator to the decision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from metronome_opt.control import Decision, Kind, Monitor, Settings
from metronome_opt.control.inforce import carry_out, claims_of
from metronome_opt.control.reading import observation
from metronome_opt.profiles.samples import Samples, from_series
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.simulate import Conditions
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Pattern, Runner
from tests.control.wires import RATE, claim, state_of

END_MS = 40_000.0
AT_ONCE = Settings(persist=1)


def pattern(*, sends: float = 1.0, computes: float = 1.0, rate: int = RATE) -> Pattern:
    """Return what a job of `wires.claim` does, or one that claims something else than it does."""
    volume = Fraction(sends) * 300 * RATE
    return Pattern((Fraction(0), Fraction(computes) * 700), (volume,), (Fraction(rate),))


def decided(
    state: ClusterState, patterns: dict[str, Pattern], *, jitter: float = 0.002
) -> tuple[Decision, dict[str, Samples]]:
    """Let jobs run freely from their offsets on, and return what is decided in the end."""
    engine = Engine(
        {link.name: link.capacity for link in state.cluster.links},
        [Runner(job, patterns[job], 1, None, 2) for job in state.claims],
        conditions=Conditions(jitter=jitter),
        seed=5,
        watched=[link.name for link in state.cluster.links],
    )
    for index, (job, each) in enumerate(state.claims.items()):
        engine.enter(index, state.flows(job), at=5.0 * each.offset)
    engine.run(END_MS)
    sent = {job: _counted(engine, job) for job in state.claims}
    claims = claims_of(state)
    assert claims is not None
    seen = {job: observation(claims, job, samples) for job, samples in sent.items()}
    return Monitor(AT_ONCE).check(claims, seen, END_MS), sent


def _counted(engine: Engine, job: str) -> Samples:
    """Return the samples of a counter of bytes that is read every 20 ms."""
    trace = engine.trace()
    mine = trace[(trace["job"] == job) & (trace["link"] == "n0")]
    times = np.append(mine["time_ms"], END_MS)
    sent = np.append(0.0, np.cumsum(mine["rate_mbps"] * np.diff(times)))
    at = np.arange(times[0], END_MS, 20.0)
    return from_series(pd.Series(125 * np.interp(at, times, sent), index=at / 1000), counter=True)


def together() -> ClusterState:
    """Return two jobs that claim to be out of each other's way."""
    return state_of(claim("a", 0), claim("b", 100))


@pytest.mark.parametrize("offset", [0, 20, 40, 50])
def test_contention_moves_jobs_and_changes_no_claim(offset: int) -> None:
    claimed = together()
    before = {job: each.gang for job, each in claimed.claims.items()}
    # b begins elsewhere than it claims, in the middle of a, and both get later and later.
    running = state_of(claim("a", 0), claim("b", offset))
    _, sent = decided(running, {"a": pattern(), "b": pattern()})
    claims = claims_of(claimed)
    assert claims is not None
    seen = {job: observation(claims, job, samples) for job, samples in sent.items()}
    decision = Monitor(AT_ONCE).check(claims, seen, END_MS)
    assert decision.findings
    assert {each.kind for each in decision.findings} == {Kind.DRIFTED}
    carry_out(claimed, decision)
    for job, gang in before.items():
        after = claimed.claims[job]
        assert (after.gang.phases, after.gang.period, after.period) == (
            gang.phases,
            gang.period,
            200,
        )


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        (pattern(), set()),
        (pattern(sends=1.3, computes=1 - 0.3 * 3 / 7), {Kind.TRAFFIC}),
        (pattern(rate=600, computes=1 - 150 / 700), {Kind.TRAFFIC}),  # 450 instead of 300 ms
    ],
)
def test_what_a_job_changed_by_itself_is_found(changed: Pattern, kinds: set[Kind]) -> None:
    """Alone on its links: whoever keeps its period gets out of nobody's way."""
    decision, _ = decided(state_of(claim("a", 0)), {"a": changed})
    assert {each.kind for each in decision.findings} - {Kind.DRIFTED} == kinds


def test_longer_computing_is_found() -> None:
    decision, _ = decided(state_of(claim("a", 0)), {"a": pattern(computes=1.1)})
    (finding,) = decision.findings
    assert finding.kind is Kind.PERIOD
    assert finding.measured == pytest.approx(1070, rel=0.005)
