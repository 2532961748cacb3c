"""Placements by prices: the ways to find them, side by side."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from metronome_opt.allocation.joint_model import place_by_model
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.perturbation import search_placements
from metronome_opt.allocation.placement_search import PlacementSearch, places_of
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.bench.suites import read_suite
from metronome_opt.scenario import read_scenario
from metronome_opt.solvers.budget import Budget

_LIMIT_S = 10
_ROUNDING = 1e-4  # of prices by models

Assigned = tuple[Occupancy, list[JobRequest], float | None]


def _nearest(jobs: Sequence[JobRequest], occupancy: Occupancy, _budget: Budget) -> Assigned:
    left = []
    for job in jobs:
        placement = occupancy.resources.nearest(job)
        if placement is None:
            left.append(job)
        else:
            occupancy.add(PlacedJob(job, placement))
    return occupancy, left, None


def _greedy(jobs: Sequence[JobRequest], occupancy: Occupancy, _budget: Budget) -> Assigned:
    return *search_placements(jobs, occupancy, Budget(0)), None


def _assign(jobs: Sequence[JobRequest], occupancy: Occupancy, budget: Budget) -> Assigned:
    return *search_placements(jobs, occupancy, budget), None


def _model(
    solver: str, jobs: Sequence[JobRequest], occupancy: Occupancy, budget: Budget
) -> Assigned:
    threads = os.cpu_count() or 1
    placed, left, pool = place_by_model(jobs, occupancy, solver, budget, threads=threads)
    return placed, left, None if pool is None or pool.bound is None else float(pool.bound)


def price(occupancy: Occupancy) -> float:
    """Return the cost of all placed jobs, one after the other."""
    others, total = occupancy.copy(), 0.0
    for name, each in occupancy.placed.items():
        others.remove(name)
        total += others.start(each.job, each.placement).cost
    return total


METHODS: dict[str, Callable[[Sequence[JobRequest], Occupancy, Budget], Assigned]] = {
    "nearest": _nearest,
    "greedy": _greedy,
    "assign": _assign,
    "cpsat": partial(_model, "cpsat"),
    "milp": partial(_model, "milp"),
}


@benchmark("How good are placements by prices, how long do they take, and what is proved?")
def allocation(small: bool) -> Iterator[Figure]:
    """Place the jobs of the family `allocation` by each method, 10 s each; nobody is gated."""
    entries = read_suite(SUITES / "allocation").entries("tune" if small else "test")
    files = [SUITES / "allocation" / entry.file for entry in entries]
    searches = [PlacementSearch(read_scenario(file)) for file in files[: 1 if small else None]]
    for name, method in METHODS.items():
        slowdowns, prices, seconds, left, proved = [], [], [], 0, 0
        for search in searches:
            start = time.perf_counter()
            occupancy, waiting, bound = method(
                search.unplaced, search.occupancy(), Budget(_LIMIT_S)
            )
            seconds.append(time.perf_counter() - start)
            slowdowns.append(search.values(places_of(occupancy))[0])
            prices.append(price(occupancy))
            left += len(waiting)
            proved += int(bound is not None and prices[-1] <= bound + _ROUNDING)
        yield Figure(f"{name}: iterations", 100 * statistics.mean(slowdowns), "% of alone")
        yield Figure(f"{name}: price", statistics.mean(prices), "")
        yield Figure(f"{name}: jobs without room", left, "")
        yield Figure(f"{name}: time", statistics.mean(seconds), "s")
        yield Figure(f"{name}: longest", max(seconds), "s")
        if name in ("cpsat", "milp"):
            yield Figure(f"{name}: proved of its pool", proved, f"of {len(searches)}")
