"""Iteration times of jobs before and after, as simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from metronome_opt.instance import Instance
from metronome_opt.slowdown.times import Times

if TYPE_CHECKING:
    import pandas as pd

NOTICEABLE = 0.01  # of an iteration; less is chance


def jobs_frame(
    instance: Instance, times: Times, stretch: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """Return one row per job: its period and its iteration before and after.

    Parameters
    ----------
    instance
        The problem.
    times
        Iteration times before and after.
    stretch
        Idle slots per job name in the schedule after.

    Returns
    -------
    DataFrame
        Indexed by job, in the order of the instance. Columns ``weight``, ``period_ms``,
        ``stretch_ms``, ``before_ms``, ``after_ms``, ``change_ms`` and ``change_percent`` (of the
        iteration before); times in milliseconds, floats to read and plot.
    """
    import pandas as pd

    rows = []
    for job in instance.jobs:
        old, new = times.before[job.name], times.after[job.name]
        rows.append(
            {
                "job": job.name,
                "weight": job.weight,
                "period_ms": job.period * instance.slot_ms,
                "stretch_ms": (stretch or {}).get(job.name, 0) * instance.slot_ms,
                "before_ms": float(old),
                "after_ms": float(new),
                "change_ms": float(new - old),
                "change_percent": 100 * float(new / old - 1),
            }
        )
    return pd.DataFrame(rows).set_index("job")
