"""Contacts of bursts: the shifts of two jobs at which an optimal schedule may hang together.

Shift some of the jobs rigidly against the others. The contention is piecewise linear in the shift,
and, unserved bandwidth being convex and increasing in demand, it bends upwards only where the end
of a burst of the one meets the beginning of a burst of the other on a common link: there alone can
a minimum be that is not also reached on both sides. Moving on in a direction that does no harm
therefore ends where two bursts abut. So there is an optimal schedule in which the jobs hang
together by such contacts, all of them, as far as contacts are possible at all; where they are not,
the shift does not matter. A *contact* of jobs i and j is a difference ``offset_j - offset_i``
modulo the gcd of their periods at which this happens.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import networkx as nx
import numpy as np

from metronome_opt.problem.instance import Job
from metronome_opt.solvers.kernels.compiled_instance import CompiledInstance, Ints


class Contacts(NamedTuple):
    """The contacts of all ordered pairs of jobs that share a link that can be overloaded."""

    ptr: Ints  # ``ptr[j]:ptr[j + 1]`` are the entries of job j in the two that follow
    other: Ints  # job
    modulus: Ints  # the gcd of the two periods
    difference_ptr: Ints  # per entry, where its differences are
    difference: Ints  # ``offset_j - offset_other`` modulo `modulus`
    component: Ints  # per job, which part of the graph of possible contacts it belongs to


def contacts_of(compiled: CompiledInstance) -> Contacts:
    """Return the contacts of an instance."""
    jobs = compiled.instance.jobs
    edges = [_edges(job) for job in jobs]
    graph = nx.empty_graph(len(jobs))
    ptr, other, modulus, difference_ptr, difference = [0], [], [], [0], []
    for j, others in enumerate(compiled.sharing()):
        for i in others:
            divisor = math.gcd(jobs[i].period, jobs[j].period)
            meets = _differences(edges[i], edges[j], divisor)
            if not meets:
                continue
            graph.add_edge(i, j)
            other.append(i)
            modulus.append(divisor)
            difference += meets
            difference_ptr.append(len(difference))
        ptr.append(len(other))
    component = np.zeros(len(jobs), dtype=np.int64)
    for number, members in enumerate(nx.connected_components(graph)):
        component[list(members)] = number
    return Contacts(
        ptr=np.array(ptr, dtype=np.int64),
        other=np.array(other, dtype=np.int64),
        modulus=np.array(modulus, dtype=np.int64),
        difference_ptr=np.array(difference_ptr, dtype=np.int64),
        difference=np.array(difference, dtype=np.int64),
        component=component,
    )


def _edges(job: Job) -> tuple[set[int], set[int]]:
    """Return the slots of the period at which the rate goes up, and at which it goes down."""
    rate = dict.fromkeys((mark for phase in job.phases for mark in (phase.start, phase.end)), 0)
    rate = {mark % job.period: 0 for mark in rate}
    for phase in job.phases:
        for mark in rate:
            if phase.start <= mark < phase.end:
                rate[mark] += phase.rate
    marks = sorted(rate)
    steps = [*pairwise(marks), (marks[-1], marks[0])]
    up = {after for before, after in steps if rate[after] > rate[before]}
    down = {after for before, after in steps if rate[after] < rate[before]}
    return up, down


def _differences(
    first: tuple[set[int], set[int]], second: tuple[set[int], set[int]], divisor: int
) -> list[int]:
    """Return at which shifts of the second against the first an end meets a beginning."""
    (up, down), (my_up, my_down) = first, second
    meets = {(theirs - mine) % divisor for theirs in up for mine in my_down}
    meets |= {(theirs - mine) % divisor for theirs in down for mine in my_up}
    return sorted(meets)
