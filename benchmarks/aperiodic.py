"""Traffic without a period, as rates of even samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.throughput import Floats

Chance = np.random.Generator
Traffic = Callable[[Chance, int], Floats]


def poisson_bursts(chance: Chance, count: int) -> Floats:
    """Return bursts and pauses of exponential lengths."""
    return _bursts(chance, count, lambda: chance.exponential(20), lambda: chance.exponential(10))


def uneven_pauses(chance: Chance, count: int) -> Floats:
    """Return bursts of one length after pauses of exponential lengths."""
    return _bursts(chance, count, lambda: chance.exponential(20), lambda: 10.0)


def random_walk(chance: Chance, count: int) -> Floats:
    """Return a rate that goes up and down by chance."""
    return 200 + np.cumsum(chance.standard_normal(count))


def white_noise(chance: Chance, count: int) -> Floats:
    """Return a rate with noise only."""
    return 1000 + 100 * chance.standard_normal(count)


def one_burst(chance: Chance, count: int) -> Floats:
    """Return one long burst in noise."""
    rates = 5 * chance.standard_normal(count)
    rates[count // 4 : count // 2] += 100
    return rates


def several_jobs(chance: Chance, count: int) -> Floats:
    """Return the sum of three jobs whose bursts and pauses vary widely."""
    parts = [
        _bursts(chance, count, lambda: chance.uniform(5, 60), lambda: chance.uniform(5, 20))
        for _ in range(3)
    ]
    return np.asarray(np.sum(parts, axis=0))


def _bursts(
    chance: Chance, count: int, pause: Callable[[], float], length: Callable[[], float]
) -> Floats:
    """Return bursts and pauses of such lengths in steps, as samples over ten fine steps each."""
    fine, at = np.zeros(10 * count), 10 * chance.uniform(0, 20)
    while at < len(fine):
        end = at + 10 * length()
        fine[int(at) : int(end)] = 100
        at = end + 10 * pause()
    return np.asarray(fine.reshape(count, 10).mean(axis=1))


APERIODIC: dict[str, Traffic] = {
    "Poisson bursts": poisson_bursts,
    "equal bursts, exponential pauses": uneven_pauses,
    "random walk": random_walk,
    "white noise": white_noise,
    "one burst": one_burst,
    "three irregular jobs": several_jobs,
}
