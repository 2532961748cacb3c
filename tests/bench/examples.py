"""Suites and campaigns for tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

from metronome_opt.bench.campaign import Case, Pool, R, local_pool, run_campaign
from metronome_opt.bench.process import Limits, Task
from metronome_opt.bench.solver_runs import SolverRecord, plan
from metronome_opt.bench.suites import INDEX, read_suite
from metronome_opt.files.journal import Journal
from metronome_opt.problem.instance import Instance, write_instance
from metronome_opt.solvers.registry import Solver
from tests.bench.fake_worker import run_fake

LIMITS = Limits(time_s=1, memory_mb=400, grace_s=0.5)


def write_suite(folder: Path, instances: Iterable[tuple[Instance, str]]) -> Path:
    """Store instances, each with its split, as a suite called like the folder."""
    folder.mkdir(parents=True)
    entries: list[dict[str, Any]] = []
    for instance, split in instances:
        path = folder / f"{instance.name}.json"
        write_instance(instance, path)
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
        made = {"generator": "tests", "version": 1, "parameters": {}, "seed": len(entries)}
        stored = {"name": instance.name, "file": path.name, "split": split, "sha256": checksum}
        entries.append({**stored, **made})
    index = {
        "format": "metronome-suite/1",
        "family": folder.name,
        "about": "for tests",
        "time_limit_s": 2,
        "instances": entries,
    }
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    return folder


def faked(cases: Sequence[Case[R]]) -> list[Case[R]]:
    """Return cases whose work is that of the fake worker."""

    def work(case: Case[R]) -> Task:
        task: Any = case.task()
        return partial(run_fake, **task.keywords)

    return [replace(case, task=partial(work, case)) for case in cases]


def solver_cases(
    suite: str | Path, *names: str, seeds: int = 1, limits: Limits = LIMITS
) -> list[Case[SolverRecord]]:
    """Return cases of fake solvers on a suite."""
    solvers = [Solver(name, "fake", "none") for name in names]
    members = read_suite(suite).members()
    return faked(plan(members, solvers, seeds=seeds, limits=lambda _: limits, workers=1))


@dataclass
class Ended(Generic[R]):
    """The records of a campaign, and the cases that could not be run, with their errors."""

    records: list[R]
    losses: list[tuple[Case[R], Exception]]


def campaign(
    cases: Sequence[Case[R]], output: Path, pool: Pool | None = None, *, kind: type[R]
) -> Ended[R]:
    """Run cases, three at once if no pool is given."""
    ended: Ended[R] = Ended([], [])
    with Journal(output, kind, resume=True) as file, local_pool(3) as local:
        for case, done in run_campaign(cases, pool or local, file):
            if isinstance(done, Exception):
                ended.losses.append((case, done))
            else:
                ended.records.append(done)
    return ended
