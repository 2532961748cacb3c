"""One budget of time for a run, for its parts, and for shares of those."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from metronome_opt.problem.result import ProgressEvent, StopReason
from metronome_opt.problem.stopping import RuleMonitor

T = TypeVar("T")
_TICK_S = 0.01  # between two readings of the clock
_LONGEST_TICK_S = 0.1  # the same where waits are long
_POLL_S = 0.05  # between two checks of a call that holds its thread
# A thread may have to wait for the interpreter before it can check anything. Slices measured with
# these waits would become ever shorter, so work is measured by what the thread computes, and takes
# so many times as long as the wait.
_WORK_PER_WAIT = 4
_GROWTH = 8  # of a slice over the one before, at most


class Budget:
    """Seconds that may be spent from now on. It ends when its parent does, at the latest.

    Where the time does not run out, nothing depends on the clock but where work is cut into slices.
    A solver of the user's may raise a `failure` after it has found a schedule.

    Parameters
    ----------
    seconds
        None for no limit but that of the parent.
    parent
        The budget that it is a part of.
    watch
        The stopping rules of the run; those of the parent by default.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        parent: Budget | None = None,
        watch: RuleMonitor | None = None,
    ) -> None:
        self._start = time.perf_counter()
        self._run_start: float = self._start if parent is None else parent._run_start
        self._watch: RuleMonitor | None = watch or (None if parent is None else parent._watch)
        self._seconds = seconds
        self._parent = parent
        self._ended: StopReason | None = None
        self._rate = 0.0
        self.failure: BaseException | None = None
        self._slice = 1  # steps until the clock is read again

    # ---------------------------------------------------------------- the clock

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def elapsed_of_run(self) -> float:
        """Seconds since the start of the run that this is a part of."""
        return time.perf_counter() - self._run_start

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        return None if self._seconds is None else max(0.0, self._seconds - self.elapsed)

    @property
    def had_time(self) -> bool:
        """Return True if there was any time at the start."""
        return self._seconds != 0

    def limit_to(self, seconds: float | None, parts: int = 1) -> None:
        """Let it end after its share of `seconds` from now on, one of `parts`."""
        self._seconds = None if seconds is None else self.elapsed + seconds / parts

    def child(self, seconds: float | None = None) -> Budget:
        """Return a budget of what is left, or less, which ends when this one does."""
        left = self.remaining
        known = [limit for limit in (left, seconds) if limit is not None]
        return Budget(min(known, default=None), parent=self)

    def fraction(self, share: float) -> Budget:
        """Return a budget of a share of the time that is left."""
        left = self.remaining
        return self.child(None if left is None else share * left)

    # ---------------------------------------------------------------- ends

    @property
    def stopped(self) -> bool:
        """Return True if it is time to return."""
        if self._parent is None and self._watch is not None and self._watch.poll():
            self.end(StopReason.RULE)
        return (
            self._ended is not None
            or (self._parent is not None and self._parent.stopped)
            or self.remaining == 0.0
        )

    @property
    def stop(self) -> StopReason:
        """The reason why it ended, or would end now."""
        whole = self._parent
        if whole is not None and whole.stop is StopReason.INTERRUPTED:
            return StopReason.INTERRUPTED
        if self._ended is not None:
            return self._ended
        if whole is not None and whole.stopped:
            return whole.stop
        return StopReason.TIME_LIMIT if self.remaining == 0.0 else StopReason.FINISHED

    def end(self, reason: StopReason) -> None:
        """End now; of several reasons the first counts, that of the whole included."""
        if self._ended is None:
            ended_before = self._parent is not None and self._parent.stopped
            self._ended = self.stop if ended_before else reason

    def note(self, event: ProgressEvent) -> bool:
        """Pass a new incumbent or bound to the stopping rules; return whether they end the run."""
        if self._watch is None or not self._watch.note(event):
            return False
        self.end(StopReason.RULE)
        return True

    def iterate(self) -> None:
        """Count an iteration of the run."""
        if self._watch is not None:
            self._watch.iterate()

    def interrupt(self) -> None:
        """End now because of Ctrl-C, which comes before all other reasons, with all it is part of.

        The part that notices it may not be the one that it was meant for.
        """
        self._ended = StopReason.INTERRUPTED
        if self._parent is not None:
            self._parent.interrupt()

    def fail(self, error: BaseException) -> None:
        """End now because of an error, with all it is part of; what was found is kept."""
        self._ended, self.failure = StopReason.ERROR, error
        if self._parent is not None:
            self._parent.fail(error)

    # ---------------------------------------------------------------- work that is cut into slices

    @property
    def affordable(self) -> int | None:
        """Number of steps that the time allows, going by the last slices; None without a limit."""
        left = self.remaining
        return None if left is None else int(self._rate * left)

    def slices(self, steps: int) -> Iterator[int]:
        """Cut a number of steps into slices; end early when the time is over."""
        while steps > 0 and not self.stopped:
            part = min(steps, self._slice)
            began, computed = time.perf_counter(), time.thread_time()
            yield part
            spent = max(time.perf_counter() - began, 1e-9)
            worked = max(time.thread_time() - computed, 1e-9)
            steps -= part
            if part == self._slice:
                self._rate = part / spent
                tick = min(_LONGEST_TICK_S, max(_TICK_S, _WORK_PER_WAIT * (spent - worked)))
                self._slice = max(1, min(_GROWTH * part, int(part / worked * tick)))


def run_interruptibly(
    run: Budget, work: Callable[[], T], cancel: Callable[[], object] | None = None
) -> T | None:
    """Return what a call that holds its thread for long returns, or raise what it raises.

    Parameters
    ----------
    run
        Says when to cancel; is notified of Ctrl-C.
    cancel
        Makes `work` return soon; may be called more than once. Without it, None is returned when
        the run is stopped, and the call goes on without us.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    # Not Thread.join: before Python 3.13, one that Ctrl-C interrupts takes the thread for ended.
    done = threading.Event()

    def guarded() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=guarded, daemon=True).start()
    while not done.is_set():
        try:
            done.wait(_POLL_S)
            if run.stopped and not done.is_set():
                if cancel is None:
                    return None
                cancel()
        except KeyboardInterrupt:
            run.interrupt()
    if failures:
        raise failures[0]
    return results[0]
