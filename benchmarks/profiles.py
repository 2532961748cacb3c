"""How exact profiles are that are made from noisy, jittery, incomplete samples, and when not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from benchmarks.throughput import Floats, Truth, measure, run_alone
from metronome_opt.profiles import Profile, Samples, profile
from metronome_opt.scenario import read_scenario
from metronome_opt.simulate.jobs import training_jobs
from metronome_opt.simulate.pattern import Pattern

_SCENARIO = SUITES.parent.parent / "models" / "scenarios" / "paper-24.yaml"
_ITERATIONS = 120
_MISSING = 0.05
_PERIOD_BAR, _DUTY_BAR = 1.0, 3.0  # percent, points


@dataclass(frozen=True)
class Case:
    """What was measured of a workload, and what came of it.

    Attributes
    ----------
    name
        The workload and the conditions.
    found
        The profile.
    period_error
        In percent of the true mean length of an iteration; None if no period was found.
    duty_error
        In points; None if no period was found.
    covered
        Whether the true burst is within the stated error; None unless there is one burst only.
    """

    name: str
    found: Profile
    period_error: float | None
    duty_error: float | None
    covered: bool | None

    @property
    def within(self) -> bool:
        """Whether both bars hold."""
        return (
            self.period_error is not None
            and self.duty_error is not None
            and abs(self.period_error) <= _PERIOD_BAR
            and abs(self.duty_error) <= _DUTY_BAR
        )


@cache
def patterns() -> dict[str, Pattern]:
    """Return the iterations of the 13 workloads, as jobs of paper-24 have them."""
    scenario = read_scenario(_SCENARIO)
    return {
        job.work.model: job.pattern(scenario.cluster.nic) for job in training_jobs(scenario, 0.0, 0)
    }


def try_case(
    model: str, *, jitter: float, step: float, snr_db: float, seed: int, irregular: float = 0.0
) -> Case:
    """Measure a workload and make a profile of it.

    Parameters
    ----------
    model
        The workload.
    jitter
        Standard deviation of its computing times, as a share of them.
    step
        Time between samples, as a share of the period.
    snr_db, seed, irregular
        See `measure`.
    """
    pattern = patterns()[model]
    truth = run_alone(pattern, _ITERATIONS, jitter, seed)
    step_s = step * pattern.alone_ms / 1000
    samples = measure(
        truth, step_s, snr_db=snr_db, missing=_MISSING, irregular=irregular, seed=seed
    )
    name = f"{model}, {snr_db:g} dB, jitter {jitter:.0%}, step {step:.1%}, seed {seed}"
    return _judge(name, pattern, truth, profile(samples))


def _judge(name: str, pattern: Pattern, truth: Truth, found: Profile) -> Case:
    if found.period_ms is None or found.duty is None:
        return Case(name, found, None, None, None)
    lengths = [
        float(volume / rate) for volume, rate in zip(pattern.volume, pattern.rate, strict=True)
    ]
    period = 1000 * float(np.mean(np.diff(truth.begins_s)))
    covered = None
    if len(lengths) == 1 and len(found.bursts) == 1:
        burst = found.bursts[0]
        covered = abs(burst.length_ms - lengths[0]) <= burst.length_error_ms
    return Case(
        name,
        found,
        100 * (found.period_ms / period - 1),
        100 * (found.duty - sum(lengths) / period),
        covered,
    )


@benchmark("How exact are profiles of the 13 workloads from noisy samples?")
def profile_accuracy(small: bool) -> Iterator[Figure]:
    """Try all workloads at two levels of noise, three of jitter, four sampling steps."""
    models = list(patterns())[:2] if small else list(patterns())
    seeds = range(1) if small else range(3)
    steps = (0.05,) if small else (0.011, 0.023, 0.052, 0.1)
    for snr_db in (20.0,) if small else (20.0, 10.0):
        for jitter in (0.05,) if small else (0.0, 0.05, 0.1):
            for step in steps:
                cases = [
                    try_case(model, jitter=jitter, step=step, snr_db=snr_db, seed=seed)
                    for model in models
                    for seed in seeds
                ]
                name = f"{snr_db:g} dB, jitter {jitter:.0%}, step {step:.1%}"
                yield from _summary(name, cases)


def _summary(name: str, cases: Sequence[Case]) -> Iterator[Figure]:
    found = [case for case in cases if case.period_error is not None]
    yield Figure(f"{name}: within both bars", 100 * _share(cases, lambda case: case.within), "%")
    yield Figure(f"{name}: refused", 100 * (1 - len(found) / len(cases)), "%")
    if found:
        yield Figure(f"{name}: worst period", _worst(found, "period_error"), "%", "<= 1")
        yield Figure(f"{name}: worst duty", _worst(found, "duty_error"), "points", "<= 3")
    single = [case for case in found if case.covered is not None]
    if single:
        covered = 100 * _share(single, lambda case: bool(case.covered))
        yield Figure(f"{name}: true length within its stated error", covered, "%")
    for case in cases:
        if not case.within:
            told = case.found.reason is not None
            worst = 0.0 if told else float(case.duty_error or 0.0)
            yield Figure(f"{case.name}: {case.found.reason or 'off'}", worst, "points")


def _share(cases: Sequence[Case], holds: Callable[[Case], bool]) -> float:
    return sum(map(holds, cases)) / len(cases)


def _worst(cases: Sequence[Case], name: str) -> float:
    return max(abs(float(getattr(case, name))) for case in cases)


@benchmark("How often is a period seen in traffic that has none?")
def profile_false_periods(small: bool) -> Iterator[Figure]:
    """Make profiles of traffic without a period, over 200 to 4,000 samples."""
    tries = 2 if small else 100
    for name, traffic in APERIODIC.items():
        invented = 0
        for seed in range(tries):
            chance = np.random.default_rng([seed, 3])
            count = (200, 500, 1000, 4000)[seed % 4]
            rates = np.maximum(0.0, traffic(chance, count))
            times: Floats = 1.7e9 + 0.1 * np.arange(count, dtype=np.float64)
            samples = Samples(times, rates)
            invented += profile(samples).period_ms is not None
        yield Figure(f"{name}, of {tries}", invented, "periods", "<= 0")


@benchmark("How long does a profile of 10,000 samples take?")
def profile_speed(small: bool) -> Iterator[Figure]:
    """Make profiles of each workload, 83 samples a period, or 20 in a small run."""
    slowest = 0.0
    for model, pattern in patterns().items():
        truth = run_alone(pattern, 20 if small else _ITERATIONS, 0.05, 0)
        samples = measure(truth, 0.012 * pattern.alone_ms / 1000, snr_db=20.0)
        profile(samples)
        start = time.thread_time()
        profile(samples)
        slowest = max(slowest, time.thread_time() - start)
        yield Figure(f"{model}, samples", len(samples), "")
    yield Figure("slowest workload", slowest, "s", "<= 0.2")


# ------------------------------------------------------------------ traffic without a period

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
