"""How exact profiles are that are made from noisy, jittery, incomplete samples, and when not."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from benchmarks.aperiodic import APERIODIC
from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from benchmarks.throughput import (
    Floats,
    Truth,
    held_up,
    later,
    measure,
    run_alone,
    scrape,
    together,
    with_checkpoints,
)
from metronome_opt.profiles import Profile, Samples, profile
from metronome_opt.scenario import read_scenario
from metronome_opt.simulate.runner import Pattern
from metronome_opt.simulate.state import training_jobs

_SCENARIO = SUITES.parent.parent / "models" / "scenarios" / "paper-24.yaml"
_ITERATIONS = 120
_MISSING = 0.05
_COUNTED_MS = 300_000
_PERIOD_BAR, _DUTY_BAR = 1.0, 3.0  # percent, points


_NEAR = 0.05
_COUNTER_STEP_MS = 100
_COUNTER_PERIODS_MS = (1310, 1337, 1450, 1750, 1900, 2050, 2250, 2510, 2620, 3140, 4010)
_IN_STEP_MS = (1300, 1700, 2200, 2600)
COUNTED = {
    "one burst": ((700, 300, 1000),),
    "two bursts": ((310, 300, 2000), (240, 150, 1000)),
    "two bursts, one weak": ((310, 300, 2000), (240, 150, 400)),
    "three bursts": ((160, 200, 2000), (140, 200, 1000), (150, 150, 1500)),
}
"""Bursts after pauses: thousandths of the period in silence and in the burst, and its Mbit/s."""


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
        job.work.model or job.name: job.pattern(scenario.cluster.nic)
        for job in training_jobs(scenario, 0.0, 0)
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


def try_counter(
    bursts: str, period_ms: int, *, late_ms: int, snr_db: float = np.inf, seed: int = 0
) -> Case:
    """Scrape a counter of a job whose period is 13 to 40 scrapes, and make a profile of it.

    Parameters
    ----------
    bursts
        One of `COUNTED`.
    period_ms
        Its period.
    late_ms, snr_db, seed
        See `scrape`.
    """
    parts = [
        (Fraction(pause * period_ms, 1000), Fraction(length * period_ms, 1000), Fraction(rate))
        for pause, length, rate in COUNTED[bursts]
    ]
    pattern = Pattern(
        (*(pause for pause, _, _ in parts), Fraction(0)),
        tuple(length * rate for _, length, rate in parts),
        tuple(rate for _, _, rate in parts),
    )
    truth = run_alone(pattern, _COUNTED_MS // period_ms, 0.0, seed)
    samples = scrape(truth, _COUNTER_STEP_MS, late_ms=late_ms, snr_db=snr_db, seed=seed)
    name = f"{bursts} in {period_ms} ms, late by up to {late_ms} ms, {snr_db:g} dB"
    return _judge(name, pattern, truth, profile(samples))


@benchmark("How exact are profiles from counters that are scraped every 100 ms?")
def profile_counters(small: bool) -> Iterator[Figure]:
    """Try one to three bursts a period, without noise and at 40 dB, in step and not."""
    lateness = (10,) if small else (0, 10, 30)
    for name, periods in (("not in step", _COUNTER_PERIODS_MS), ("in step", _IN_STEP_MS)):
        for late_ms, snr_db in itertools.product(lateness, (np.inf, 40.0)):
            cases = [
                try_counter(bursts, period_ms, late_ms=late_ms, snr_db=snr_db)
                for bursts in COUNTED
                for period_ms in (periods[:1] if small else periods)
            ]
            yield from _summary(f"{name}, late by up to {late_ms} ms, {snr_db:g} dB", cases)


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


_MIXED_S = 60.0
_JITTERS = (0.0, 0.01, 0.05)
_NOISES_DB = (np.inf, 20.0, 10.0)
_STEPS_S = (0.011, 0.023, 0.052)


def bursts_of(pauses_ms: Sequence[int], bursts: Sequence[tuple[int, int]]) -> Pattern:
    """Return a job that computes so long before each burst, of ms and Mbit/s."""
    return Pattern(
        (*map(Fraction, pauses_ms), Fraction(0)),
        tuple(Fraction(length * rate) for length, rate in bursts),
        tuple(Fraction(rate) for _, rate in bursts),
    )


_PLAIN = bursts_of([700], [(300, 10_000)])
_UNEVEN = bursts_of([300, 200], [(200, 10_000), (300, 6000)])


def two_jobs(ratio: float, share: float, *, jitter: float, seed: int) -> Truth:
    """Return what a counter sees of two jobs, as long as the shorter one of a minute is there.

    Parameters
    ----------
    ratio
        Period of the second over that of the first, which is 1 s.
    share
        Rate of the second over that of the first.
    jitter
        Of their computing times.
    seed
        For jitter, phases, and lengths of bursts, from 15 to 60 % of the period.
    """
    chance = np.random.default_rng([seed, 6])
    truths = []
    for number, (period, rate) in enumerate(((1.0, 10_000), (ratio, 10_000 * share))):
        length = max(1, round(1000 * period * chance.uniform(0.15, 0.6)))
        of = bursts_of([round(1000 * period) - length], [(length, round(rate))])
        truth = run_alone(of, int(_MIXED_S / period) + 2, jitter, 2 * seed + number)
        truths.append(later(truth, -period * chance.uniform()))
    return together(truths)


@benchmark("How often are two jobs taken for one?")
def profile_two_jobs(small: bool) -> Iterator[Figure]:
    """Try pairs of periods of 1 s and of 0.25 to 4 s, by how near these are to a multiple."""
    kinds: dict[str, list[bool]] = {}
    for seed in range(4 if small else 600):
        chance = np.random.default_rng([seed, 7])
        ratio = float(np.exp(chance.uniform(np.log(0.25), np.log(4))))
        truth = two_jobs(
            ratio, chance.uniform(0.2, 1), jitter=float(chance.choice(_JITTERS)), seed=seed
        )
        step, noise = float(chance.choice(_STEPS_S)), float(chance.choice(_NOISES_DB[:2]))
        found = profile(measure(truth, step, snr_db=noise, seed=seed))
        times = max(ratio, 1 / ratio)
        near = abs(times - round(times)) <= _NEAR * times
        kind = "a ratio within 5 % of a whole one" if near else "other ratios"
        kinds.setdefault(kind, []).append(found.period_ms is not None)
    for kind, taken in sorted(kinds.items()):
        yield Figure(
            f"{kind}, of {len(taken)} pairs", 100 * float(np.mean(taken)), "% taken for one"
        )


def single_jobs(seeds: Sequence[int]) -> Iterator[tuple[str, Samples]]:
    """Yield samples of single jobs: their traffic is odd, but has one period."""
    for seed in seeds:
        chance = np.random.default_rng([seed, 8])
        jitter, noise = float(chance.choice((*_JITTERS, 0.1))), float(chance.choice(_NOISES_DB))
        step = float(chance.choice(_STEPS_S))
        of = _PLAIN if chance.integers(2) else _UNEVEN
        duty, period = chance.uniform(0.15, 0.5), float(np.exp(chance.uniform(-1.2, 1.1)))
        length = round(1000 * duty * period)
        other = bursts_of([round(1000 * period) - length], [(length, 10_000)])
        capacity = float(chance.choice((10_000, 15_000)))
        every, extra = (
            int(chance.choice((5, 10, 20, 37))),
            float(chance.choice((0.1, 0.3, 0.7, 1.5))),
        )
        alone = run_alone(of, 100, jitter, seed)
        model = list(patterns().values())[chance.integers(len(patterns()))]
        for name, truth, per in (
            ("alone", run_alone(model, 100, jitter, seed), model.alone_ms / 1000),
            ("held up by another", held_up((of, other), capacity, 100.0, jitter, seed), 1.0),
            ("checkpoints", with_checkpoints(alone, every, extra, 10_000.0), 1.0),
        ):
            yield name, measure(truth, step * float(per), snr_db=noise, seed=seed)


@benchmark("How often is a single job taken for two?")
def profile_single_jobs(small: bool) -> Iterator[Figure]:
    """Try workloads alone, jobs that others hold up, and jobs with checkpoints now and then."""
    kinds: dict[str, list[bool]] = {}
    for name, samples in single_jobs(range(1 if small else 150)):
        said = str(profile(samples).reason)
        kinds.setdefault(name, []).append(said.startswith("more than one period"))
    for kind, refused in kinds.items():
        yield Figure(f"{kind}, of {len(refused)}", 100 * float(np.mean(refused)), "% taken for two")


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
