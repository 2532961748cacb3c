"""Costs and gains of a schedule: iterations and unserved bandwidth, by job and by priority class.

Iterations take as long as they do when the jobs run. What links lacked before is not always known,
since jobs that must be stretched to share a link at all cannot be judged as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from metronome_opt.instance import Instance, Job
from metronome_opt.slowdown.times import Times
from metronome_opt.verify import Evaluation

if TYPE_CHECKING:
    import pandas as pd

NOTICEABLE = Fraction(1, 100)  # of an iteration; less is chance


@dataclass(frozen=True)
class PriorityClass:
    """What the jobs of one weight pay and gain, exact.

    Attributes
    ----------
    weight
        None stands for all jobs together.
    jobs, faster, slower
        How many there are, and how many have iterations that are shorter or longer than before by
        more than 1 %; None where nobody let them run.
    iteration_before, iteration_after
        Mean over the jobs of the iteration time, a share of the period; None likewise.
    unserved_before, unserved_after
        Mean unserved bandwidth, summed over jobs and links, Mbit/s.
    """

    weight: int | None
    jobs: int
    faster: int | None
    slower: int | None
    iteration_before: Fraction | None
    iteration_after: Fraction | None
    unserved_before: Fraction | None
    unserved_after: Fraction


def priority_classes(
    instance: Instance, before: Evaluation | None, after: Evaluation, times: Times | None = None
) -> tuple[PriorityClass, ...]:
    """Return the priority classes, the heaviest first, and all jobs together at the end.

    Parameters
    ----------
    instance
        The problem.
    before, after
        What the judge says of two schedules of it; None where that is not known.
    times
        Iteration times under the two; None where nobody let the jobs run.
    """
    weights = sorted({job.weight for job in instance.jobs}, reverse=True)
    return tuple(
        _priority_class(instance, weight, before, after, times) for weight in (*weights, None)
    )


def _priority_class(
    instance: Instance,
    weight: int | None,
    before: Evaluation | None,
    after: Evaluation,
    times: Times | None,
) -> PriorityClass:
    jobs = [job for job in instance.jobs if weight in (None, job.weight)]
    old, new = times or (None, None)
    return PriorityClass(
        weight=weight,
        jobs=len(jobs),
        faster=None if old is None or new is None else _count_less(jobs, new, old),
        slower=None if old is None or new is None else _count_less(jobs, old, new),
        iteration_before=None if old is None else _mean_iteration(instance, jobs, old),
        iteration_after=None if new is None else _mean_iteration(instance, jobs, new),
        unserved_before=None if before is None else _unserved(jobs, before),
        unserved_after=_unserved(jobs, after),
    )


def _count_less(
    jobs: Sequence[Job], one: Mapping[str, Fraction], other: Mapping[str, Fraction]
) -> int:
    """Return how many jobs have noticeably shorter iterations in one case than in the other."""
    return sum(one[job.name] * (1 + NOTICEABLE) < other[job.name] for job in jobs)


def _mean_iteration(
    instance: Instance, jobs: Sequence[Job], times: Mapping[str, Fraction]
) -> Fraction:
    shares = [times[job.name] / (job.period * instance.slot_ms) for job in jobs]
    return sum(shares, Fraction(0)) / len(shares)


def _unserved(jobs: Sequence[Job], judged: Evaluation) -> Fraction:
    return sum((judged.unserved[job.name] for job in jobs), Fraction(0))


# ------------------------------------------------------------------ frames


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


def classes_frame(
    instance: Instance, before: Evaluation | None, after: Evaluation, times: Times | None = None
) -> pd.DataFrame:
    """Return `priority_classes` as a frame, one row per class and one called ``all``.

    Returns
    -------
    DataFrame
        Indexed by weight, with the other attributes of `PriorityClass` as columns; what is not
        known is missing (``<NA>``), values are floats to read and plot.
    """
    import pandas as pd

    classes = priority_classes(instance, before, after, times)
    index = pd.Index(
        ["all" if each.weight is None else each.weight for each in classes],
        dtype=object,
        name="weight",
    )
    counts = ("jobs", "faster", "slower")
    values = ("iteration_before", "iteration_after", "unserved_before", "unserved_after")
    columns = {
        **{name: pd.array([getattr(each, name) for each in classes], "Int64") for name in counts},
        **{
            name: pd.array([_float(getattr(each, name)) for each in classes], "Float64")
            for name in values
        },
    }
    return pd.DataFrame(columns, index=index)


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
