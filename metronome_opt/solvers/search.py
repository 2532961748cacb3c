"""The state of one run: the clock, the incumbent, the bound, the trajectory.

A solver is a function that takes a `Search`. It offers schedules, raises the bound and returns
when it is done or when `stopped` says so; values are computed here, from the offsets alone, so
that no back end is believed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

from metronome_opt.instance import Instance
from metronome_opt.kernels.jobs import contention, demand_of
from metronome_opt.kernels.tables import Compiled, Ints, compile_instance
from metronome_opt.result import Block, Event, Stop


class Callback(Protocol):
    """Told of every new incumbent and bound; stops the run by returning True."""

    def __call__(self, event: Event, /) -> bool | None:
        """Take note of an event."""


class Parent(Protocol):
    """What a search is a part of."""

    @property
    def stopped(self) -> bool:
        """Whether all parts have to return now."""

    @property
    def stop(self) -> Stop:
        """Why it ended."""


class Search:
    """One run of a solver on an instance.

    Parameters
    ----------
    instance
        The problem.
    time_limit
        Seconds from now on, model building included; None for no limit.
    seed, workers
        For the solver's random choices, for its threads.
    callback
        See `Callback`. May be called from a thread of the back end.
    parent
        The search that this one is a part of; it stops when that one does.
    rounds
        How many rounds of proofs and improvements `auto` goes through with one worker, at most; 0
        for good schedules without proofs, None for as many as there is time for. Without a time
        limit the result does not depend on the clock.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        time_limit: float | None,
        seed: int,
        workers: int,
        callback: Callback | None = None,
        parent: Parent | None = None,
        rounds: int | None = None,
    ) -> None:
        self._parent = parent
        self._start = time.perf_counter()
        self._limit = time_limit
        self._lock = threading.Lock()
        self._callback = callback
        self._stop: Stop | None = None
        self._built_at: float | None = None
        self.instance = instance
        self.seed = seed
        self.workers = workers
        self.rounds = rounds
        self.best: tuple[int, ...] | None = None
        self.incumbent: Fraction | None = None
        self.bound: Fraction | None = None
        self.found_by = ""
        self.bound_by = ""
        self.blocks: list[Block] = []
        self.notes: list[str] = []
        self.trajectory: list[Event] = []
        self.compiled: Compiled = compile_instance(instance)

    # ---------------------------------------------------------------- clock

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        return None if self._limit is None else max(0.0, self._limit - self.elapsed)

    def built(self) -> None:
        """Say that the model is made: what comes now is solving."""
        if self._built_at is None:
            self._built_at = self.elapsed

    @property
    def build_s(self) -> float:
        """Seconds until the model was made; 0 for a solver that makes none."""
        return self._built_at or 0.0

    # ---------------------------------------------------------------- stopping

    @property
    def stopped(self) -> bool:
        """Whether the solver has to return now."""
        if self._stop is None:
            if self._parent is not None and self._parent.stopped:
                self._stop = self._parent.stop
            elif self.proved:
                self._stop = Stop.PROVED
            elif self.remaining == 0.0:
                self._stop = Stop.TIME_LIMIT
        return self._stop is not None

    def interrupt(self) -> None:
        """Ask the solver to return what it has."""
        self._stop = Stop.INTERRUPTED

    def finish(self) -> None:
        """End the run, if nothing else has: something failed, and nobody is to go on."""
        if self._stop is None:
            self._stop = Stop.FINISHED

    def out_of_time(self) -> None:
        """Say that a back end stopped at the time limit, by its own clock."""
        if self._stop is None:
            self._stop = Stop.TIME_LIMIT

    @property
    def stop(self) -> Stop:
        """Why the run ended."""
        if self._stop is Stop.INTERRUPTED:
            return Stop.INTERRUPTED
        if self.proved:
            return Stop.PROVED
        if self._stop is None and self.remaining == 0.0:
            return Stop.TIME_LIMIT  # a part of it ran out of time, and nobody has looked since
        return self._stop or Stop.FINISHED

    @property
    def proved(self) -> bool:
        """Whether the bound meets the incumbent."""
        return self.incumbent is not None and self.incumbent == self.bound

    # ---------------------------------------------------------------- parts

    def below(self, instance: Instance) -> Search:
        """Return a search on a part of the problem, within the time that is left to this one."""
        return Search(
            instance,
            time_limit=self.remaining,
            seed=self.seed,
            workers=self.workers,
            parent=self,
        )

    def limit_to(self, seconds: float | None, parts: int) -> None:
        """Let the search end after its share of `seconds` from now on, one of `parts`."""
        self._limit = None if seconds is None else self.elapsed + seconds / parts

    def named(self) -> dict[str, int] | None:
        """Return the best offsets by job name, None if there are none."""
        if self.best is None:
            return None
        return dict(zip((job.name for job in self.instance.jobs), self.best, strict=True))

    # ---------------------------------------------------------------- progress

    def offer(self, offsets: Sequence[int] | Ints, source: str) -> Fraction:
        """Take a complete schedule, keep it if it is the best so far, return its value.

        Parameters
        ----------
        offsets
            Slots, in the order of the instance's jobs.
        source
            What found it.
        """
        value = contention(self.compiled, demand_of(self.compiled, offsets))
        with self._lock:
            if self.incumbent is not None and value >= self.incumbent:
                return value
            self.best = tuple(map(int, offsets))
            self.incumbent = value
            self.found_by = source
            # Contention is never negative: reaching 0 is a proof.
            if value == 0:
                self.bound, self.bound_by = Fraction(0), "no contention"
            self._record(source)
        return value

    def raise_bound(self, bound: Fraction, source: str) -> None:
        """Take a proved lower bound of the contention; one that is no better is ignored.

        So is 0, which says nothing: contention is never negative.
        """
        with self._lock:
            if bound <= (self.bound or 0):
                return
            self.bound, self.bound_by = bound, source
            self._record(source)

    def settle(self, native: float, scale: Fraction, source: str) -> None:
        """Take the word of a floating-point back end that the incumbent is optimal.

        It counts only if the value it states is that of the incumbent, to half a unit of its
        integral objective; a proof to the back end's tolerances is all it can give.

        Parameters
        ----------
        native
            The objective as the back end states it.
        scale
            ``contention = objective * scale``.
        """
        if self.incumbent is None:
            return
        if abs(Fraction(native) - self.incumbent / scale) < Fraction(1, 2):
            self.raise_bound(self.incumbent, source)
            self.notes.append("the proof is one in floating point, to the back end's tolerances")
        else:
            self.notes.append(
                f"{source} calls {native:g} optimal, its offsets give "
                f"{float(self.incumbent / scale):g}: not taken for a proof"
            )

    def _record(self, source: str) -> None:
        event = Event(self.elapsed, self.incumbent, self.bound, source)
        self.trajectory.append(event)
        if self._callback is not None and self._callback(event) and self._stop is None:
            self._stop = Stop.CALLBACK


def run_interruptibly(search: Search, work: Callable[[], None], cancel: Callable[[], None]) -> None:
    """Run a call that holds its thread for long, so that Ctrl-C and `stopped` can end it.

    Parameters
    ----------
    work
        The call; an exception in it is raised here.
    cancel
        Makes `work` return soon; may be called more than once.
    """
    failures: list[BaseException] = []
    # Not Thread.join: before Python 3.13, one that Ctrl-C interrupts takes the thread for ended.
    done = threading.Event()

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=guarded, daemon=True).start()
    while not done.is_set():
        try:
            done.wait(0.05)
            if search.stopped:
                cancel()
        except KeyboardInterrupt:
            search.interrupt()
            cancel()
    if failures:
        raise failures[0]
