"""Reductions: smaller instances of the same optimum, and the way back from their schedules.

Coarser slots: count each job's offset from the beginning of its first burst, so that only lengths
and distances matter. Take an optimal schedule and let g divide all periods, distances of burst
boundaries and fixed offsets. Jobs whose offsets agree modulo g form a class. Shift one class
rigidly: as long as no boundary of it meets one of another class, the contention changes linearly,
so one of the two directions does no harm. Go there until two classes agree. In the end all do, and,
unless a fixed job determines it, rotating everything brings them to 0 modulo g.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping

from metronome_opt.problem.instance import Instance, Job, Link

Offsets = Mapping[str, int]
Restore = Callable[[Offsets], dict[str, int]]


def _grid_of(instance: Instance) -> int:
    """Return the largest slot length, in slots, that keeps the optimum."""
    lengths = []
    for job in instance.jobs:
        first = _first(job)
        lengths.append(job.period)
        lengths += [size for phase in job.phases for size in (phase.start - first, phase.length)]
        if job.fixed_offset is not None:
            lengths.append(job.fixed_offset + first)
    return math.gcd(*lengths)


def coarsen(instance: Instance) -> tuple[Instance, Restore]:
    """Return the instance in slots of the grid, without ready times and current offsets.

    Bursts are moved so that the first one of each job begins with its period. Also return what maps
    offsets of the smaller instance to offsets of the larger one, of the same contention.
    """
    grid = _grid_of(instance)
    jobs = tuple(_coarse(job, grid) for job in instance.jobs)

    def restore(offsets: Offsets) -> dict[str, int]:
        return {
            job.name: (offsets[job.name] * grid - _first(job)) % job.period for job in instance.jobs
        }

    return instance.replace(jobs=jobs, slot_ms=instance.slot_ms * grid), restore


def _coarse(job: Job, grid: int) -> Job:
    first = _first(job)
    fixed = job.fixed_offset
    return job.model_copy(
        update={
            "period": job.period // grid,
            "phases": tuple(
                phase.model_copy(
                    update={
                        "start": (phase.start - first) // grid,
                        "length": phase.length // grid,
                    }
                )
                for phase in job.phases
            ),
            "ready": 0,
            "max_stretch": 0,
            "fixed_offset": None if fixed is None else (fixed + first) % job.period // grid,
            "current_offset": None,
        }
    )


def _first(job: Job) -> int:
    """Return where the first burst of a job begins, in slots of its period."""
    return min(phase.start for phase in job.phases)


def simplify_links(instance: Instance) -> Instance:
    """Drop links that can carry the peaks of all their jobs at once and merge equal ones.

    Links with the same capacity and the same flows of the same jobs are overloaded by the same
    amount at the same time. n of them become one link, called like the first, with n times the
    capacity and n times the flows, so that the contention stays as it is.
    """
    equal: dict[tuple[int, tuple[tuple[int, int], ...]], list[Link]] = defaultdict(list)
    for link in instance.links:
        users = tuple(
            (index, instance.jobs[index].links[link.name]) for index in instance.jobs_on[link.name]
        )
        if sum(instance.jobs[index].peak * flows for index, flows in users) > link.capacity:
            equal[link.capacity, users].append(link)
    links = []
    flows_of: list[dict[str, int]] = [{} for _ in instance.jobs]
    for (capacity, users), group in equal.items():
        first = group[0].name
        links.append(Link(name=first, capacity=capacity * len(group)))
        for index, flows in users:
            flows_of[index][first] = flows * len(group)
    jobs = tuple(
        job.model_copy(update={"links": flows})
        for job, flows in zip(instance.jobs, flows_of, strict=True)
    )
    return instance.replace(links=tuple(links), jobs=jobs)
