"""How many steps a kernel may take before somebody looks at the clock again."""

from __future__ import annotations

import time
from collections.abc import Iterator

from metronome_opt.solvers.search import Search

_TICK_S = 0.01  # between two looks
_LONGEST_TICK_S = 0.1  # the same where each look takes long
# A thread may have to wait for the interpreter before it can look at anything. Slices measured with
# these waits would become ever shorter, so work is measured by what the thread computes, and takes
# so many times as long as the wait.
_WORK_PER_WAIT = 4
_GROWTH = 8  # of a slice over the one before, at most


class Pace:
    """The clock of a part of a run, and how fast it goes.

    Where the time does not run out, nothing depends on the clock but where work is cut into slices.

    Parameters
    ----------
    search
        The run.
    share
        Of the time that is left to it, the most that this part may take.

    Attributes
    ----------
    slice
        How many steps may be taken until the next look.
    """

    def __init__(self, search: Search, share: float) -> None:
        self._search = search
        self.slice = 1
        self._rate = 0.0
        self.allot(share)

    def allot(self, share: float) -> None:
        """Set the clock anew, to a share of the time that is left now."""
        left = self._search.remaining
        self._deadline = None if left is None else self._search.elapsed + share * left

    @property
    def over(self) -> bool:
        """Whether to return now."""
        if self._search.stopped:
            return True
        return self._deadline is not None and self._search.elapsed >= self._deadline

    @property
    def affordable(self) -> int | None:
        """How many steps the time will do for, going by the last slices; None without a limit."""
        if self._deadline is None:
            return None
        return int(self._rate * max(0.0, self._deadline - self._search.elapsed))

    def slices(self, steps: int) -> Iterator[int]:
        """Cut so many steps into slices; end early when the time is over."""
        while steps > 0 and not self.over:
            part = min(steps, self.slice)
            began, computed = self._search.elapsed, time.thread_time()
            yield part
            spent = max(self._search.elapsed - began, 1e-9)
            worked = max(time.thread_time() - computed, 1e-9)
            steps -= part
            if part == self.slice:
                self._rate = part / spent
                tick = min(_LONGEST_TICK_S, max(_TICK_S, _WORK_PER_WAIT * (spent - worked)))
                self.slice = max(1, min(_GROWTH * part, int(part / worked * tick)))
