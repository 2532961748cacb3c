"""A folder of recorded results that is complete, and whose records are drawn, not measured."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.engine.conditions import Conditions
from metronome_opt.journal import dump_line
from paper.campaigns import COMPARED, LARGE, ON_LARGE
from paper.recorded import record_benchmarks, record_solvers, record_study
from tests.bench.report_examples import record
from tests.bench.simulation_examples import job, simulation

SIZES = {"single": (2, 3), "paper": (13,), "fabric": (64, 128, 256, 1024), "dense": (8, 30, 100)}
SIZES |= {"coprime": (5,), "weights": (8,)}
PROVING = COMPARED[:6]


def fill(folder: Path, scratch: Path) -> None:
    """SolverRecord everything that the paper shows into a folder."""
    write(scratch / "records.jsonl", map(dump_line, campaign()))
    record_solvers([scratch / "records.jsonl"], ["metronome bench run"], folder)
    for study, records in studies().items():
        write(scratch / f"{study}.jsonl", map(dump_line, records))
        record_study(study, [scratch / f"{study}.jsonl"], [f"metronome simulate {study}"], folder)
    for name, figures in BENCHMARKS.items():
        record_benchmarks(benchmark_file(scratch, name, figures), folder)


def write(path: Path, lines: Iterator[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8")


def campaign() -> list[SolverRecord]:
    """Return cases of all solvers on three instances of each size of each family."""
    chance = random.Random(1)
    return [
        case(chance, family, f"{family}-{size}-test-{number}", solver, size)
        for family, sizes in SIZES.items()
        for size in sizes
        for number in range(3)
        for solver in (LARGE if family in ON_LARGE else COMPARED)
    ]


def case(chance: random.Random, family: str, instance: str, solver: str, size: int) -> SolverRecord:
    value = 100 if solver in PROVING else 100 + chance.randint(0, 40)
    proved = solver in PROVING and chance.random() < 0.8
    return record(
        instance,
        solver,
        value,
        suite=family,
        lower_bound=value if proved else 60 if solver in PROVING else None,
        runtime_s=0.01 * size * chance.uniform(0.5, 2) if proved else 10.0,
        offsets={f"job-{number}": 0 for number in range(size)},
    )


def studies() -> dict[str, list[SimulationRecord]]:
    """Return runs of the studies that the paper shows, two seeds each."""
    mixes = ("two-1.00", "three-1.00", "four-1.00", "two-0.90", "three-0.80", "four-0.60")
    grids: dict[str, list[dict[str, object]]] = {
        "dynamic-24": grid(load=(0.8,), mix=("harmonic", "free")),
        "static-24": grid(placement=("given",), mix=("free",)),
        "snapshot": grid(mix=mixes),
    }
    return {study: list(runs(study, cells)) for study, cells in grids.items()}


def grid(**values: tuple[object, ...]) -> list[dict[str, object]]:
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


# Seconds of a job, by policy.
POLICIES = {"default": 150, "exclusive": 160, "cassini": 130}
POLICIES |= {"metronome": 110, "ideal": 100}


def runs(study: str, cells: list[dict[str, object]]) -> Iterator[SimulationRecord]:
    chance = random.Random(2)
    for cell, seed, (policy, seconds) in product(cells, range(2), POLICIES.items()):
        jobs = [
            job(name, completion_s=time, end_s=time, iteration_mean_ms=time)
            for name in "ab"
            for time in [seconds * chance.uniform(0.95, 1.05)]
        ]
        conditions = Conditions(jitter=0.05, drift_ppm=100)
        yield simulation(policy, jobs, seed=seed, cell=cell, study=study, conditions=conditions)


def benchmark_file(scratch: Path, name: str, figures: dict[str, float]) -> Path:
    """Write what ``python -m benchmarks run`` keeps of a benchmark."""
    path = scratch / f"{name}-20261120-120000.json"
    document = {
        "command": f"python -m benchmarks run {name}",
        "commit": "abc1234",
        "machine": {"processor": "a chip", "system": "Linux"},
        "versions": {"numpy": "2"},
        "figures": {
            name: [
                {"name": figure, "value": value, "unit": "", "bar": ""}
                for figure, value in figures.items()
            ]
        },
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


_GAPS = ("gap, mean", "gap, 90th percentile", "gap, worst", "contention as at best")
_SEARCHES = ("tree", "beam", "greedy", "spread")
_HELD = ("not held", "in step", "in step, without waiting")
_MEASURED = ("Pearson", "Spearman", "simulated, mean", "mean absolute error")
BENCHMARKS: dict[str, dict[str, float]] = {
    "fronts": {
        "median time": 1.7,
        "complete": 16,
        "complete within 60 s": 15,
        "points of a front, mean": 3.75,
        "points of a front, most": 16,
        "points that the judge refutes": 0,
    },
    "idle-injection": {
        "coprime-5x1-test-0, with over without": 0.76,
        "coprime-5x2-test-0, with over without": 0.95,
        "all, with over without": 0.87,
    },
    "placement-gaps": {
        "solved exactly": 100,
        "of these with contention at best": 46.5,
        **{f"{name}: {figure}": 2.5 for name in _SEARCHES for figure in _GAPS},
    },
    "placement-speed": {
        "filter, score and rank 5000 nodes, period of 400 slots": 9.6,
        **{f"gang of 16 at 100 Gbit/s, {name}": 36.0 for name in _SEARCHES},
    },
    "prediction": {
        "jobs": 1007,
        "predicted to be held up": 500,
        "predicted, mean": 6.6,
        **{
            f"{sharing}, {held}: {figure}": 0.85
            for sharing in ("strict", "fair")
            for held in _HELD
            for figure in _MEASURED
        },
        **{
            f"{sharing}, {held}: right to 1% of an iteration": 700
            for sharing in ("strict", "fair")
            for held in _HELD
        },
    },
}
