"""What gated jobs that are late had better do, in cases of the test bed that fit."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from statistics import mean

from benchmarks.registry import Figure, benchmark
from benchmarks.testbed.cases import STORED, read_cases
from metronome_opt.compatible import solve_choices
from metronome_opt.compatible.choices import PeriodChoice
from metronome_opt.instance import Instance
from metronome_opt.simulate.runner import Lateness
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import SAFE, Player, plays

_IDLE, _MOST_IDLE = Fraction(2, 100), Fraction(6, 100)
_CUSHION_MS = 6  # bursts fit even if they are longer by this
_PERIODS = 400
_FREE = "a"


@benchmark("What had gated jobs better do that are late?")
def lateness(small: bool) -> Iterator[Figure]:
    """Let kept schedules with idle time run: all jobs gated, and with one free one among them."""
    fitting = [(each, _kept(each)) for each in _instances(small)]
    plans = [(instance, plan) for instance, plan in fitting if plan is not None]
    yield Figure("cases", len(plans), f"of {len(fitting)}")
    for sharing in SAFE:
        free = [_slowdowns(instance, Plan(instance.unshifted), sharing) for instance, _ in plans]
        yield Figure(f"{sharing}, nobody gated", mean(mean(each.values()) for each in free), "")
        for policy in (Lateness.YIELD, Lateness.SLIDE, Lateness.HOLD):
            what = f"{sharing}, {policy.name.lower()}"
            ran = [_slowdowns(instance, plan, sharing, policy) for instance, plan in plans]
            yield Figure(f"{what}, all gated", mean(mean(each.values()) for each in ran), "")
            ran = [_slowdowns(instance, _but(plan), sharing, policy) for instance, plan in plans]
            gated = [mean(v for name, v in each.items() if name != _FREE) for each in ran]
            yield Figure(f"{what}, beside a free one", mean(gated), "")
            yield Figure(f"{what}, the free one", mean(each[_FREE] for each in ran), "")


def _instances(small: bool) -> list[Instance]:
    cases = [case for case in read_cases(STORED) if len(case.jobs) > 1 and case.split == "test"]
    return [case.instance() for case in cases[: 2 if small else None]]


def _kept(instance: Instance) -> Plan | None:
    """Return slots for all jobs with 2 % of idle time or somewhat more, if there are any."""
    choices = {
        job.name: tuple(
            PeriodChoice(period, Fraction(period, job.period))
            for period in range(
                ceil(job.period * (1 + _IDLE)), int(job.period * (1 + _MOST_IDLE)) + 1
            )
        )
        for job in instance.jobs
    }
    found = solve_choices(instance, choices, time_limit=10, cushion_slots=_CUSHION_MS).kept
    return None if found is None else Plan(found.offsets, found.periods)


def _but(plan: Plan) -> Plan:
    """Return a plan without slots for one job."""
    return Plan(plan.offsets, {n: period for n, period in plan.periods.items() if n != _FREE})


def _slowdowns(
    instance: Instance, plan: Plan, sharing: str, lateness: Lateness = Lateness.YIELD
) -> dict[str, float]:
    """Return the slowdown of each job."""
    player = Player(
        instance,
        plays(1000, 4, (sharing,)),
        periods=_PERIODS,
        lateness=lateness,
        cushion_ms=_CUSHION_MS,
    )
    names = (job.name for job in instance.jobs)
    return dict(zip(names, player.slowdowns(plan).tolist(), strict=True))
