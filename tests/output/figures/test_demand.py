"""Drawn demand above capacity equals the unserved demand of `evaluate`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from metronome_opt.errors import InputError
from metronome_opt.output.figures.demand import draw_schedule, drawn_slots, find_link
from metronome_opt.problem.instance import Instance, Job, Link, Phase
from metronome_opt.verify import evaluate
from tests.output.figures.examples import BEFORE, instance
from tests.strategies import assigned


@settings(deadline=None)
@given(assigned())
def test_excess_demand_matches_evaluate(case: tuple[Instance, dict[str, int]]) -> None:
    drawn, offsets = case
    for link, report in zip(drawn.links, evaluate(drawn, offsets).links, strict=True):
        demand = draw_schedule(drawn, offsets).demand(link)
        excess = np.maximum(demand.sum(axis=0) - link.capacity, 0)
        assert Fraction(int(excess.sum()), len(excess)) == report.unserved


def test_long_hyperperiod_is_cut() -> None:
    def job(name: str, period: int, bursts: int) -> Job:
        phases = tuple(Phase(start=2 * index, length=1, rate=1) for index in range(bursts))
        return Job(name=name, period=period, phases=phases, links={"l": 1})

    link = Link(name="l", capacity=1)
    short = Instance(name="i", slot_ms=1, links=(link,), jobs=(job("a", 10, 2), job("b", 100, 1)))
    assert drawn_slots(short, link) == 100
    long = short.replace(jobs=(job("a", 10, 2), job("b", 10_000, 1)))
    assert drawn_slots(long, link) == 900  # 180 bursts, two in each period of 10


def test_rates_beyond_64_bits_are_refused() -> None:
    example = instance()
    huge = example.replace(links=(example.links[0], Link(name="node-0", capacity=10**30)))
    with pytest.raises(InputError, match=r"'node-0'.*too much to draw"):
        draw_schedule(huge, BEFORE).demand(find_link(huge, "node-0"))
