"""Check of the prices of links and of pairs of jobs that prove a lower bound of slowdown.

models/formulations/kept.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from metronome_opt.errors import quote
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import PairPrices, Schedule
from metronome_opt.verify.evaluation import Violation

_MAX_CYCLES = 1000
_ROOT = 10**12  # a square root is rounded down to a multiple of one over this, or finer


class _Burst(NamedTuple):
    """A burst of a job without other jobs on its links.

    Attributes
    ----------
    slots
        Its length, more than `Phase.length` if its flows do not fit on a link.
    rate
        Rate of one flow, Mbit/s.
    gap
        Slots of computing after it.
    """

    slots: Fraction
    rate: Fraction
    gap: int


def unproved_bound(instance: Instance, schedule: Schedule, bound: Fraction) -> Iterator[Violation]:
    """Yield a violation if the stated prices do not prove a bound of slowdown.

    In the long run ``sum share / s`` is at most 1, for the loads of a link and for the shares of
    two jobs on a link that cannot carry both at once. So for nonnegative prices the weighted sum of
    slowdowns is at least the sum over jobs of ``weight * s + cost / s``, less all prices, where
    `cost` is the cost of the shares of the job. Here `s` is time over
    period, and `weight` that of the job times its period over its best one.
    """
    capacities = {link.name: link.capacity for link in instance.links}
    links = schedule.bound_prices or {}
    bursts = {job.name: _bursts(job, capacities) for job in instance.jobs}
    costs = dict.fromkeys(bursts, Fraction(0))
    total = -sum(links.values(), Fraction(0))
    for job in instance.jobs:
        for link, flows in job.links.items():
            load = Fraction(flows * job.volume, job.period * capacities[link])
            costs[job.name] += links.get(link, 0) * load
    violations = [
        Violation(f"bound_prices.{quote(name)}", str(links[name]), "no such link")
        for name in sorted(links.keys() - capacities.keys())
    ]
    for index, pair in enumerate(schedule.bound_pairs):
        shares = _shares(instance, pair, bursts, capacities)
        if shares is None:
            stated = f"{' and '.join(map(quote, pair.jobs))} on link {quote(pair.link)}"
            truth = "they are no two jobs there that it cannot carry at once"
            violations.append(Violation(f"bound_pairs[{index}]", stated, truth))
            continue
        for price, both in zip(pair.prices, shares, strict=True):
            total -= price
            for name, share in zip(pair.jobs, both, strict=True):
                costs[name] += price * share
    yield from violations
    if violations:
        return
    weights = slowdown_weights(instance)
    for job in instance.jobs:
        isolated = isolated_slots(job, capacities)
        period_ms = Fraction(job.period * instance.slot_ms)
        weight = weights[job.name] * period_ms / (job.best_ms or period_ms)
        total += _minimum(weight, costs[job.name], isolated / job.period)
    proved = total / sum(weights.values())
    if bound > proved:
        truth = f"the stated prices prove only {float(proved):.9g}"
        yield Violation("lower_bound", str(bound), truth)


def slowdown_weights(instance: Instance) -> dict[str, int]:
    """Return the weights of jobs in a mean slowdown, which are 1 if all jobs have weight 0."""
    weighted = any(job.weight for job in instance.jobs)
    return {job.name: job.weight if weighted else 1 for job in instance.jobs}


def isolated_slots(job: Job, capacities: Mapping[str, int]) -> Fraction:
    """Return how long an iteration takes without other jobs on its links, in slots."""
    return Fraction(sum(burst.slots + burst.gap for burst in _bursts(job, capacities)))


def _bursts(job: Job, capacities: Mapping[str, int]) -> list[_Burst]:
    """Return the bursts of a job without other jobs on its links, in the order of time."""
    widest = [Fraction(capacities[link], n) for link, n in job.links.items()]
    phases = sorted(job.phases, key=lambda phase: phase.start)
    starts = [*(phase.start for phase in phases[1:]), phases[0].start + job.period]
    found = []
    for phase, following in zip(phases, starts, strict=True):
        rate = min(Fraction(phase.rate), *widest) if widest else Fraction(phase.rate)
        found.append(_Burst(phase.length * phase.rate / rate, rate, following - phase.end))
    return found


def _shares(
    instance: Instance,
    pair: PairPrices,
    bursts: Mapping[str, list[_Burst]],
    capacities: Mapping[str, int],
) -> list[tuple[Fraction, Fraction]] | None:
    """Return pairs of shares of two jobs with sums of at most 1; None if there are none."""
    jobs = [job for name in dict.fromkeys(pair.jobs) for job in instance.jobs if job.name == name]
    if len(jobs) < 2 or any(pair.link not in job.links for job in jobs):
        return None
    scales = [Fraction(job.links[pair.link], capacities[pair.link]) for job in jobs]
    one, two = (
        [burst._replace(rate=burst.rate * scale) for burst in bursts[job.name]]
        for job, scale in zip(jobs, scales, strict=True)
    )
    peaks = [max(burst.rate for burst in own) for own in (one, two)]
    over = sum(peaks) - 1
    if over <= 0:
        return None
    computing, sent, meeting = [], [], []
    for job, peak, own, other in zip(jobs, peaks, (one, two), (two, one), strict=True):
        time = Fraction(sum(burst.gap for burst in own), job.period)
        load = Fraction(sum(burst.slots * burst.rate for burst in own)) / job.period
        least = Fraction(sum(_least_meeting(burst, other) for burst in own))
        computing.append(time)
        # A job is in a burst or computes: it sends at its peak at most, both jobs together at 1.
        sent.append(load + peak * time)
        meeting.append(least / job.period)
    return [
        (sent[0] - over * computing[0], sent[1] - over * computing[1]),
        ((sent[0] + over * meeting[0]) / (1 + over), sent[1] / (1 + over)),
        (sent[0] / (1 + over), (sent[1] + over * meeting[1]) / (1 + over)),
    ]


def _least_meeting(burst: _Burst, others: list[_Burst]) -> Fraction:
    """Return the least number of slots in which a burst meets bursts of another job.

    It meets some successive gaps of the other job, and all bursts between them. If the other job
    runs thousands of times in the burst, they are not counted: 0 is always true.
    """
    if burst.slots > _MAX_CYCLES * sum(other.slots + other.gap for other in others):
        return Fraction(0)
    least = burst.slots
    for first, start in enumerate(others):
        gaps, needed, sent = start.gap, Fraction(0), Fraction(0)
        for number in count(first + 1):
            remaining = max(burst.slots - gaps, Fraction(0))
            least = min(least, max(remaining, needed, remaining * burst.rate + sent))
            if not remaining or needed >= least:
                break
            inside = others[number % len(others)]
            gaps += inside.gap
            needed += inside.slots
            sent += inside.slots * inside.rate
    return least


def _minimum(weight: Fraction, cost: Fraction, isolated: Fraction) -> Fraction:
    """Return the minimum of ``weight * s + cost / s`` for ``s >= isolated``, rounded down."""
    if cost <= weight * isolated**2:
        return weight * isolated + cost / isolated  # it rises from there on
    square = weight * cost
    root = math.isqrt(square.numerator * square.denominator * _ROOT**2)
    return 2 * Fraction(root, square.denominator * _ROOT)  # at the square root of cost / weight
