"""Shares of a time, and shares of those: each ends when what it is a share of does."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """When to stop: by the time, when somebody says so, or at Ctrl-C."""

    def __init__(self, seconds: float | None, stopped: Callable[[], bool]) -> None:
        self._deadline = None if seconds is None else time.perf_counter() + seconds
        self._stopped = stopped
        self._interrupted = False

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.perf_counter())

    @property
    def over(self) -> bool:
        """Whether to return now."""
        return self._interrupted or self.remaining == 0.0 or self._stopped()

    def interrupt(self) -> None:
        """Stop at once."""
        self._interrupted = True

    def share(self, share: float) -> Deadline:
        """Return a clock for a share of the time that is left."""
        return _Part(None if self.remaining is None else share * self.remaining, self)


class _Part(Deadline):
    def __init__(self, seconds: float | None, whole: Deadline) -> None:
        super().__init__(seconds, lambda: whole.over)
        self._whole = whole

    def interrupt(self) -> None:
        self._whole.interrupt()
