"""Shares grow with what an iteration has sent, as under MLTCP."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.engine.conditions import Growth, TcpShares
from metronome_opt.engine.engine import Engine
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation.policies import find_policy
from tests.builders import iteration_of
from tests.simulation.runs import finish, running

# 60 ms of computing, then 40 ms at all that the link carries.
STEP = iteration_of((Fraction(60), Fraction(0)), (Fraction(4000),), (Fraction(100),))
# The same in two bursts, with 20 ms between them.
TWICE = iteration_of(
    (Fraction(60), Fraction(20), Fraction(0)), (Fraction(2000),) * 2, (Fraction(100),) * 2
)
GROWTH = Growth(slope=4, intercept=0.25)
HALVED = TcpShares(spread=0.0, newcomer=0.5)


def together(after: float, growth: Growth | None, iterations: int = 1) -> list[list[float]]:
    """Return the iteration times of a job, and of an equal one that begins later."""
    starts = (0, after)
    return finish(running(STEP, STEP, starts=starts, growth=growth, iterations=iterations))


def rates(engine: Engine, time: float) -> dict[str, float]:
    """Return the rates on the link at a moment, by job."""
    trace = engine.trace()
    before = trace[trace["time_ms"] <= time]
    return dict(zip(before["job"], before["rate_mbps"], strict=True))


@pytest.mark.parametrize(("sharing", "newcomer"), [("fair", 1), ("tcp", 0.5)])
@pytest.mark.parametrize("pattern", [STEP, TWICE])
def test_share_half_way_through_an_iteration(
    sharing: str, newcomer: float, pattern: Iteration
) -> None:
    """Steps in their middle: 4 * 8.5 / 16 + 0.25 = 2.375, half sent; nothing: 4 * 0.5 / 16 + 0.25.

    Tcp halves the latter.
    """
    begins = 20 if pattern is STEP else 40  # 60 ms earlier than the other is at its half
    engine = running(
        *(pattern, STEP),
        starts=(0, begins),
        sharing=sharing,
        tcp=HALVED,
        growth=GROWTH,
        watched=["link"],
    )
    engine.run(60 + begins + 0.001)
    mine, other = 2.375, 0.375 * newcomer
    assert rates(engine, 60 + begins + 0.001) == pytest.approx(
        {"a": 100 * mine / (mine + other), "b": 100 * other / (mine + other)}
    )


@pytest.mark.parametrize("after", [5, 10, 20, 35])
def test_bursts_that_meet_go_by_steps_of_what_they_have_sent(after: int) -> None:
    """Weighted alike, both pass time at the same speed: a step of weight F takes 1 / F of it."""
    weights = [Fraction(2 * step + 1, 8) + Fraction(1, 4) for step in range(16)]
    sent = Fraction(after, 40) * 16  # by a before b begins, in steps
    steps = [min(Fraction(1), max(Fraction(0), step + 1 - sent)) for step in range(16)]
    left = sum((part / each for part, each in zip(steps, weights, strict=True)), Fraction(0))
    other = Fraction(0)  # by b until a ends
    for weight in weights:
        part = min(Fraction(1), left * weight)
        other, left = other + part, left - part / weight
    end = 60 + float((16 + other) / 16 * 40)
    assert together(after, GROWTH) == [[pytest.approx(end)], [pytest.approx(140 - after)]]


@pytest.mark.parametrize(("slope", "intercept"), [(4.0, 0.25), (1.75, 0.25), (1.0, 1.0)])
@pytest.mark.parametrize("after", [2, 5, 10, 20])
def test_jobs_shift_as_published(after: int, slope: float, intercept: float) -> None:
    """Slope d (aT - d) / (aT Intercept + d Slope): by so much do two equal jobs come apart.

    They burst for aT = 40 ms, d apart. The equation knows no steps; one takes 2.5 ms here.
    """
    growth = find_policy(f"mltcp:slope={slope}:intercept={intercept}", 0).growth
    shift = slope * after * (40 - after) / (40 * intercept + after * slope)
    first, second = together(after, growth)
    assert second[0] - first[0] == pytest.approx(shift, rel=0.1 if after < 2.5 else 0.025)


def test_jobs_come_apart_that_fair_sharing_keeps_together() -> None:
    """Under fair sharing each begins 1 ms after the other for ever, and 38 ms are shared."""
    fair, grown = together(1, None, 50), together(1, GROWTH, 50)
    assert min(map(min, fair)) >= 139
    for times in grown:
        assert max(times[:2]) > 130
        assert times[8:] == pytest.approx([100] * 42, abs=0.01)


@pytest.mark.parametrize(
    ("other", "links", "starts"), [(TWICE, ["one", "two"], (0, 0)), (STEP, None, (0, 50))]
)
def test_bursts_that_meet_none_are_as_without_growth(
    other: Iteration, links: list[str] | None, starts: tuple[float, float]
) -> None:
    """Also to the number of events: on links of their own, or one after the other."""
    runs = [
        running(STEP, other, links=links, starts=starts, iterations=5, growth=growth)
        for growth in (None, GROWTH)
    ]
    assert finish(runs[1]) == finish(runs[0])
    assert runs[1].events == runs[0].events


def test_events_are_bounded() -> None:
    """No burst has more than 16 steps; each iteration ends computing and a burst."""
    engine = running(*[STEP] * 3, starts=(0, 3, 8), iterations=20, growth=GROWTH)
    finish(engine)
    assert engine.events <= 3 * (1 + 20 * (2 + 16))
