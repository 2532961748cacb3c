"""Tiny random problems, and what a decision must be true to."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from metronome_opt.compatible import (
    Choice,
    Choices,
    Decision,
    Reason,
    at_periods,
    decide,
    largest_set,
    least_stretch,
)
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.verify import evaluate

RATES = (30, 50, 60, 100)


def tiny_instance(draw: Random) -> Instance:
    """Make two to four jobs that meet on up to three links; some fit beside one another."""
    names = [f"link-{index}" for index in range(draw.randint(1, 3))]
    return Instance(
        name="tiny",
        slot_ms=1,
        links=tuple(Link(name=name, capacity=draw.choice((60, 100, 120))) for name in names),
        jobs=tuple(_job(draw, f"job-{index}", names) for index in range(draw.randint(2, 4))),
    )


def _job(draw: Random, name: str, links: list[str]) -> Job:
    period = draw.choice((2, 3, 4, 4, 5, 6, 6, 8, 8, 9, 10, 12))
    parts = [(0, period)]
    if period >= 4 and draw.random() < 0.5:
        parts = [(0, period // 2), (period // 2, period)]
    phases = []
    for begin, end in parts:
        length = draw.randint(1, max(1, (end - begin) // 2))
        start = draw.randint(begin, end - length)
        phases.append(Phase(start=start, length=length, rate=draw.choice(RATES)))
    used = draw.sample(links, draw.randint(draw.random() < 0.9, len(links)))
    return Job(
        name=name,
        period=period,
        weight=draw.randint(0, 5),
        ready=draw.randint(0, period),
        max_stretch=draw.randint(0, 3),
        phases=tuple(phases),
        links={link: draw.choice((1, 1, 1, 2)) for link in used},
        fixed_offset=draw.randint(0, period - 1) if draw.random() < 0.2 else None,
    )


def tiny_periods(draw: Random, instance: Instance) -> dict[str, int]:
    """Choose periods for most of the jobs."""
    return {
        job.name: job.period + draw.randint(0, job.max_stretch)
        for job in instance.jobs
        if draw.random() < 0.9
    }


def tiny_choices(draw: Random, instance: Instance) -> Choices:
    """Make problem (b), (c), or any choices at any costs."""
    return draw.choice((largest_set, least_stretch, lambda instance: _mixed(draw, instance)))(
        instance
    )


def _mixed(draw: Random, instance: Instance) -> Choices:
    return {
        job.name: tuple(
            Choice(period, Fraction(draw.randint(0, 6), draw.randint(1, 3)))
            for period in draw.sample(
                [None, *range(job.period, job.period + 4)], draw.randint(1, 4)
            )
        )
        for job in instance.jobs
    }


def fits(instance: Instance, periods: Mapping[str, int], cushion_slots: int = 0) -> bool:
    """Return whether jobs fit, by trying all offsets."""
    found = decide(instance, periods=periods, cushion_slots=cushion_slots, solver="exhaustive")
    return found.offsets is not None


def check_offsets(
    instance: Instance,
    periods: Mapping[str, int],
    offsets: Mapping[str, int],
    cushion_slots: int = 0,
) -> None:
    """Let the judge say that jobs fit, each at its period."""
    assert set(offsets) == set(periods)
    if periods:
        kept = at_periods(instance, periods, cushion_slots)
        assert evaluate(kept, offsets).contention == 0


def check_decision(
    instance: Instance, periods: Mapping[str, int], found: Decision, cushion_slots: int = 0
) -> None:
    """Check offsets by the judge, a refutation by trying all offsets of its jobs and of fewer."""
    if found.offsets is not None:
        check_offsets(instance, periods, found.offsets, cushion_slots)
    if found.refutation is not None:
        refuted = found.refutation.periods
        assert refuted.items() <= periods.items()
        assert not fits(instance, refuted, cushion_slots)
        if found.refutation.reason in (Reason.SEARCH, Reason.PAIR):
            for name in refuted:
                fewer = {other: p for other, p in refuted.items() if other != name}
                assert fits(instance, fewer, cushion_slots), found.refutation
