"""Stopping rules of `solve`: callables that are called at every step of a run.

>>> solve(problem, stop=[MaxRuntime(30), NoImprovement(seconds=5)])  # doctest: +SKIP
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.result import ProgressEvent

_POLL_S = 0.01  # minimum time between two calls of rules without an event


class StoppingRule(Protocol):
    """A callable that gets every new incumbent and bound, and returns True to stop the run.

    After a first event it is also called after every iteration and every hundredth of a second,
    with an event whose source is empty. Calls may come from any thread, but never two at a time.
    """

    def __call__(self, event: ProgressEvent, /) -> bool | None:
        """Return True to stop."""


@dataclass(frozen=True)
class MaxRuntime:
    """Stop after `seconds`, like ``time_limit``."""

    seconds: float

    def __call__(self, event: ProgressEvent, /) -> bool:
        """Return True to stop."""
        return event.elapsed_s >= self.seconds


@dataclass(frozen=True)
class MaxIterations:
    """Stop after `iterations`; with one thread the run is repeatable.

    An iteration is the evaluation of a schedule of the problem or of a part of it; when slowdown is
    minimised, the decision on a group of jobs.
    """

    iterations: int

    def __post_init__(self) -> None:
        _check("MaxIterations", self.iterations)

    def __call__(self, event: ProgressEvent, /) -> bool:
        """Return True to stop."""
        return event.iteration >= self.iterations


@dataclass(frozen=True)
class NoImprovement:
    """Stop if the incumbent has not improved for some iterations or seconds."""

    iterations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for limit in (self.iterations, self.seconds):
            if limit is not None:
                _check("NoImprovement", limit)
        if self.iterations is None and self.seconds is None:
            raise InputError("NoImprovement: needs iterations or seconds")

    def __call__(self, event: ProgressEvent, /) -> bool:
        """Return True to stop."""
        stalled = self.iterations is not None and event.stalled >= self.iterations
        return stalled or (self.seconds is not None and event.stalled_s >= self.seconds)


def _check(name: str, limit: float) -> None:
    if not isinstance(limit, int | float) or not 0 <= limit < math.inf:
        raise InputError(f"{name}: must be a finite number, at least 0, got {quote(limit)}")


class RuleMonitor:
    """The stopping rules of a run, with its iterations, improvements and time."""

    def __init__(self, rules: Sequence[StoppingRule]) -> None:
        self.rules = rules
        self._lock = threading.RLock()
        self._start_s = self._last_poll_s = self._improved_s = time.perf_counter()
        self._last = ProgressEvent(0.0, None, None, "")
        self._iteration = self._improved_iteration = 0
        self._is_stopped = False

    def iterate(self) -> None:
        """Count an iteration."""
        with self._lock:
            self._iteration += 1
            if self._last.source:
                self._call_rules_again()

    def note(self, event: ProgressEvent) -> bool:
        """Record a new incumbent or bound; return whether to stop."""
        with self._lock:
            # Maximised objectives improve upwards, so any change counts.
            if event.incumbent not in (None, self._last.incumbent):
                self._improved_s = time.perf_counter()
                self._improved_iteration = self._iteration
            self._last = event
            return self._call_rules(event)

    def poll(self) -> bool:
        """Return whether to stop without an event; rules are called rarely."""
        if self._is_stopped or time.perf_counter() - self._last_poll_s < _POLL_S:
            return self._is_stopped
        with self._lock:
            if not self._last.source:
                return False
            return self._call_rules_again()

    def _call_rules_again(self) -> bool:
        """Call the rules for another iteration or a later time."""
        now = time.perf_counter() - self._start_s
        return self._call_rules(
            replace(self._last, source="", elapsed_s=max(self._last.elapsed_s, now))
        )

    def _call_rules(self, event: ProgressEvent) -> bool:
        self._last_poll_s = now = time.perf_counter()
        event = replace(
            event,
            iteration=self._iteration,
            stalled=self._iteration - self._improved_iteration,
            stalled_s=now - self._improved_s,
        )
        for rule in self.rules:  # all: a rule that keeps a record must not miss an event
            self._is_stopped = bool(rule(event)) or self._is_stopped
        return self._is_stopped
