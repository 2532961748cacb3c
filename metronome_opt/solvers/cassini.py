"""The published baseline: rotations link by link on a circle of 5-degree steps, then joined.

For every link that several jobs share, the circle has the hyperperiod H as its perimeter. Job j
goes around it r_j = H / T_j times and may be rotated by ``0 <= Delta_j < 2 pi / r_j``, in steps of
5 degrees. Those rotations are taken whose compatibility ``1 - sum_t max(0, D(t) - C) / (H C)`` is
best. They are joined over the affinity graph, whose edges join jobs and links; the weight w_jl of
an edge is the rotation, in slots, that link l wants for job j. Only differences count. So start
with some job as it stands and go breadth-first; a job k met over link l from a job j at t_j gets

    t_k = (t_j - w_jl + w_kl) mod T_k.

Where the graph is acyclic, every link ends up rotated rigidly and keeps its score.

What is ours, where the paper leaves room or the model differs:

- k steps are ``floor(k H / 72)`` slots; on a circle of fewer than 72 slots a step is one slot. The
  score is computed over all slots, not only those at the steps. On a long circle the step may
  exceed a period, and the job cannot be rotated at all.
- The best rotations are found by branch and bound, which is exact. A link whose search is too long
  keeps the best that was met; a note says how many did.
- Among equally good rotations the first that were met are taken, smaller ones first.
- Links that can carry the peaks of all their jobs at once score 1 whatever one does: no edges.
  Links equal in capacity, jobs and flows have equal optima: they are taken as one, since they would
  form a cycle.
- A fixed job is not rotated, and all others on its links are rotated against it.
- The score knows no weights, and so the whole method does not.
- The paper discards placements whose graph has a cycle. Here the placement is given, and an edge
  that leads to a job which has its offset already is omitted.

Source: CASSINI, Network-Aware Job Scheduling in Machine Learning Clusters (NSDI 2024, arXiv
2308.00852).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from metronome_opt.problem.instance import Instance, Link
from metronome_opt.solvers.kernels.compiled_instance import compile_instance
from metronome_opt.solvers.kernels.jobs import put_job
from metronome_opt.solvers.kernels.rotation_search import is_done, start_rotations, try_offsets
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun

_Rotations = Mapping[str, Mapping[str, int]]
_STEPS = 72  # of 5 degrees
_CHUNK = 10_000_000  # slots to score between two readings of the clock, some 20 ms
_CHUNKS = 200  # per link, at most: not a number of seconds, so that runs can be repeated


class _TimeShifts(NamedTuple):
    """Slots per job, and how many edges would close a cycle and are omitted."""

    offsets: Mapping[str, int]
    closing: int


def run(search: SolverRun) -> None:
    """Rotate link by link, join the rotations, offer the one schedule that comes out.

    Links that are not reached within the time limit have no edges.
    """
    rotations, missed, shared = _rotations(search.instance, _CHUNKS, lambda: search.stopped)
    shifts = _time_shifts(search.instance, rotations)
    search.offer([shifts.offsets[job.name] for job in search.instance.jobs], "cassini")
    if missed:
        search.notes.append(
            f"{missed} of {shared} shared links may have better rotations: "
            "their search was cut short"
        )
    if shifts.closing:
        edges = sum(len(wanted) for wanted in rotations.values())
        search.notes.append(
            f"{shifts.closing} of {edges} edges of the affinity graph close a cycle and are left "
            "out; CASSINI would discard this placement"
        )


def shifts_of(instance: Instance, chunks: int) -> _TimeShifts:
    """Return the time shifts after some chunks of search on every link, whatever the clock says.

    Raises
    ------
    InputError
        If some cost cannot be computed in 64-bit integers.
    """
    return _time_shifts(instance, _rotations(instance, chunks, lambda: False)[0])


def _rotations(
    instance: Instance, chunks: int, stopped: Callable[[], bool]
) -> tuple[_Rotations, int, int]:
    """Return the rotations that links want, how many of them may want better ones, and of what.

    Links are searched alternately, so that a hard one does not take the time of all others.
    """
    simple = simplify_links(instance)
    shared = [link for link in simple.links if len(simple.jobs_on[link.name]) > 1]
    circles = []
    for link in shared:
        if stopped():
            break
        circles.append(_Circle(simple, link))
    for _ in range(chunks):
        for circle in circles:
            if not (is_done(circle.search) or stopped()):
                circle.go_on()
    missed = len(shared) - sum(is_done(circle.search) for circle in circles)
    return {circle.name: circle.rotations for circle in circles}, missed, len(shared)


class _Circle:
    """A link with the hyperperiod of its jobs bent to a circle, and the search on it.

    It has rotations from the start, those that the first steps of the search lead to.
    """

    def __init__(self, instance: Instance, link: Link) -> None:
        self.name = link.name
        users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
        self._jobs = tuple(
            job.model_copy(update={"weight": 1, "links": {link.name: job.links[link.name]}})
            for job in users
        )
        hyperperiod = instance.hyperperiods[link.name]
        self._state = compile_instance(instance.replace(links=(link,), jobs=self._jobs)).empty()
        for index, job in enumerate(self._jobs):
            if job.fixed_offset is not None:
                put_job(self._state, index, job.fixed_offset, 1)
        around = min(_STEPS, hyperperiod)
        # All can be rotated by so much and stay in step, the fixed jobs where they are: the steps
        # repeat after H / gcd(H, 72) slots, and within a period that is a multiple.
        again = hyperperiod // math.gcd(hyperperiod, around)
        held = [job for job in self._jobs if job.fixed_offset is not None or job.period % again]
        allowed = [
            [k * hyperperiod // around for k in range(-(-around * job.period // hyperperiod))]
            if job.fixed_offset is None
            else []
            for job in self._jobs
        ]
        self.search = start_rotations(
            allowed,
            [job.unshifted for job in self._jobs],
            math.lcm(again, *(job.period for job in held)),
        )
        self._nodes = max(1, _CHUNK // (hyperperiod * len(self._jobs)))
        # Going straight down takes one node for every job and one to see that all are placed.
        try_offsets(self._state, self.search, len(self._jobs) + 1)

    def go_on(self) -> None:
        """Search for a while."""
        try_offsets(self._state, self.search, self._nodes)

    @property
    def rotations(self) -> dict[str, int]:
        """The best rotations so far, in slots by job name."""
        return {job.name: int(at) for job, at in zip(self._jobs, self.search.best, strict=True)}


def _time_shifts(instance: Instance, rotations: _Rotations) -> _TimeShifts:
    """Join the rotations that the links want, by link and job; those of a fixed job are its offset.

    The fixed jobs are visited first, all of them from the start, so that no link rotates them. They
    connect nothing. A component without fixed jobs starts with its first job, in the order of the
    instance, where it would be unshifted. A job without edges stays there.
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
                shift = offsets[name] - wanted[name]
                for other, rotation in wanted.items():
                    if other not in offsets:
                        offsets[other] = (shift + rotation) % periods[other]
                        waiting.append(other)
                    elif other != name and instance.job(other).fixed_offset is None:
                        closing += 1
    return _TimeShifts(offsets, closing)
