"""What the simulator makes of an instance, in terms that the references share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from metronome_opt.instance import Instance
from metronome_opt.simulate.conditions import TCP, Conditions, Sharing, TcpShares
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.measures import Run
from metronome_opt.simulate.runner import Runner, Slot

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FreeRun:
    """What came of jobs without a policy.

    Attributes
    ----------
    times
        How long each iteration of each job took, in ms.
    ends
        When the last iteration of each job ended, in ms.
    carried, busy, over
        Per link: volume in Mbit/s * ms, time with a burst and time with too much demand, in ms.
    trace
        All rates on all links.
    """

    times: Mapping[str, NDArray[np.float64]]
    ends: Mapping[str, float]
    carried: Mapping[str, float]
    busy: Mapping[str, float]
    over: Mapping[str, float]
    trace: pd.DataFrame


def engine_of(
    instance: Instance, iterations: int = 1, sharing: str = "fair", **more: Any
) -> Engine:
    """Return an engine that the jobs of an instance may enter, all links watched."""
    capacities = {link.name: link.capacity for link in instance.links}
    return Engine(
        capacities,
        Runner.of_instance(instance, iterations),
        sharing=cast(Sharing, sharing),
        watched=list(capacities),
        **more,
    )


def free_run(
    instance: Instance,
    offsets: Mapping[str, int],
    iterations: int,
    sharing: str = "fair",
    conditions: Conditions | None = None,
    seed: int = 0,
    stretch: Mapping[str, int] | None = None,
    tcp: TcpShares = TCP,
) -> FreeRun:
    """Let jobs run from their offsets on, a number of iterations each.

    They keep slots, all in step, if it is said how far each is stretched.
    """
    engine = engine_of(instance, iterations, sharing, conditions=conditions, seed=seed, tcp=tcp)
    for index, job in enumerate(instance.jobs):
        slot = None
        if stretch is not None:
            slot = Slot(float((job.period + stretch[job.name]) * instance.slot_ms))
        engine.enter(index, job.links, at=float(offsets[job.name] * instance.slot_ms), slot=slot)
    ends = {}
    for _ in instance.jobs:
        finished = engine.run(math.inf)
        assert finished is not None
        ends[instance.jobs[finished].name] = engine.now
    busy, over = engine.busy()
    return FreeRun(
        {job.name: engine.times(index) for index, job in enumerate(instance.jobs)},
        ends,
        dict(zip(engine.links, engine.carried(), strict=True)),
        dict(zip(engine.links, busy, strict=True)),
        dict(zip(engine.links, over, strict=True)),
        engine.trace(),
    )


def column(run: Run, name: str) -> dict[str, Any]:
    """Return a column of the jobs by their names."""
    return dict(zip(run.jobs["job"], run.jobs[name].tolist(), strict=True))


def job_table(run: Run) -> dict[str, dict[str, Any]]:
    """Return the rows of the jobs by their names."""
    rows = run.jobs.set_index("job").to_dict("index")
    return {
        str(job): {str(name): value for name, value in row.items()} for job, row in rows.items()
    }
