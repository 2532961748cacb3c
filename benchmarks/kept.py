"""Kept schedules on the stored families: what fits, and what is proved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from fractions import Fraction

from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from metronome_opt.bench.suites import read_suite
from metronome_opt.compatible.choices import largest_set, least_stretch
from metronome_opt.compatible.solvers import SOLVERS, decide, solve_choices
from metronome_opt.instance import Instance
from metronome_opt.presolve.blocks import restrict

_FAMILIES = ("single", "paper", "weights", "dense", "coprime", "fabric")
_STRETCH = Fraction(3)  # (c): every period up to four times as long
_LIMIT_S, _SHORT_S = 60, 5


def _instances(family: str, small: bool) -> list[Instance]:
    members = read_suite(SUITES / family).members("tune" if small else "test")
    chosen = [member.instance for member in members]
    return chosen[:1] if small else chosen


@benchmark("Is it decided within a second whether the jobs of a link fit?")
def fit_links(small: bool) -> Iterator[Figure]:
    """Decide every link of the stored instances by itself, then whole `paper` instances."""
    seconds, fitting = [], 0
    for family in _FAMILIES[: 1 if small else None]:
        for instance in _instances(family, small):
            for link, users in instance.jobs_on.items():
                if users:
                    start = time.perf_counter()
                    decision = decide(restrict(instance, {link}), time_limit=10, workers=1)
                    seconds.append(time.perf_counter() - start)
                    fitting += decision.offsets is not None
    yield Figure("links", len(seconds), "")
    yield Figure("of them fit", fitting, "")
    yield Figure("longest", max(seconds), "s", "<= 1")
    whole = []
    for instance in _instances("paper", small):
        start = time.perf_counter()
        decide(instance, time_limit=_LIMIT_S, workers=1)
        whole.append(time.perf_counter() - start)
    yield Figure(
        "paper, whole, within 10 s", sum(s <= 10 for s in whole) / len(whole), "", ">= 0.9"
    )


@benchmark("Are the largest compatible set and the minimum stretch proved on `paper` in a minute?")
def fit_proofs(small: bool) -> Iterator[Figure]:
    """Prove problems (b) and (c), 60 s each with two threads."""
    instances = _instances("paper", small)
    for name, seconds in (("largest set", _LIMIT_S), ("minimum stretch", _LIMIT_S)):
        taken, proved, fits = [], 0, 0
        for instance in instances:
            choices = (
                largest_set(instance)
                if name == "largest set"
                else least_stretch(instance, _STRETCH)
            )
            start = time.perf_counter()
            result = solve_choices(instance, choices, time_limit=seconds, workers=2)
            taken.append(time.perf_counter() - start)
            proved += result.proved
            fits += result.kept is not None
        yield Figure(f"{name}: proved", proved / len(instances), "of all", ">= 0.8")
        yield Figure(f"{name}: schedules", fits, f"of {len(instances)}")
        yield Figure(f"{name}: median time", statistics.median(taken), "s")
        yield Figure(f"{name}: longest", max(taken), "s")


@benchmark("Which solvers prove what fits on the family `kept`, and how near do the others come?")
def fit_solvers(small: bool) -> Iterator[Figure]:
    """Decide, choose the largest set and the minimum stretch by each solver, 5 s each."""
    instances = _instances("kept", small)
    for problem in ("decide", "largest set", "minimum stretch"):
        costs: dict[str, list[Fraction | None]] = {}
        for name, solver in SOLVERS.items():
            begin = time.perf_counter()
            result = [_answer(problem, instance, name) for instance in instances]
            costs[name] = [cost for cost, _ in result]
            proved = sum(is_proved for _, is_proved in result)
            what = f"{problem}, {name}"
            if solver.exact:
                yield Figure(f"{what}: proved", proved, f"of {len(instances)}")
            yield Figure(f"{what}: time", (time.perf_counter() - begin) / len(instances), "s")
        best = [
            min((cost for cost in each if cost is not None), default=None)
            for each in zip(*costs.values(), strict=True)
        ]
        for name, reached in costs.items():
            pairs = zip(reached, best, strict=True)
            as_good = sum(mine == minimum for mine, minimum in pairs if minimum is not None)
            yield Figure(f"{problem}, {name}: as good as any", as_good, f"of {len(best)}")


def _answer(problem: str, instance: Instance, solver: str) -> tuple[Fraction | None, bool]:
    """Return what an answer costs, None without any, and whether it is proved."""
    if problem == "decide":
        decision = decide(instance, solver=solver, time_limit=_SHORT_S, workers=2)
        fits = decision.offsets is not None
        return Fraction(0) if fits else None, fits or decision.refutation is not None
    choices = (
        largest_set(instance) if problem == "largest set" else least_stretch(instance, _STRETCH)
    )
    result = solve_choices(instance, choices, solver=solver, time_limit=_SHORT_S, workers=2)
    return result.cost, result.proved
