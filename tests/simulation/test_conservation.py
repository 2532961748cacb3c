"""Volume and limits of rates are conserved at every moment of a trace."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.engine.conditions import Growth
from metronome_opt.problem.instance import Instance, Job
from tests.simulation.runs import free_run
from tests.strategies import assigned, crowded
from tests.tiers import examples

if TYPE_CHECKING:
    import pandas as pd

SHARINGS = st.sampled_from(("fair", "strict", "weighted", "tcp"))
GROWTHS = st.sampled_from((None, Growth(slope=4.0, intercept=0.25)))
DRAWN = assigned(crowded(fixed=False))
ITERATIONS = 3
SLACK = 1e-9


@dataclass
class Moment:
    """Rates from `time` until the next moment, by link and job."""

    time: float
    rates: dict[tuple[str, str], float] = field(default_factory=dict)

    def flow(self, job: Job) -> float:
        """Return the rate of a flow; on every link of the job it is the same."""
        flows = [self.rates.get((link, job.name), 0.0) / count for link, count in job.links.items()]
        assert flows == pytest.approx([flows[0]] * len(flows), rel=SLACK)
        return flows[0]


def moments(trace: pd.DataFrame) -> list[Moment]:
    """Return the moments at which rates change; those a rounding apart are one."""
    seen = [Moment(0.0)]
    names = ("time_ms", "link", "job", "rate_mbps")
    for time, link, job, rate in zip(*(trace[name].tolist() for name in names), strict=True):
        assert rate >= 0
        assert time >= seen[-1].time
        if time > seen[-1].time + SLACK * time:
            seen.append(Moment(time, dict(seen[-1].rates)))
        seen[-1].rates[link, job] = rate
    return seen


def on_links(instance: Instance) -> list[Job]:
    return [job for job in instance.jobs if job.links]


@examples(150)
@given(DRAWN, SHARINGS, GROWTHS)
def test_bursts_carry_their_volume_within_their_rate(
    drawn: tuple[Instance, dict[str, int]], sharing: str, growth: Growth | None
) -> None:
    instance, _ = drawn
    seen = moments(free_run(*drawn, ITERATIONS, sharing, growth=growth).trace)
    for job in on_links(instance):
        bursts = [
            (phase.length * instance.slot_ms * phase.rate, phase.rate)
            for _ in range(ITERATIONS)
            for phase in sorted(job.phases, key=lambda phase: phase.start)
        ]
        ends = list(itertools.accumulate(volume for volume, _ in bursts))
        sent = 0.0
        for moment, after in itertools.pairwise(seen):
            burst = next((i for i, end in enumerate(ends) if sent < end * (1 - SLACK)), None)
            rate = moment.flow(job)
            assert rate <= (bursts[burst][1] if burst is not None else 0) * (1 + SLACK)
            sent += rate * (after.time - moment.time)
            # No burst goes on in the next one's place.
            assert burst is None or sent <= ends[burst] * (1 + SLACK)
        assert sent == pytest.approx(ends[-1], rel=SLACK)
        assert seen[-1].flow(job) == 0


@examples(100)
@given(DRAWN, SHARINGS, GROWTHS)
def test_link_totals_match_trace_and_capacity(
    drawn: tuple[Instance, dict[str, int]], sharing: str, growth: Growth | None
) -> None:
    instance, _ = drawn
    run = free_run(*drawn, ITERATIONS, sharing, growth=growth)
    seen = moments(run.trace)
    carried: dict[str, float] = defaultdict(float)
    for moment, after in itertools.pairwise(seen):
        for link in instance.links:
            rates = [rate for (name, _), rate in moment.rates.items() if name == link.name]
            assert sum(rates) <= link.capacity * (1 + SLACK)
            carried[link.name] += (after.time - moment.time) * sum(rates)
    for link in instance.links:
        assert run.carried[link.name] == pytest.approx(carried[link.name], rel=SLACK)
