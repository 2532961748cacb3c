"""Gains by schedules of minimum slowdown: their share of the best known gains, and of losses."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.registry import Figure, benchmark
from benchmarks.slowdowns import FAMILIES, NETWORK, STRETCH, instances, judge, read_best
from metronome_opt import allocate
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.problem.instance import Instance

_SOLVE_S = 10
_WORTH = 0.002  # gains below that are chance


@benchmark("Does the default of `allocate` make jobs faster, and none slower?")
def no_harm(small: bool) -> Iterator[Figure]:
    """Solve by default, and as for TCP with stretched periods; play with fresh seeds."""
    known = {each.instance: each.slowdown for each in read_best().best}
    for family in ("paper",) if small else ("snapshot", *FAMILIES):
        chosen = instances(family)[: 1 if small else None]
        seconds = 1 if small else _SOLVE_S
        yield from _gains(f"{family}, default", chosen, "fair", {}, {}, seconds)
        terms = {"network": NETWORK, "stretch_limit": STRETCH}
        yield from _gains(f"{family}, tcp, 20 %", chosen, NETWORK, terms, known, seconds)


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
        simulator = judge(instance, network)
        unshifted = simulator.slowdowns(Plan(instance.unshifted))
        so = simulator.slowdowns(plan)
        before.append(simulator.value(unshifted))
        after.append(simulator.value(so))
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
