"""Engines and runs of small systems, for tests that know their times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from metronome_opt.engine.conditions import TCP, Conditions, Growth, TcpShares
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob, WindowSchedule
from metronome_opt.problem.instance import Instance, Job, Sharing
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation.result import SimulationResult
from tests.builders import network

if TYPE_CHECKING:
    import pandas as pd


def links(*jobs: Job, **capacities: int) -> Instance:
    """Return jobs in slots of 10 ms; "link" carries 100."""
    return network(*jobs, **capacities).replace(slot_ms=10)


def running(
    *patterns: Iteration,
    links: Sequence[str] | None = None,
    starts: Sequence[float] | None = None,
    windows: Sequence[WindowSchedule | None] | None = None,
    iterations: int | Sequence[int] | None = 1,
    capacity: float = 100,
    **options: Any,
) -> Engine:
    """Return an engine that jobs called a, b and so on have entered, each with a flow on a link.

    All are on "link" and start at 0 if not said else.
    """
    links = links or ["link"] * len(patterns)
    counts = iterations if isinstance(iterations, Sequence) else [iterations] * len(patterns)
    runners = [
        EngineJob(chr(97 + index), pattern, 1, count, 1)
        for index, (pattern, count) in enumerate(zip(patterns, counts, strict=True))
    ]
    engine = Engine(dict.fromkeys(links, capacity), runners, **options)
    for index, link in enumerate(links):
        start = 0.0 if starts is None else starts[index]
        own = None if windows is None else windows[index]
        engine.start_job(index, {link: 1}, at=start, windows=own)
    return engine


def finish(engine: Engine) -> list[list[float]]:
    """Run until all jobs have ended; return their iteration times."""
    for _ in engine.jobs:
        assert engine.run(math.inf) is not None
    return [engine.times(index).tolist() for index in range(len(engine.jobs))]


@dataclass(frozen=True)
class FreeRun:
    """Outcome of jobs without a policy.

    Attributes
    ----------
    times
        Iteration times of each job, in ms.
    ends
        End of the last iteration of each job, in ms.
    carried
        Volume of each link, in Mbit/s * ms.
    trace
        All rates on all links.
    """

    times: Mapping[str, NDArray[np.float64]]
    ends: Mapping[str, float]
    carried: Mapping[str, float]
    trace: pd.DataFrame


def free_run(
    instance: Instance,
    offsets: Mapping[str, int],
    iterations: int,
    sharing: str = "fair",
    conditions: Conditions | None = None,
    seed: int = 0,
    stretch: Mapping[str, int] | None = None,
    tcp: TcpShares = TCP,
    growth: Growth | None = None,
) -> FreeRun:
    """Let jobs run from their offsets on, a number of iterations each.

    They are gated, all in step, if it is said how far each is stretched.
    """
    capacities = {link.name: link.capacity for link in instance.links}
    engine = Engine(
        capacities,
        EngineJob.of_instance(instance, iterations),
        sharing=cast(Sharing, sharing),
        watched=list(capacities),
        conditions=conditions,
        seed=seed,
        tcp=tcp,
        growth=growth,
    )
    for index, job in enumerate(instance.jobs):
        windows = None
        if stretch is not None:
            windows = WindowSchedule(float((job.period + stretch[job.name]) * instance.slot_ms))
        start = float(offsets[job.name] * instance.slot_ms)
        engine.start_job(index, job.links, at=start, windows=windows)
    ends = {}
    for _ in instance.jobs:
        finished = engine.run(math.inf)
        assert finished is not None
        ends[instance.jobs[finished].name] = engine.now
    return FreeRun(
        {job.name: engine.times(index) for index, job in enumerate(instance.jobs)},
        ends,
        dict(zip(engine.links, engine.carried(), strict=True)),
        engine.trace(),
    )


def column(run: SimulationResult, name: str) -> dict[str, Any]:
    """Return a column of the jobs by their names."""
    return dict(zip(run.jobs["job"], run.jobs[name].tolist(), strict=True))


def job_table(run: SimulationResult) -> dict[str, dict[str, Any]]:
    """Return the rows of the jobs by their names."""
    rows = run.jobs.set_index("job").to_dict("index")
    return {
        str(job): {str(name): value for name, value in row.items()} for job, row in rows.items()
    }
