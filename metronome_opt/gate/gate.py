"""The gate: when a burst may begin, and what became of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from metronome_opt.gate.burst import Burst
from metronome_opt.gate.checks import ClaimError, checked, show
from metronome_opt.gate.forks import GATES
from metronome_opt.gate.measured import Measured
from metronome_opt.gate.plan import Claim, Plan

_PIECE_S = 0.1  # of sleep, after which signal handlers have had their turn
_STEADY = 1000  # the clocks of a machine differ by less than one part in this
_UNCLEAR_NS = 1_000_000
_FREE = "bursts do not wait"

Function = TypeVar("Function", bound=Callable[..., Any])


class Gate:
    """What a training loop goes through before it bursts.

    A burst waits for its slot, never for longer than a period, by the rules of `Plan`. Without a
    claim, or with a broken one, nothing waits; one warning says why. A gate never raises: what goes
    wrong is a warning of the logger ``metronome_opt.gate``, each once.

    Bursts come one at a time. One that begins while another is open, in the same thread or in
    another one, is a part of it: it begins with it, and what it sends counts there. Threads that
    burst independently need a gate each. A process that was forked keeps the slots, but records
    nothing and answers no scrapes.

    Parameters
    ----------
    claim
        What the job was given, if it does not stand in a file; or why that cannot be told.
    file
        A file of claims, see `metronome_opt.gate.files`. It is looked at between iterations and
        read again when it has changed; the gate goes over to the new claim in small steps. While
        the file is missing or broken, nothing waits.
    job, task
        Who this is. Of a file only claims of that job count.
    record
        A file to which each burst is appended, as a line of JSON, see `metronome_opt.gate.record`.
    metrics
        ``HOST:PORT`` where scrapes of Prometheus are answered, or a path that ends in ``.prom``,
        which is written anew once a second for the textfile collector of node_exporter.
    wall, steady, sleep
        The clocks, in nanoseconds, one since the Unix epoch and one that is never set, and how to
        wait for some seconds.
    """

    def __init__(
        self,
        claim: Claim | ClaimError | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        job: str = "",
        task: int | None = None,
        record: str | os.PathLike[str] | None = None,
        metrics: str | os.PathLike[str] | None = None,
        wall: Callable[[], int] = time.time_ns,
        steady: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._wall, self._steady, self._sleep = wall, steady, sleep
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        self._claim: Claim | None = None
        self._file: Any = None
        self._plan: Plan | None = None
        self._free = True  # whether the burst before went without a claim
        self._moved = 0  # by how much the clock was set since the plan was made
        self._clocks: tuple[int, int] | None = None
        self._iteration = -1
        self._inside = 0  # bursts that are open
        self._current: Burst | None = None
        self._sent: int | None = None
        if file is not None:
            from metronome_opt.gate.files import ClaimFile

            self._file = ClaimFile(file, job, task)
            self._look()
        elif claim is not None:
            self.follow(claim)
        else:
            self.warn(f"no claim: set METRONOME_CLAIM, say; {_FREE}")
        if self._claim is not None:
            job = job or self._claim.job
        self.measured = Measured(job, task)
        self._sinks: list[Any] = []
        if record is not None or metrics is not None:
            from metronome_opt.gate.sinks import open_sinks

            self._sinks = open_sinks(self, record, metrics)
        GATES.add(self)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Gate:
        """Return the gate that the ``METRONOME_`` variables ask for.

        Parameters
        ----------
        environ
            The variables, see `metronome_opt.gate.environment`; None for those of the process.
        options
            Of the constructor; they go before the variables.
        """
        from metronome_opt.gate.environment import settings

        asked, faults = settings(environ)
        gate = cls(**{**asked, **options})
        for fault in faults:
            gate.warn(fault)
        return gate

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port where scrapes are answered; None if they are not."""
        for sink in self._sinks:
            if hasattr(sink, "address"):
                return sink.address  # type: ignore[no-any-return]
        return None

    @property
    def claim(self) -> Claim | None:
        """The claim that is obeyed; None while nothing waits."""
        return self._claim

    def follow(self, claim: Claim | ClaimError) -> None:
        """Go over to another claim, in small steps from the next iteration on."""
        try:
            if isinstance(claim, ClaimError):
                raise claim
            self._claim = checked(claim)
        except (ClaimError, AttributeError, TypeError) as fault:
            self._claim = None
            self.warn(f"{fault}; {_FREE}")

    def burst(self, sent_bytes: int | None = None) -> Burst:
        """Return the next burst, to be entered with ``with``.

        Parameters
        ----------
        sent_bytes
            What it sends, if that is known; else it may be told to the burst before it ends.
        """
        return Burst(self, sent_bytes)

    def paced(self, function: Function) -> Function:
        """Make each call of a function a burst; to be used as a decorator."""
        from functools import wraps

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.burst():
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def metrics(self) -> str:
        """Return what was measured, as Prometheus reads it."""
        with self._lock:
            return self.measured.text(self._claim, self._current, self._steady())

    def close(self) -> None:
        """Write what is not written yet, and answer no more scrapes."""
        with self._lock:
            sinks, self._sinks = self._sinks, []
        for sink in sinks:
            sink.close()

    def warn(self, message: str) -> None:
        """Say something, once."""
        if message in self._warned:
            return
        self._warned.add(message)
        from contextlib import suppress
        from logging import getLogger

        with suppress(Exception):  # a handler of the user's may fail
            getLogger("metronome_opt.gate").warning("%s", message)

    # -------------------------------------------------------------- for bursts

    def enter(self, burst: Burst) -> None:
        """Wait for the slot of a burst; one that is a part of another waits for that one's."""
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._current, self._sent = burst, None
                self._decide(burst)
            current = self._current
        begins = burst.begins if current is None else current.begins
        came = now = self._steady()
        while now < begins:
            self._sleep(min(_PIECE_S, (begins - now) / 1e9))
            now = self._steady()
        if current is burst:
            with self._lock:
                self.measured.begin(burst, now)
        else:
            burst.ready, burst.began = came, now

    def leave(self, burst: Burst) -> None:
        """End a burst; what it was is measured as soon as no other one is open."""
        with self._lock:
            self._inside = max(0, self._inside - 1)
            if burst.sent_bytes is not None:
                self._sent = (self._sent or 0) + burst.sent_bytes
            if self._inside:
                return
            current, self._current = self._current, None
            if current is None or current.began < 0:
                return  # interrupted while it waited
            now = self._steady()
            self.measured.end(current, now, self._sent)
            for sink in self._sinks:
                sink.add(current, now)

    def bytes_told(self, told: Any) -> int | None:
        """Return what a burst is said to send, as a number; None if it is none."""
        if told is None:
            return None
        try:
            number = int(told)
        except Exception:  # whatever converting a tensor, say, may raise
            number = -1
        if number >= 0:
            return number
        shown = show(told) if isinstance(told, (int, float, str)) else type(told).__name__
        self.warn(f"sent_bytes: {shown}: must be a number, at least 0; it is not counted")
        return None

    def give_up(self, error: Exception) -> None:
        """Let everything through from now on, after an error that should not have been."""
        self._claim = self._file = self._plan = None
        self.warn(f"{type(error).__name__}: {error}; bursts do not wait any more, report this")

    def forget(self) -> None:
        """Leave files and scrapes to the process that this one was forked from."""
        self._lock = threading.RLock()
        for sink in self._sinks:
            sink.drop()
        self._sinks = []

    # ----------------------------------------------------------------- deciding

    def _decide(self, burst: Burst) -> None:
        """Find out when a burst begins, and which slot it takes."""
        if self._plan is None or self._plan.phase == 0:
            self._look()
        now, steady = self._wall(), self._steady()
        jumped = self._jumped(now, steady)
        claim = self._claim
        if claim is None:
            self._free = True
        elif not jumped:
            self._go_over(claim, now)
        plan = self._plan
        burst.phase = 0 if plan is None else plan.phase
        if burst.phase == 0:
            self._iteration += 1
        burst.iteration = self._iteration
        burst.ready = burst.begins = steady
        burst.ready_at = now
        burst.slot_at = None
        if plan is not None:
            begin, slot = plan.take(now - self._moved)
            if claim is not None and not (jumped or self._free):
                burst.begins = steady + begin - (now - self._moved)
                burst.slot_at = slot + self._moved
                burst.cushion = claim.cushion_ns

    def _go_over(self, claim: Claim, now: int) -> None:
        """Make the plan that of the claim, if it is not, between two iterations."""
        plan = self._plan
        if plan is None:
            plan = self._plan = Plan(claim)
            if self._iteration >= 0:  # only the first burst of all takes the first slot
                plan.take(now)
        elif plan.phase:
            return
        slot = plan.slot
        if slot is not None and (self._free or self._moved or plan.claim != claim):
            # Whoever went without a claim has lost the slots: they begin where the job is.
            plan.follow(claim, now - slot if self._free else self._moved)
        self._free, self._moved = False, 0

    def _look(self) -> None:
        """Look at the file of claims."""
        if self._file is None:
            return
        try:
            self._claim = self._file.look()
        except ClaimError as fault:
            self._claim = None
            self.warn(f"{fault}; {_FREE}")

    def _jumped(self, now: int, steady: int) -> bool:
        """Whether the clock was set since the burst before, taken to heart by the plan."""
        before, self._clocks = self._clocks, (now, steady)
        if before is None:
            return False
        elapsed = steady - before[1]
        moved = now - before[0] - elapsed
        cushion = self._claim.cushion_ns if self._claim is not None else 0
        if abs(moved) <= max(cushion, _UNCLEAR_NS) + elapsed // _STEADY:
            return False
        self._moved += moved
        self.warn("the clock was set by more than the cushion; slots are taken up step by step")
        return True
