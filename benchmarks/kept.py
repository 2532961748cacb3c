"""Kept schedules on the stored families: what fits, and what is proved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from metronome_opt.allocation.slots.job_selection import FEASIBILITY_SOLVERS, check_feasibility
from metronome_opt.bench.suites import read_suite
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.presolve.blocks import restrict

_FAMILIES = ("single", "paper", "weights", "dense", "coprime", "fabric")
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
                    fit = check_feasibility(restrict(instance, {link}), time_limit=10, threads=1)
                    seconds.append(time.perf_counter() - start)
                    fitting += fit.offsets is not None
    yield Figure("links", len(seconds), "")
    yield Figure("of them fit", fitting, "")
    yield Figure("longest", max(seconds), "s", "<= 1")
    whole = []
    for instance in _instances("paper", small):
        start = time.perf_counter()
        check_feasibility(instance, time_limit=_LIMIT_S, threads=1)
        whole.append(time.perf_counter() - start)
    yield Figure(
        "paper, whole, within 10 s", sum(s <= 10 for s in whole) / len(whole), "", ">= 0.9"
    )


@benchmark("Is the largest compatible set proved on `paper` in a minute?")
def fit_proofs(small: bool) -> Iterator[Figure]:
    """Prove problem (b), 60 s each with two threads."""
    instances = _instances("paper", small)
    taken, proved = [], 0
    for instance in instances:
        start = time.perf_counter()
        result = check_feasibility(instance, drop=True, time_limit=_LIMIT_S, threads=2)
        taken.append(time.perf_counter() - start)
        proved += result.proved
    yield Figure("largest set: proved", proved / len(instances), "of all", ">= 0.8")
    yield Figure("largest set: median time", statistics.median(taken), "s")
    yield Figure("largest set: longest", max(taken), "s")


@benchmark("Which solvers prove what fits on the family `kept`, and how near do the others come?")
def fit_solvers(small: bool) -> Iterator[Figure]:
    """Decide, and choose the largest set, by each solver, 5 s each."""
    instances = _instances("kept", small)
    for problem, drop in (("decide", False), ("largest set", True)):
        costs: dict[str, list[int | None]] = {}
        for name, solver in FEASIBILITY_SOLVERS.items():
            begin = time.perf_counter()
            results = [
                check_feasibility(each, drop=drop, solver=name, time_limit=_SHORT_S, threads=2)
                for each in instances
            ]
            costs[name] = [result.cost for result in results]
            proved = sum(result.proved for result in results)
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
