"""What a run may take, and when it has to stop."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction

from metronome_opt.multiobjective.goals import Goal
from metronome_opt.result import Stop
from metronome_opt.solvers.registry import Solver
from metronome_opt.solvers.search import Callback


@dataclass(frozen=True)
class Run:
    """What is asked for, and what it may take.

    Attributes
    ----------
    time_limit
        Seconds since `started`, None for no limit.
    """

    goal: Goal
    solver: str | Solver
    time_limit: float | None
    seed: int
    workers: int
    callback: Callback | None = None
    started: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self.elapsed)

    def share(self, part: Fraction) -> float | None:
        """Return a part of the seconds that are left."""
        return None if self.remaining is None else self.remaining * float(part)


class Clock:
    """When to stop: at the time limit, at Ctrl-C, or when the callback says so."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._stop: Stop | None = None

    @property
    def stopped(self) -> bool:
        """Whether to return what there is."""
        if self._stop is None and self._run.remaining == 0.0:
            self._stop = Stop.TIME_LIMIT
        return self._stop is not None

    @property
    def stop(self) -> Stop:
        """Why the search ended."""
        return self._stop if self.stopped and self._stop else Stop.FINISHED

    def interrupt(self) -> None:
        """Return what there is."""
        self._stop = Stop.INTERRUPTED

    def call_off(self) -> None:
        """Return what there is because the callback said so."""
        self._stop = self._stop or Stop.CALLBACK
