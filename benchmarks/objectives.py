"""What several objectives come to on the stored families: fronts, idle injection, priority."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from fractions import Fraction

from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from metronome_opt import solve
from metronome_opt.bench.suites import read_suite
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.pareto import pareto
from metronome_opt.result import Result
from metronome_opt.verify import check

_WORKERS = 2
_FRONT_S, _STRETCH_S, _STRICT_S = 100, 30, 15  # seconds for each


def _instances(family: str, small: bool) -> list[Instance]:
    """Return the test instances of a family, or one for tuning."""
    members = read_suite(SUITES / family).members("tune" if small else "test")
    chosen = (member.instance for member in members)
    return [next(chosen)] if small else list(chosen)


@benchmark("How long does the complete front of contention and latency take on `paper`?")
def fronts(small: bool) -> Iterator[Figure]:
    """Find the front of every instance in at most 100 s, and check every point."""
    seconds, points, complete, false = [], [], 0, 0
    for instance in _instances("paper", small):
        start = time.perf_counter()
        front = pareto(instance, time_limit=10 if small else _FRONT_S, workers=_WORKERS)
        seconds.append(time.perf_counter() - start)
        points.append(len(front.points))
        complete += front.complete
        false += sum(bool(check(instance, point)) for point in front.points)
    yield Figure("median time", statistics.median(seconds), "s", "<= 60")
    yield Figure("complete", complete, f"of {len(seconds)}")
    yield Figure("complete within 60 s", sum(each <= 60 for each in seconds), f"of {len(seconds)}")
    yield Figure("points of a front, mean", statistics.mean(points), "")
    yield Figure("points of a front, most", max(points), "")
    yield Figure("points that the judge refutes", false, "", "<= 0")


@benchmark("What does 5 % of stretch bring on `coprime`, and what can it bring at most?")
def idle_injection(small: bool) -> Iterator[Figure]:
    """Compare the least contention with and without stretch, 30 s each."""
    limit = 1 if small else _STRETCH_S
    without, within, bound = Fraction(0), Fraction(0), Fraction(0)
    for instance in _instances("coprime", small):
        kept = solve(instance, objective="contention", time_limit=limit, workers=_WORKERS)
        moved = solve(
            instance, objective=["contention", "stretch"], time_limit=limit, workers=_WORKERS
        )
        yield Figure(f"{instance.name}, with over without", _ratio(moved, kept), "")
        without += kept.evaluation.contention
        within += moved.evaluation.contention
        bound += moved.lower_bound or 0
    yield Figure("all, with over without", float(within / without), "", "<= 0.5")
    yield Figure("all, no stretch can bring it below", float(bound / without), "")


def _ratio(moved: Result, kept: Result) -> float:
    return float(moved.evaluation.contention / kept.evaluation.contention)


@benchmark("Is the heaviest class served in full on `weights` wherever it can be?")
def strict_priority(small: bool) -> Iterator[Figure]:
    """Compare what classes do not get: with strict priority, and where contention trades them."""
    limit = 1 if small else _STRICT_S
    settled, possible, reached = 0, 0, 0
    instances = _instances("weights", small)
    for instance in instances:
        strict = solve(
            instance, objective="contention", strict=True, time_limit=limit, workers=_WORKERS
        )
        traded = solve(instance, objective="contention", time_limit=limit, workers=_WORKERS)
        heaviest = max(job.weight for job in instance.jobs)
        settled += strict.levels[0].proved
        if strict.levels[0].value == 0:
            possible += 1
            reached += not _unserved(traded, heaviest)
        for weight in sorted({job.weight for job in instance.jobs}, reverse=True):
            name = f"{instance.name}, {weight}"
            yield Figure(f"{name}: strict", float(_unserved(strict, weight)), "Mbit/s")
            yield Figure(f"{name}: traded", float(_unserved(traded, weight)), "Mbit/s")
    yield Figure("least unserved of the heaviest proved", settled, f"of {len(instances)}")
    yield Figure("of these, it is 0", possible, "instances")
    yield Figure("there least contention serves them in full too", reached, "instances")


def _unserved(result: Result, weight: int) -> Fraction:
    return sum(
        (
            result.evaluation.unserved[job.name]
            for job in result.instance.jobs
            if job.weight == weight
        ),
        Fraction(0),
    )
