"""Results of simulations, as tidy tables: jobs and links."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metronome_opt.engine.engine import Engine

if TYPE_CHECKING:
    import pandas as pd


class Groups(NamedTuple):
    """Numbers of sets of two or more jobs that share links which they could overload.

    Attributes
    ----------
    met
        All of them.
    fitting
        Those for which windows exist at periods as they are.
    gated
        Those of which a job was gated.
    """

    met: int
    fitting: int
    gated: int


@dataclass(frozen=True)
class SimulationResult:
    """Result of a simulation. Equal arguments give equal results.

    Attributes
    ----------
    jobs
        One row per job: job, model, priority, workers, gpus, arrival_s, start_s, end_s, queueing_s,
        completion_s (from arrival to end), iterations (done), finished, ideal_ms (its shortest
        iteration in the empty cluster), alone_ms (its isolated iteration in its last placement),
        iteration_mean_ms, iteration_p99_ms (of the first 4096 at most), iteration_min_ms,
        iteration_max_ms, rephasings, moves, nodes, racks, and early_gbit: what its tasks had sent
        when the last job arrived, as if each were on a node of its own, so that traffic counts
        wherever it goes. NaN where unknown.
    links
        One row per link: link, capacity_mbps, carried_gbit (NaN where jobs do not contend for
        links, which then carry more than they can), used_s (with at least one job placed across
        it).
    trace
        Rates on the watched links: time_ms, link, job, rate_mbps (of all flows of the job there,
        from then on).
    makespan_s
        Departure of the last job, or the horizon.
    events
        Number of events.
    estimate
        Estimate, at the placements of the jobs, of the least time that all of them run together
        over the time that their isolated iterations take (see `simulation.progress`); None if not
        asked for.
    groups
        Sets of jobs that could delay one another at an arrival or a departure.
    """

    jobs: pd.DataFrame
    links: pd.DataFrame
    trace: pd.DataFrame
    makespan_s: float
    events: int
    estimate: float | None = None
    groups: Groups | None = None


JobRow = dict[str, Any]
"""Part of a row of `SimulationResult.jobs`, by column."""

_COLUMNS = (
    *("job", "model", "priority", "workers", "gpus", "arrival_s", "start_s", "end_s", "queueing_s"),
    *("completion_s", "iterations", "finished", "ideal_ms", "alone_ms", "iteration_mean_ms"),
    *("iteration_p99_ms", "iteration_min_ms", "iteration_max_ms", "rephasings", "moves"),
    *("nodes", "racks", "early_gbit"),
)


def make_result(
    engine: Engine,
    rows: Sequence[JobRow],
    *,
    used_ms: Mapping[str, float],
    estimate: float | None = None,
    groups: Groups | None = None,
) -> SimulationResult:
    """Return the tables of a finished run.

    Rows have what the engine does not know of its jobs; `used_ms` has the time in which jobs were
    placed across links, by name.
    """
    import pandas as pd

    jobs = [_complete(engine, index, row) for index, row in enumerate(rows)]
    makespan = max((row["end_s"] for row in jobs), default=0.0)
    if not all(row["finished"] for row in jobs):
        makespan = engine.now / 1000
    links = pd.DataFrame(
        {
            "link": list(engine.links),
            "capacity_mbps": engine.capacities,
            "carried_gbit": engine.carried() / 1e6 if engine.has_contention else math.nan,
            "used_s": [used_ms.get(name, 0.0) / 1000 for name in engine.links],
        }
    )
    return SimulationResult(
        jobs=pd.DataFrame(jobs, columns=list(_COLUMNS)),
        links=links,
        trace=engine.trace(),
        makespan_s=makespan,
        events=engine.events,
        estimate=estimate,
        groups=groups,
    )


def _complete(engine: Engine, index: int, row: JobRow) -> JobRow:
    mean, shortest, longest = engine.iteration_range(index)
    times = engine.times(index)
    row = {"start_s": math.nan, "end_s": math.nan, "moves": 0, **row}
    return {
        **row,
        "queueing_s": row["start_s"] - row["arrival_s"],
        "completion_s": row["end_s"] - row["arrival_s"],
        "iterations": engine.done(index),
        "finished": not math.isnan(row["end_s"]),
        "iteration_mean_ms": mean,
        "iteration_p99_ms": float(np.percentile(times, 99)) if len(times) else math.nan,
        "iteration_min_ms": shortest,
        "iteration_max_ms": longest,
        "rephasings": engine.rephasings(index),
    }
