"""Simulations whose numbers are chosen, not simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.studies import StudyPart, split_study
from metronome_opt.engine.conditions import Conditions
from tests.bench.report_examples import ORIGIN


def job(name: str, **changes: Any) -> dict[str, Any]:
    """Return a row of a job that arrived at 0, started at once and took 100 s."""
    row = {
        "job": name,
        "model": "vgg19",
        "priority": 1,
        "workers": 2,
        "start_s": 0.0,
        "end_s": 100.0,
        "queueing_s": 0.0,
        "completion_s": 100.0,
        "iterations": 1000,
        "finished": True,
        "ideal_ms": 100.0,
        "iteration_mean_ms": 100.0,
        "iteration_p99_ms": 100.0,
        "nodes": 2,
        "gpus": 2,
        "early_gbit": 10.0,
    }
    assert set(changes) <= set(row)
    return row | changes


def unfinished(name: str, **changes: Any) -> dict[str, Any]:
    """Return a row of a job that was not over at the horizon."""
    return job(name, finished=False, end_s=None, completion_s=None, iterations=500, **changes)


def link(name: str = "node-0", **changes: Any) -> dict[str, Any]:
    """Return a row of a link of 1 Gbit/s that carried 50 Gbit in the 100 s that it was used."""
    row = {"link": name, "capacity_mbps": 1000.0, "carried_gbit": 50.0, "used_s": 100.0}
    return row | changes


def simulation(
    policy: str,
    jobs: Sequence[Mapping[str, Any]] = (),
    links: Sequence[Mapping[str, Any]] = (),
    *,
    seed: int = 0,
    cell: Mapping[str, Any] | None = None,
    kind: str = "done",
    makespan_s: float = 100.0,
    **changes: Any,
) -> SimulationRecord:
    """Return the record of a simulation with these rows."""
    done = kind == "done"
    document: dict[str, Any] = {
        "kind": kind,
        "study": "example",
        "study_sha256": "ab" * 32,
        "cell": dict(cell or {}),
        "seed": seed,
        "policy": policy,
        "conditions": Conditions(),
        "time_limit_s": 60.0,
        "memory_limit_mb": None,
        "jobs": columns(jobs or [job("a")]) if done else None,
        "links": columns(links or [link()]) if done else None,
        "makespan_s": makespan_s if done else None,
        "events": 1000 if done else None,
        "notes": (),
        "error": None if done else "took too long",
        "wall_s": 1.0,
        "runtime_s": 0.5 if done else None,
        "peak_memory_mb": 100.0,
        **ORIGIN,
    }
    return SimulationRecord(**document | changes)


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return rows as columns."""
    return {name: tuple(row[name] for row in rows) for name in (rows[0] if rows else ())}


# ------------------------------------------------------------------ a study worked out by hand

# Two seeds. An iteration alone takes 100 ms. Each job: completion, of it queueing, mean iteration.
BY_HAND = {
    "default": [((100, 0, 120), (300, 0, 100)), ((200, 0, 110), (200, 0, 110))],
    "exclusive": [((100, 50, 100), (400, 90, 100)), ((300, 100, 100), (200, 0, 100))],
    "cassini": [((90, 0, 110), (270, 0, 110)), ((180, 0, 105), (180, 0, 105))],
    "metronome": [((80, 0, 102), (240, 10, 104)), ((150, 0, 101), (150, 0, 101))],
    "ideal": [((80, 0, 100), (220, 0, 100)), ((140, 0, 100), (140, 0, 100))],
}
CARRIED = {"default": 40.0, "exclusive": 40.0, "cassini": 45.0, "metronome": 50.0, "ideal": None}


def small(policies: Sequence[str] = tuple(BY_HAND)) -> Iterator[SimulationRecord]:
    """Yield a study of two jobs."""
    for policy in policies:
        for seed, rows in enumerate(BY_HAND[policy]):
            jobs = [
                job(
                    name,
                    completion_s=float(took),
                    queueing_s=float(queued),
                    start_s=float(queued),
                    end_s=float(took),
                    iteration_mean_ms=float(mean),
                )
                for (took, queued, mean), name in zip(rows, "ab", strict=True)
            ]
            yield simulation(
                policy,
                jobs,
                [link(carried_gbit=CARRIED[policy])],
                seed=seed,
                makespan_s=200.0,
            )


def one(policy: str, completion: float, **where: Any) -> SimulationRecord:
    return simulation(policy, [job("a", completion_s=completion, end_s=completion)], **where)


def with_horizon() -> list[SimulationRecord]:
    """Return one seed in which `default` leaves a job unfinished; `a` is 20 % shorter."""
    return [
        simulation("default", [job("a"), unfinished("b", iteration_mean_ms=150.0)]),
        simulation("metronome", [job("a", completion_s=80.0, end_s=80.0), job("b")]),
        simulation("ideal", [job("a", completion_s=80.0, end_s=80.0), job("b")]),
    ]


def whole(records: Sequence[SimulationRecord]) -> StudyPart:
    return split_study(records)[0]
