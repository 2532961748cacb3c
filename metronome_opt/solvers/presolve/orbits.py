"""Smaller domains: one representative of all schedules that are rotations of one another.

Free jobs that share links, directly or through others, form a component. Rotating all of it by
the same number of slots changes no link's contention if that number is a multiple of the periods
of the fixed jobs on its links. So, going through the component's jobs in any order, job j needs
only offsets in ``[0, gcd(T_j, L_j))``, L_j the least common multiple of the periods of those fixed
jobs and of the jobs before j: a multiple of L_j leaves those where they are and takes j there.

In any order, a component keeps ``prod T_j * L / L'`` combinations, L the
multiple of the fixed jobs' periods and L' that of all periods: each gcd is ``T_j L_j / L_{j+1}``.
The order decides only whose domains are the small ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx

from metronome_opt.problem.instance import Instance, Job


class Orbit(NamedTuple):
    """Free jobs that are rotated together, in the order that decides whose domains are small."""

    held: int  # least common multiple of the periods of the fixed jobs on their links, slots
    jobs: tuple[Job, ...]

    @property
    def domains(self) -> dict[str, int]:
        """Number of offsets, from 0 on, of each job; they contain an optimal schedule."""
        domains, common = {}, self.held
        for job in self.jobs:
            domains[job.name] = math.gcd(job.period, common)
            common = math.lcm(common, job.period)
        return domains


def orbits(instance: Instance, order: Sequence[int] | None = None) -> tuple[Orbit, ...]:
    """Return the components of an instance, and so the domains that their rotations leave.

    Only contention is invariant, and with it latency, cushion and score: not for `wait` or `moves`.

    Parameters
    ----------
    order
        Indices of the jobs, every free one among them: the earlier a job, the smaller its domain.
        By default the longest period comes first, which leaves few offsets in all.
    """
    shared = nx.utils.UnionFind(link.name for link in instance.links)
    for job in instance.jobs:
        if job.fixed_offset is None and job.links:
            shared.union(*job.links)
    held: dict[str, int] = defaultdict(lambda: 1)
    for job in instance.jobs:
        if job.fixed_offset is not None:
            for link in job.links:
                held[shared[link]] = math.lcm(held[shared[link]], job.period)
    if order is None:
        order = sorted(range(len(instance.jobs)), key=lambda index: -instance.jobs[index].period)
    connected: dict[str, list[Job]] = defaultdict(list)
    alone: list[Job] = []
    for index in order:
        job = instance.jobs[index]
        if job.fixed_offset is None:
            (connected[shared[next(iter(job.links))]] if job.links else alone).append(job)
    return (
        *(Orbit(held[root], tuple(jobs)) for root, jobs in connected.items()),
        *(Orbit(1, (job,)) for job in alone),
    )
