"""Who waits for whom, as it is played."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from metronome_opt.instance import Instance
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import Play, Player

_FULL = 1 - 1e-9  # of a link's capacity


def waits(instance: Instance, plan: Plan) -> Mapping[str, Mapping[str, float]]:
    """Return for each job the others that hold it up, each with its share of that.

    While a link is full, whoever sends on it more slowly than it could loses time, and the others
    there make it so, each by what it sends. Fair sharing, without jitter.
    """
    trace = Player(instance, (Play("fair", 0),), jitter=0.0).trace(plan)
    capacities = {link.name: link.capacity for link in instance.links}
    own = {
        job.name: min([job.peak, *(capacities[name] / n for name, n in job.links.items())])
        for job in instance.jobs
    }
    lost: dict[str, dict[str, float]] = {job.name: defaultdict(float) for job in instance.jobs}
    for link in instance.links:
        rows = trace[trace["link"] == link.name]
        rates: dict[str, float] = {}
        before = 0.0
        for now, name, rate in zip(rows.time_ms, rows.job, rows.rate_mbps, strict=True):
            if now > before and sum(rates.values()) >= _FULL * link.capacity:
                _share_out(instance, link.name, rates, own, now - before, lost)
            before = now
            rates[name] = rate
            if not rate:
                del rates[name]
    return {
        name: {other: time / sum(by.values()) for other, time in by.items()}
        for name, by in lost.items()
    }


def _share_out(
    instance: Instance,
    link: str,
    rates: Mapping[str, float],
    own: Mapping[str, float],
    length: float,
    lost: Mapping[str, dict[str, float]],
) -> None:
    """Add what each job loses on a full link for a while."""
    total = sum(rates.values())
    for name, rate in rates.items():
        share = rate / (instance.job(name).links[link] * own[name])
        if share < _FULL:
            for other, theirs in rates.items():
                if other != name:
                    lost[name][other] += length * (1 - share) * theirs / (total - rate)
