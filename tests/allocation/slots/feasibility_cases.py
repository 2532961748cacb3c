"""Tiny random problems, and what a decision must be true to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import compress, product
from random import Random

import numpy as np
from numpy.typing import NDArray

from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityDecision,
    Reason,
    at_periods,
)
from metronome_opt.problem.instance import Instance, Job, Link, Phase
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


def fits(instance: Instance, periods: Mapping[str, int], cushion_slots: int = 0) -> bool:
    """Return whether jobs fit, by trying all offsets in all slots of the hyperperiods."""
    jobs = [job for job in instance.jobs if job.name in periods]
    lengths = {
        link: math.lcm(*(periods[job.name] for job in jobs if link in job.links))
        for job in jobs
        for link in job.links
    }
    capacity = {link.name: link.capacity for link in instance.links}
    # What each job asks of each link in each slot, a row for each of its offsets.
    asked: dict[str, dict[str, NDArray[np.float64]]] = {}
    for job in jobs:
        rates = rates_of(job, periods[job.name], cushion_slots)
        offsets = np.arange(len(rates)) if job.fixed_offset is None else [job.fixed_offset]
        asked[job.name] = {
            link: flows * np.array([np.resize(np.roll(rates, k), lengths[link]) for k in offsets])
            for link, flows in job.links.items()
        }

    def place(rest: list[Job], demand: Mapping[str, NDArray[np.float64]]) -> bool:
        if not rest:
            return True
        job, *others = rest
        if not job.links:
            return place(others, demand)
        sums = {link: demand[link] + rows for link, rows in asked[job.name].items()}
        fitting = [rows.max(axis=1) <= capacity[link] for link, rows in sums.items()]
        return any(
            place(others, {**demand, **{link: rows[k] for link, rows in sums.items()}})
            for k in np.flatnonzero(np.all(fitting, axis=0))
        )

    return place(jobs, {link: np.zeros(length) for link, length in lengths.items()})


def rates_of(job: Job, period: int, cushion_slots: int) -> NDArray[np.float64]:
    """Return the rate of a flow in each slot of a period: of bursts that meet, the largest."""
    rates = np.zeros(period)
    for phase in job.phases:
        for slot in range(phase.start, phase.end + cushion_slots):
            rates[slot % period] = max(rates[slot % period], phase.rate)
    return rates


def lightest(instance: Instance, cushion_slots: int = 0) -> int:
    """Return the least weight of jobs without which the others fit, by trying all."""
    weights = {job.name: job.weight for job in instance.jobs}
    every = product((False, True), repeat=len(weights))
    dropped = [list(compress(weights, each)) for each in every]
    for left_out in sorted(dropped, key=lambda names: sum(map(weights.__getitem__, names))):
        kept = {job.name: job.period for job in instance.jobs if job.name not in left_out}
        if fits(instance, kept, cushion_slots):
            return sum(map(weights.__getitem__, left_out))
    raise AssertionError("no job always fits")


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
    instance: Instance,
    periods: Mapping[str, int],
    found: FeasibilityDecision,
    cushion_slots: int = 0,
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
