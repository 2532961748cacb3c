"""Estimate of the least time that jobs run, at their placements.

From one arrival or departure to the next, the jobs that run and their placements stay. In the long
run no link carries more than its capacity then, and two jobs that a link cannot carry at once are
both in bursts for no more than the time that computing leaves. These constraints are linear in the
progress of jobs, relative to an isolated job, so that the greatest mean progress is the value of a
linear program, whatever windows, shifts and priorities do.

It is no bound of a run. Computing times may come out shorter than their means; an interval between
two changes is short, and jobs may begin it with computing; and another policy has other intervals,
since jobs that are served first leave sooner. Source: models/formulations/kept.md, "Progress".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from metronome_opt.simulation.state import RunningJob, SimState


class ProgressEstimate:
    """Estimate of the least mean slowdown of the jobs that run, from one change to the next."""

    def __init__(self) -> None:
        self._known: dict[object, float] = {}
        self._jobs, self._progress, self._since = 0, 1.0, 0.0
        self._done = self._spent = 0.0

    def change(self, state: SimState) -> None:
        """Count the time until now, and record the jobs that run from now on."""
        spent = self._jobs * (state.now - self._since)
        self._done, self._spent = self._done + spent * self._progress, self._spent + spent
        self._jobs, self._since = len(state.running), state.now
        running = list(state.running.values())
        key = tuple(sorted((placed.job.index, placed.placement.nodes) for placed in running))
        if key not in self._known:
            self._known[key] = _max_progress(running, state) if running else 1.0
        self._progress = self._known[key]

    @property
    def mean(self) -> float | None:
        """Time that jobs ran until now over that of the work they could do; None if none ran."""
        return self._spent / self._done if self._spent else None


def _max_progress(running: Sequence[RunningJob], state: SimState) -> float:
    """Return the greatest mean progress of jobs, by the linear program."""
    from scipy.optimize import linprog

    value = [placed.job.best_ms / placed.profile.isolated_ms for placed in running]
    rows = []
    for shares in dict.fromkeys(_constraints(running, state)):
        if sum(share for _, share in shares) > 1:
            row = np.zeros(len(running))
            for index, share in shares:
                row[index] = share
            rows.append(row)
    if not rows:
        return sum(value) / len(value)
    best = linprog(-np.array(value), A_ub=np.array(rows), b_ub=np.ones(len(rows)), bounds=(0, 1))
    return -float(best["fun"]) / len(value)


def _constraints(
    running: Sequence[RunningJob], state: SimState
) -> Iterator[tuple[tuple[int, float], ...]]:
    """Yield shares by position of the job: times progress they add up to no more than 1."""
    capacities = state.room.cluster.capacities
    positions = {placed.job.index: at for at, placed in enumerate(running)}
    patterns = [placed.profile for placed in running]
    computing = [float(sum(pattern.pauses)) / pattern.isolated_ms for pattern in patterns]
    sent = [float(1000 * pattern.volume) / pattern.isolated_ms for pattern in patterns]
    for link, users in state.users.items():
        here = sorted(positions[index] for index in users)
        flows = {at: running[at].placement.links[link] / capacities[link] for at in here}
        loads = {at: flows[at] * sent[at] for at in here}
        peaks = {at: flows[at] * patterns[at].peak for at in here}
        yield tuple(loads.items())
        for one, two in combinations(here, 2):
            if peaks[one] + peaks[two] > 1:
                yield (
                    (one, loads[one] + (1 - peaks[two]) * computing[one]),
                    (two, loads[two] + (1 - peaks[one]) * computing[two]),
                )
