"""Baseline policies that choose no placements: hosts or links decide which job sends first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from random import Random
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from metronome_opt.engine.conditions import Growth
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob
from metronome_opt.scenario.iteration import Burst, Iteration
from metronome_opt.simulation.policies.baselines import Nearest
from metronome_opt.simulation.state import JobInstruction, RunningJob, SimState

_ORDERS = 10  # topological orders that are divided into levels
_ITERATIONS = 64  # of the longer job, to find out the gain of going first
_EXACT = 1e-3  # of a link: gains of less are none


class Mltcp(Nearest):
    """Lets the share of a burst grow with what its iteration has sent, so that jobs come apart.

    A job that is ahead gets further ahead. Congestion control is omitted: rates follow the growth
    of congestion windows at once, in proportion, as in the paper's own analysis, and in 16 steps
    over an iteration. A burst that meets no other one sends as under the other policies.

    Source: MLTCP (arXiv 2402.09589, HotNets 2024); the constants are those of an author's model of
    it in ns-3.

    Parameters
    ----------
    slope, intercept
        Share of a burst, as of `Growth`.
    """

    def __init__(
        self,
        seed: int,
        *,
        slope: Annotated[float, Field(ge=0, le=1000)] = 4.0,
        intercept: Annotated[float, Field(gt=0, le=1000)] = 0.25,
    ) -> None:
        super().__init__(seed)
        self.growth = Growth(slope, intercept)


class Crux(Nearest):
    """Gives jobs of higher GPU intensity higher traffic classes, whenever jobs arrive or depart.

    The intensity is the computing of an iteration, on all GPUs of the job, over the time that its
    traffic needs on its slowest link. It is corrected by `first_gain` over the job that sends for
    the longest time. No two jobs share a class as long as there are enough.

    Source: Crux (SIGCOMM 2024, doi 10.1145/3651890.3672239). Omitted: profiling, and its own choice
    of paths, the least congested first for jobs of high intensity; where paths are chosen, they are
    those of the other policies.

    Parameters
    ----------
    levels
        Traffic classes.
    """

    def __init__(self, seed: int, *, levels: Annotated[int, Field(ge=1, le=1024)] = 8) -> None:
        super().__init__(seed)
        self._levels = levels

    def plan(
        self,
        state: SimState,
        arrived: Sequence[int],  # noqa: ARG002
        departed: Sequence[RunningJob],  # noqa: ARG002
    ) -> list[JobInstruction]:
        """Return the traffic classes of all jobs."""
        traffic = {index: _on_slowest_link(state, index) for index in state.running}
        if not traffic:
            return []
        most = max(traffic.values(), key=lambda alone: alone.volume)
        intensity = {
            index: state.running[index].job.spec.gpus
            * float(sum(alone.pauses) / (1000 * alone.volume))
            for index, alone in traffic.items()
            if alone.volume
        }
        ranked = sorted(intensity, key=lambda i: (-intensity[i] * first_gain(traffic[i], most), i))
        links = [state.running[index].placement.links.keys() for index in ranked]
        losses = np.array(
            [
                [0.0 if mine.isdisjoint(others) else intensity[index] for others in links]
                for index, mine in zip(ranked, links, strict=True)
            ]
        )
        levels = _divide_levels(np.triu(losses, 1), self._levels, Random(self._seed))  # noqa: S311
        classes = dict(zip(ranked, (self._levels - 1 - level for level in levels), strict=True))
        return [
            JobInstruction(index, traffic_class=classes.get(index, 0)) for index in state.running
        ]


def _on_slowest_link(state: SimState, index: int) -> Iteration:
    """Return the iteration of a job if its slowest link carries 1 Mbit/s."""
    placed = state.running[index]
    capacities = state.room.cluster.capacities
    flows = (Fraction(count, capacities[link]) for link, count in placed.placement.links.items())
    share, pattern = max(flows, default=Fraction(0)), placed.profile
    bursts = (Burst(b.after, share * b.volume, share * b.rate) for b in pattern.bursts)
    return Iteration(tuple(bursts), pattern.rest)


@lru_cache(maxsize=4096)
def first_gain(job: Iteration, reference: Iteration) -> float:
    """Return the gain of a job that goes first, over the gain of a reference job that goes first.

    A gain is the share of a link of 1 Mbit/s that a job uses beyond that if the other one went
    first; times its intensity it is the computing that it gains. So the order of the two that
    computes more is found. Rounded, so that ties do not depend on the order of sums.
    """
    job_first, reference_second = _used(job, reference)
    reference_first, job_second = _used(reference, job)
    gain, other = job_first - job_second, reference_first - reference_second
    if max(gain, other) < _EXACT:
        return 1.0
    return round(max(0.0, gain) / max(_EXACT, other), 9)


def _used(first: Iteration, second: Iteration) -> tuple[float, float]:
    """Return the rates of two jobs on a link of 1 Mbit/s that serves one of them first."""
    jobs = [EngineJob("first", first, traffic_class=1), EngineJob("second", second)]
    engine = Engine({"link": 1.0}, jobs)
    for index in range(2):
        engine.start_job(index, {"link": 1})
    engine.run(_ITERATIONS * (first.isolated_ms + second.isolated_ms))
    settled = [times[times.size // 2 :] for times in map(engine.times, range(2))]
    one, other = (float(times.mean()) if times.size else math.inf for times in settled)
    return float(1000 * first.volume) / one, float(1000 * second.volume) / other


def _divide_levels(losses: NDArray[np.float64], levels: int, random: Random) -> list[int]:
    """Return the level of each job, 0 for the highest, so that few losses are within levels.

    That is a maximum cut of the contention graph into `levels` parts, none of which is before
    another one and after it. It is sought by dynamic programming, over random topological orders.
    Losses of two jobs that share a link and a level have shape (jobs, jobs), positive above the
    diagonal, for jobs are in the order of their priorities; 0 if they share no link.
    """
    jobs = len(losses)
    best, division = math.inf, [0] * jobs
    for _ in range(_ORDERS):
        order = _topological_order(losses, random)
        sums = np.zeros((jobs + 1, jobs + 1))
        sums[1:, 1:] = losses[np.ix_(order, order)].cumsum(0).cumsum(1)
        ends = sums.diagonal()
        within = ends + ends[:, None] - sums - sums.T  # of one level, from row to column
        within[np.tril_indices(jobs + 1, -1)] = math.inf
        loss, begins = within[0], []
        for _ in range(levels - 1):
            begins.append((loss[:, None] + within).argmin(0))
            loss = (loss[:, None] + within).min(0)
        if loss[-1] < best:
            best, end = loss[-1], jobs
            for level in range(levels - 1, -1, -1):
                begin = int(begins[level - 1][end]) if level else 0
                for job in order[begin:end]:
                    division[job] = level
                end = begin
    return division


def _topological_order(losses: NDArray[np.float64], random: Random) -> list[int]:
    """Return jobs in a random order in which none comes before one that is above it."""
    above = (losses > 0).sum(0)
    ready, order = [int(job) for job in np.flatnonzero(above == 0)], []
    while ready:
        job = ready.pop(random.randrange(len(ready)))
        order.append(job)
        above[below := np.flatnonzero(losses[job])] -= 1
        ready += [int(job) for job in below if above[job] == 0]
    return order
