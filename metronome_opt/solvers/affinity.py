"""The affinity graph of CASSINI: from rotations link by link to one offset for every job.

The graph joins jobs and links. The weight w_jl of an edge is the rotation, in slots, that link l
wants for job j. Only differences count: rotating all jobs of a link by the same amount changes
nothing there. So start with some job as it stands and go through the graph breadth-first; a job k
met over link l from a job j that has its offset t_j already gets

    t_k = (t_j - w_jl + w_kl) mod T_k.

Where the graph is acyclic, every link ends up rotated rigidly and keeps its score.

Source: CASSINI (arXiv 2308.00852), which discards placements whose graph has a cycle. Here the
placement is given. So an edge that leads to a job which has its offset already is left out: the
schedule follows the breadth-first spanning tree, and the link at that edge may not get what it
wants.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from metronome_opt.instance import Instance

Rotations = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class TimeShifts:
    """What the traversal leads to.

    Attributes
    ----------
    offsets
        Slots per job.
    closing
        How many edges would close a cycle and are left out.
    """

    offsets: Mapping[str, int]
    closing: int


def time_shifts(instance: Instance, rotations: Rotations) -> TimeShifts:
    """Join the rotations that the links want.

    The fixed jobs are visited first, all of them from the start, so that no link rotates them. They
    connect nothing. A component without fixed jobs starts with its first job, in the order of the
    instance, where it would be if nobody shifted it. A job without edges stays there.

    Parameters
    ----------
    rotations
        Per link and job; those of a fixed job are its offset.
    """
    periods = {job.name: job.period for job in instance.jobs}
    fixed = [job for job in instance.jobs if job.fixed_offset is not None]
    free = [job for job in instance.jobs if job.fixed_offset is None]
    links_of: dict[str, list[str]] = {name: [] for name in periods}
    for link, wanted in rotations.items():
        for name in wanted:
            links_of[name].append(link)
    offsets: dict[str, int] = {}
    visited: set[str] = set()
    closing = 0
    for references in (fixed, *([job] for job in free)):
        unshifted = {job.name: job.unshifted for job in references if job.name not in offsets}
        offsets |= unshifted
        waiting = deque(unshifted)
        while waiting:
            name = waiting.popleft()
            for link in links_of[name]:
                if link in visited:
                    continue
                visited.add(link)
                wanted = rotations[link]
                turn = offsets[name] - wanted[name]
                for other, rotation in wanted.items():
                    if other not in offsets:
                        offsets[other] = (turn + rotation) % periods[other]
                        waiting.append(other)
                    elif other != name and instance.job(other).fixed_offset is None:
                        closing += 1
    return TimeShifts(offsets, closing)
