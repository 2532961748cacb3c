"""Throughput as an interface would show it, of a job whose every edge is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from metronome_opt.profiles import Samples, from_series
from metronome_opt.simulate.runner import Pattern

Floats = NDArray[np.float64]

_CUT = 3.0  # standard deviations, as in the simulator
_EPOCH_S = 1_700_000_000.0


@dataclass(frozen=True)
class Truth:
    """What a job really did.

    Attributes
    ----------
    edges_s, rates_mbps
        The rate from each edge to the next, shapes (n + 1,) and (n,).
    begins_s
        When each iteration began, shape (iterations,).
    """

    edges_s: Floats
    rates_mbps: Floats
    begins_s: Floats

    def sent_mbit(self, times_s: Floats) -> Floats:
        """Return what was sent until each of some times."""
        volumes = np.concatenate(([0.0], np.cumsum(np.diff(self.edges_s) * self.rates_mbps)))
        return np.interp(times_s, self.edges_s, volumes)


def run_alone(pattern: Pattern, iterations: int, jitter: float, seed: int) -> Truth:
    """Let a job run by itself, each computing time longer or shorter by `jitter` of itself."""
    chance = np.random.default_rng([seed, 1])
    compute = np.array([float(each) for each in pattern.compute]) / 1000
    volume = np.array([float(each) for each in pattern.volume]) / 1000
    rate = np.array([float(each) for each in pattern.rate])
    factors = np.clip(chance.standard_normal((iterations, len(compute))), -_CUT, _CUT)
    lengths = np.zeros((iterations, 2 * len(compute) - 1))
    lengths[:, ::2] = compute * (1 + jitter * factors)
    lengths[:, 1::2] = volume / rate
    rates = np.zeros_like(lengths)
    rates[:, 1::2] = rate
    edges = _EPOCH_S + np.concatenate(([0.0], np.cumsum(lengths)))
    return Truth(edges, rates.ravel(), edges[:: lengths.shape[1]][:-1])


def together(truths: Sequence[Truth]) -> Truth:
    """Return what one counter sees of several jobs, while all of them are there."""
    first = max(truth.edges_s[0] for truth in truths)
    last = min(truth.edges_s[-1] for truth in truths)
    edges = np.unique(np.concatenate([truth.edges_s for truth in truths]))
    edges = edges[(edges >= first) & (edges <= last)]
    middles = (edges[1:] + edges[:-1]) / 2
    rates = sum(truth.rates_mbps[np.searchsorted(truth.edges_s, middles) - 1] for truth in truths)
    return Truth(edges, np.asarray(rates), truths[0].begins_s)


def later(truth: Truth, by_s: float) -> Truth:
    """Return the same, begun later."""
    return Truth(truth.edges_s + by_s, truth.rates_mbps, truth.begins_s + by_s)


def with_checkpoints(truth: Truth, every: int, length_s: float, rate_mbps: float) -> Truth:
    """Let a job send something else, and wait for it, before every so many iterations."""
    edges, rates, begins = [truth.edges_s[0]], list[float](), list[float]()
    parts = len(truth.rates_mbps) // len(truth.begins_s)
    for index, (length, rate) in enumerate(
        zip(np.diff(truth.edges_s), truth.rates_mbps, strict=True)
    ):
        iteration, part = divmod(index, parts)
        if part == 0 and iteration and iteration % every == 0:
            edges.append(edges[-1] + length_s)
            rates.append(rate_mbps)
        if part == 0:
            begins.append(edges[-1])
        edges.append(edges[-1] + length)
        rates.append(rate)
    return Truth(np.array(edges), np.array(rates), np.array(begins))


def held_up(
    patterns: Sequence[Pattern], capacity_mbps: float, length_s: float, jitter: float, seed: int
) -> Truth:
    """Return what the first of some jobs does that get equal shares of a link, or all they want."""
    chance = np.random.default_rng([seed, 5])

    def computing_s(job: int, part: int) -> float:
        factor = float(np.clip(chance.standard_normal(), -_CUT, _CUT))
        return float(patterns[job].compute[part]) / 1000 * (1 + jitter * factor)

    jobs = range(len(patterns))
    now, part, left = 0.0, [0 for _ in jobs], [0.0 for _ in jobs]
    until = [chance.uniform() * computing_s(job, 0) for job in jobs]
    edges, rates, begins = list[float](), list[float](), [0.0]
    while now < length_s:
        most = [float(pattern.rate[part[job]]) for job, pattern in enumerate(patterns)]
        sending = sorted((job for job in jobs if left[job]), key=most.__getitem__)
        shares, free = dict.fromkeys(jobs, 0.0), capacity_mbps
        for place, job in enumerate(sending):
            shares[job] = min(most[job], free / (len(sending) - place))
            free -= shares[job]
        edges.append(now)
        rates.append(shares[0])
        ends = [now + left[job] / shares[job] if left[job] else until[job] for job in jobs]
        after = min(ends)
        for job in jobs:
            if ends[job] > after:
                left[job] -= min(left[job], shares[job] * (after - now))
            elif not left[job]:
                left[job] = float(patterns[job].volume[part[job]]) / 1000
            else:
                left[job], part[job] = 0.0, (part[job] + 1) % len(patterns[job].volume)
                until[job] = after + computing_s(job, part[job])
                if job == 0 and part[job] == 0:
                    begins.append(after)
        now = after
    return Truth(_EPOCH_S + np.array([*edges, now]), np.array(rates), _EPOCH_S + np.array(begins))


def measure(
    truth: Truth,
    step_s: float,
    *,
    snr_db: float = np.inf,
    missing: float = 0.0,
    irregular: float = 0.0,
    seed: int = 0,
) -> Samples:
    """Sample what a job did.

    Parameters
    ----------
    step_s
        Time between samples; each is the mean rate since the one before.
    snr_db
        Variance of the samples over that of the noise, which is normal; a rate is never negative.
    missing
        Share of samples that are left out.
    irregular
        Samples come early or late by up to this share of a step, uniformly.
    """
    chance = np.random.default_rng([seed, 2])
    count = int((truth.edges_s[-1] - truth.edges_s[0]) / step_s)
    times = truth.edges_s[0] + step_s * (chance.uniform() + np.arange(count))
    times += irregular * step_s * chance.uniform(-1, 1, count)
    rates = np.diff(truth.sent_mbit(times)) / np.diff(times)
    noise = np.std(rates) * 10 ** (-snr_db / 20)
    rates = np.maximum(0.0, rates + noise * chance.standard_normal(count - 1))
    kept = chance.uniform(size=count - 1) >= missing
    return Samples(times[1:][kept], rates[kept], np.diff(times)[kept])


def scrape(
    truth: Truth, step_ms: int, *, late_ms: int = 0, snr_db: float = np.inf, seed: int = 0
) -> Samples:
    """Return the rates between scrapes of a counter of whole bytes, with stamps of whole ms.

    Parameters
    ----------
    step_ms
        Time between scrapes.
    late_ms
        Scrapes are late by up to this, uniformly; their stamps say so.
    snr_db
        Variance of the rates over that of the noise, which is normal; a rate is never negative.
    """
    import pandas as pd

    chance = np.random.default_rng([seed, 4])
    begin_ms = np.ceil(1000 * truth.edges_s[0])
    count = int((1000 * truth.edges_s[-1] - begin_ms - late_ms) / step_ms)
    stamps = begin_ms + step_ms * np.arange(count) + chance.integers(0, late_ms + 1, count)
    counts = np.rint(truth.sent_mbit(stamps / 1000) / 8e-6)
    found = from_series(pd.Series(counts, index=stamps / 1000), counter=True)
    noise = np.std(found.rates_mbps) * 10 ** (-snr_db / 20)
    noisy = found.rates_mbps + noise * chance.standard_normal(len(found))
    return replace(found, rates_mbps=np.maximum(0.0, noisy))
