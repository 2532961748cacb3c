"""Costs and gains of a schedule: iterations and unserved bandwidth, by job and by priority class.

An iteration is predicted to take the period of its job and the elongation that the judge computes;
what was there before is not always known, since jobs that must be stretched to share a link at all
cannot be judged as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from metronome_opt.instance import Instance, Job
from metronome_opt.verify import Evaluation

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PriorityClass:
    """What the jobs of one weight pay and gain, exact.

    Attributes
    ----------
    weight
        None stands for all jobs together.
    jobs, faster, slower
        How many there are, and how many have shorter or longer iterations than before.
    iteration_before, iteration_after
        Mean over the jobs of the predicted iteration time, a share of the period.
    unserved_before, unserved_after
        Mean unserved bandwidth, summed over jobs and links, Mbit/s.
    """

    weight: int | None
    jobs: int
    faster: int | None
    slower: int | None
    iteration_before: Fraction | None
    iteration_after: Fraction
    unserved_before: Fraction | None
    unserved_after: Fraction


def priority_classes(
    instance: Instance, before: Evaluation | None, after: Evaluation
) -> tuple[PriorityClass, ...]:
    """Return the priority classes, the heaviest first, and all jobs together at the end.

    Parameters
    ----------
    instance
        The problem.
    before, after
        What the judge says of two schedules of it; None where that is not known.
    """
    weights = sorted({job.weight for job in instance.jobs}, reverse=True)
    return tuple(_priority_class(instance, weight, before, after) for weight in (*weights, None))


def _priority_class(
    instance: Instance, weight: int | None, before: Evaluation | None, after: Evaluation
) -> PriorityClass:
    jobs = [job for job in instance.jobs if weight in (None, job.weight)]
    return PriorityClass(
        weight=weight,
        jobs=len(jobs),
        faster=None if before is None else _count_less(jobs, after, before),
        slower=None if before is None else _count_less(jobs, before, after),
        iteration_before=None if before is None else _mean_iteration(jobs, before),
        iteration_after=_mean_iteration(jobs, after),
        unserved_before=None if before is None else _unserved(jobs, before),
        unserved_after=_unserved(jobs, after),
    )


def _count_less(jobs: Sequence[Job], one: Evaluation, other: Evaluation) -> int:
    """Return how many jobs have shorter iterations in one schedule than in the other."""
    return sum(one.elongation[job.name] < other.elongation[job.name] for job in jobs)


def _mean_iteration(jobs: Sequence[Job], judged: Evaluation) -> Fraction:
    shares = [1 + judged.elongation[job.name] / job.period for job in jobs]
    return sum(shares, Fraction(0)) / len(shares)


def _unserved(jobs: Sequence[Job], judged: Evaluation) -> Fraction:
    return sum((judged.unserved[job.name] for job in jobs), Fraction(0))


# ------------------------------------------------------------------ frames


def jobs_frame(
    instance: Instance,
    before: Evaluation | None,
    after: Evaluation,
    stretch: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """Return one row per job: its period and its predicted iteration before and after.

    Parameters
    ----------
    instance
        The problem.
    before, after
        What the judge says of two schedules of it; what is not known before is missing (``<NA>``).
    stretch
        Idle slots per job name in the schedule after; `after` includes them already.

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
        new = job.period + after.elongation[job.name]
        old = None if before is None else job.period + before.elongation[job.name]
        rows.append(
            {
                "job": job.name,
                "weight": job.weight,
                "period_ms": job.period * instance.slot_ms,
                "stretch_ms": (stretch or {}).get(job.name, 0) * instance.slot_ms,
                "before_ms": _float(old, instance.slot_ms),
                "after_ms": _float(new, instance.slot_ms),
                "change_ms": None if old is None else _float(new - old, instance.slot_ms),
                "change_percent": None if old is None else _float(new / old - 1, 100),
            }
        )
    measured = ("before_ms", "after_ms", "change_ms", "change_percent")
    return pd.DataFrame(rows).set_index("job").astype(dict.fromkeys(measured, "Float64"))


def classes_frame(instance: Instance, before: Evaluation | None, after: Evaluation) -> pd.DataFrame:
    """Return `priority_classes` as a frame, one row per class and one called ``all``.

    Returns
    -------
    DataFrame
        Indexed by weight, with the other attributes of `PriorityClass` as columns; what is not
        known is missing (``<NA>``), values are floats to read and plot.
    """
    import pandas as pd

    classes = priority_classes(instance, before, after)
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


def _float(value: Fraction | None, unit: int = 1) -> float | None:
    return None if value is None else float(value * unit)
