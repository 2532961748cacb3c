"""Choices of stretches, and instances at stretched periods.

Each job may extend its period by a few idle slots. A link repeats itself after the least common
multiple of the periods on it, its hyperperiod; bursts of periods with a small one interleave best.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance

_MAX_CHOICES = 5000
"""Of stretches, all of which are tried."""


def list_choices(part: Instance) -> tuple[list[dict[str, int]], bool]:
    """Return the stretches to try, those of the shortest hyperperiods first; and if these are all.

    All of them where they are few. Otherwise all jobs have periods that are multiples of a base,
    each the shortest one, and every base is tried.

    Raises
    ------
    InputError
        If none of them brings the hyperperiods within the limit.
    """
    jobs = part.jobs
    few = math.prod(job.max_stretch + 1 for job in jobs) <= _MAX_CHOICES
    tried: Iterable[tuple[int, ...]]
    if few:
        tried = itertools.product(*(range(job.max_stretch + 1) for job in jobs))
    else:
        bases = range(1, max(job.period + job.max_stretch for job in jobs) + 1)
        tried = (tuple(-job.period % base for job in jobs) for base in bases)
    allowed = {}
    for slots in tried:
        if all(mine <= job.max_stretch for mine, job in zip(slots, jobs, strict=True)):
            periods = [job.period + mine for job, mine in zip(jobs, slots, strict=True)]
            users = part.jobs_on.values()
            multiples = [math.lcm(*(periods[index] for index in each)) for each in users]
            if max(multiples, default=1) <= part.hyperperiod_limit:
                allowed[slots] = sum(multiples)
    if not allowed:
        longest = max(part.hyperperiods, key=part.hyperperiods.__getitem__)
        raise InputError(
            f"max_stretch: {'no' if few else 'found no'} stretches of the {len(jobs)} jobs around "
            f"link {quote(longest)} that give every link a hyperperiod of at most "
            f"{part.hyperperiod_limit} slots; allow more stretch, coarsen the slots or raise the "
            "limit"
        )
    names = [job.name for job in jobs]
    ranked = sorted(allowed, key=allowed.__getitem__)
    return [dict(zip(names, slots, strict=True)) for slots in ranked], few


def stretch_cost(instance: Instance, stretch: Mapping[str, int]) -> Fraction:
    """Return the objective ``stretch``: the sum of ``weight * stretch / period``."""
    return sum(
        (Fraction(job.weight * stretch[job.name], job.period) for job in instance.jobs), Fraction(0)
    )


def stretched(instance: Instance, stretch: Mapping[str, int]) -> Instance:
    """Return the instance with its jobs stretched for good.

    They may not be stretched further, but for a job that runs now at an offset beyond its new
    period: it keeps as much stretch as makes that offset one of its own. It has to move, and this
    has to count.

    Raises
    ------
    InputError
        If a link's hyperperiod is above the limit of the instance then.
    """
    jobs = []
    for job in instance.jobs:
        period = job.period + stretch[job.name]
        beyond = 0 if job.current_offset is None else max(0, job.current_offset + 1 - period)
        jobs.append(job.model_copy(update={"period": period, "max_stretch": beyond}))
    return instance.replace(jobs=tuple(jobs))
