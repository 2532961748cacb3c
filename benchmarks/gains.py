"""Gains by schedules of minimum slowdown: their share of the best known gains, and of losses."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.registry import Figure, benchmark
from benchmarks.slowdowns import FAMILIES, NETWORK, STRETCH, instances, judge, read_best
from metronome_opt import allocate
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.problem.instance import Instance, Job, Link, Phase

_SOLVE_S = 10
_PERIOD_MS = 400  # a slot is 1 ms
_WORTH = 0.002  # gains below that are chance


@benchmark("Does the default of `solve` make jobs faster, and harm none?")
def no_harm(small: bool) -> Iterator[Figure]:
    """Solve by default, and as for TCP with stretched periods; play with fresh seeds."""
    known = {each.instance: each.slowdown for each in read_best().best}
    for family in ("paper",) if small else ("snapshot", *FAMILIES):
        chosen = instances(family)[: 1 if small else None]
        seconds = 1 if small else _SOLVE_S
        yield from _gains(f"{family}, default", chosen, "fair", {}, {}, seconds)
        terms = {"network": NETWORK, "stretch_limit": STRETCH}
        yield from _gains(f"{family}, tcp, 20 %", chosen, NETWORK, terms, known, seconds)


@benchmark("What do slots leave of the losses of equal jobs whose bursts fit on a link?")
def equal_jobs(small: bool) -> Iterator[Figure]:
    """Let 2 to 8 jobs of 400 ms share a link, which they use for 60 to 95 % of the time.

    Computing times vary by up to 5 %. Without losses each iteration takes its period.
    """
    for jitter in (0.01,) if small else (0.0, 0.01, 0.02, 0.05):
        for load in (0.8,) if small else (0.6, 0.8, 0.95):
            for count in (2,) if small else (2, 3, 4, 6, 8):
                result = allocate(_alike(count, load, jitter), time_limit=None, threads=2)
                unshifted_ms, expected_ms = result.unshifted_ms, result.schedule.expected_ms
                if unshifted_ms is None or expected_ms is None:
                    continue
                times = unshifted_ms.values(), map(float, expected_ms.values())
                before, after = (statistics.mean(each) / _PERIOD_MS - 1 for each in times)
                name = f"jitter {jitter:g}, load {load:g}, {count} jobs"
                yield Figure(f"{name}: lost unshifted", 100 * before, "%")
                yield Figure(f"{name}: lost", 100 * max(0.0, after), "%")


def _alike(count: int, load: float, jitter: float) -> Instance:
    """Return so many equal jobs on a link, which come one after the other."""
    burst = int(_PERIOD_MS * load / count)
    phase = Phase(start=_PERIOD_MS - burst, length=burst, rate=100)
    jobs = (
        Job(
            name=f"job-{index}",
            period=_PERIOD_MS,
            phases=(phase,),
            links={"link": 1},
            ready=37 * index % _PERIOD_MS,
            jitter=jitter,
        )
        for index in range(count)
    )
    link = Link(name="link", capacity=100)
    return Instance(name="alike", slot_ms=1, links=(link,), jobs=tuple(jobs))


def _gains(
    what: str,
    chosen: list[Instance],
    network: str,
    terms: dict[str, Any],
    known: dict[str, float],
    seconds: float,
) -> Iterator[Figure]:
    before, after, worst, gated, shares = [], [], [], [], []
    for instance in chosen:
        result = allocate(instance, time_limit=seconds, threads=2, objective="slowdown", **terms)
        plan = Plan.of(instance, result.schedule)
        player = judge(instance, network)
        unshifted = player.slowdowns(Plan(instance.unshifted))
        so = player.slowdowns(plan)
        before.append(player.value(unshifted))
        after.append(player.value(so))
        worst.append(float((so / unshifted).max()))
        gated.append(len(plan.periods) / len(instance.jobs))
        there = before[-1] - known.get(instance.name, before[-1])
        if there > _WORTH:
            shares.append((before[-1] - after[-1]) / there)
    gains = [b - a for b, a in zip(before, after, strict=True)]
    yield Figure(f"{what}: slowdown unshifted", statistics.mean(before), "")
    yield Figure(f"{what}: slowdown", statistics.mean(after), "")
    yield Figure(f"{what}: largest gain", max(gains), "")
    yield Figure(f"{what}: smallest gain", min(gains), "", ">= -0.002")
    yield Figure(f"{what}: worst job over unshifted", max(worst), "", "<= 1.02")
    yield Figure(f"{what}: gated jobs", statistics.mean(gated), "of all")
    if shares:
        yield Figure(f"{what}: known gain", len(shares), f"of {len(chosen)} instances")
        yield Figure(f"{what}: share of it, median", statistics.median(shares), "", ">= 0.9")
