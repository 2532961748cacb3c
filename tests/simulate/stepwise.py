"""A simulation in fixed steps, as simple as can be: what is due is looked at once a step."""

from __future__ import annotations

import numpy as np

from tests.simulate.systems import System


def stepwise_ends(system: System, step_ms: float) -> dict[str, list[float]]:
    """Return for each job when its iterations end, in ms; every segment is late by up to a step."""
    links = list(system.capacities)
    loops = system.loops
    capacities = np.array([float(system.capacities[link]) for link in links])
    flows = np.array([[float(loop.flows.get(link, 0)) for link in links] for loop in loops])
    flows = flows.reshape(len(loops), len(links))
    weights = np.array([float(loop.weight) for loop in loops])
    segment = [0] * len(loops)
    sent_or_computed = [0.0] * len(loops)
    ends: dict[str, list[float]] = {loop.name: [] for loop in loops}
    steps = 0
    while any(len(ends[loop.name]) < loop.iterations for loop in loops):
        now = steps * step_ms
        running = [
            now >= float(loop.start) - 1e-9 and len(ends[loop.name]) < loop.iterations
            for loop in loops
        ]
        own = np.array(
            [
                float(loop.segments[segment[j]].rate) if running[j] else 0.0
                for j, loop in enumerate(loops)
            ]
        )
        rates = _shares(capacities, flows, own, weights, system.sharing)
        for j, loop in enumerate(loops):
            if not running[j]:
                continue
            part = loop.segments[segment[j]]
            sent_or_computed[j] += step_ms * (rates[j] if part.rate else 1.0)
            goal = float(part.volume if part.rate else part.length)
            if sent_or_computed[j] < goal * (1 - 1e-9):
                continue
            sent_or_computed[j] = 0.0
            segment[j] += 1
            if segment[j] == len(loop.segments):
                segment[j] = 0
                ends[loop.name].append(now + step_ms)
        steps += 1
    return ends


def _shares(
    capacities: np.ndarray, flows: np.ndarray, own: np.ndarray, weights: np.ndarray, sharing: str
) -> np.ndarray:
    """Return the flow rate of each job; `own` is what each would send, 0 if it does not."""
    ranks = {"fair": 0 * weights, "strict": weights, "weighted": np.minimum(weights, 1)}[sharing]
    pull = np.maximum(weights, 1) if sharing == "weighted" else np.ones(len(own))
    rates = np.zeros(len(own))
    for rank in sorted(set(ranks), reverse=True):
        free = np.maximum(capacities - rates @ flows, 0.0)
        rates += _max_min(free, flows, np.where(ranks == rank, own, 0.0), pull)
    return rates


def _max_min(
    capacities: np.ndarray, flows: np.ndarray, own: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Fix the jobs of the tightest constraint, a link or somebody's own rate, one after another."""
    rates = np.zeros(len(own))
    is_open = own > 0
    while is_open.any():
        pull = (weights * is_open) @ flows
        left = np.maximum(capacities - rates @ flows, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_link = np.where(pull > 0, left / pull, np.inf)
            by_rate = np.where(is_open, own / weights, np.inf)
        tightest = min(by_link.min(initial=np.inf), by_rate.min())
        full = by_link <= tightest
        fixed = is_open & ((by_rate <= tightest) | (flows[:, full] > 0).any(axis=1))
        rates[fixed] = tightest * weights[fixed]
        is_open &= ~fixed
    return rates
