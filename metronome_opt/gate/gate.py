"""The gate: when a burst may begin, and what became of it."""

from __future__ import annotations

import os
import threading
import time
from weakref import WeakSet

from metronome_opt.gate.burst import Burst
from metronome_opt.gate.checks import ClaimError, checked, quote
from metronome_opt.gate.counters import Measured
from metronome_opt.gate.windows import Claim, WindowTracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import Any

_PIECE_S = 0.1  # of sleep, after which signal handlers have had their turn
_STEADY = 1000  # the clocks of a machine differ by less than one part in this
_UNCLEAR_NS = 1_000_000
_WRITE_NS = 10**9
_FORGOTTEN_NS = 10 * 10**9  # for which a burst may be open, or for two periods
_FREE = "bursts do not wait"


class Gate:
    """Gate that a training loop enters before each burst.

    A burst waits for its slot, never for longer than a period, by the rules of `WindowTracker`.
    Without a claim, or with a broken one, nothing waits; one warning says why. If the claim says
    that the job is not gated nothing waits either, and that needs no warning. A gate never raises:
    what goes wrong is a warning of the logger ``metronome_opt.gate``, each once.

    Bursts come one at a time. One that begins while another is open, in the same thread or in
    another one, is a part of it: it begins with it, and what it sends counts there. Threads that
    burst independently need a gate each. A process that was forked keeps the slots, but records
    nothing and answers no scrapes.

    Parameters
    ----------
    claim
        The claim of the job, if it does not stand in a file; or why there is none.
    file
        A file of claims, see `metronome_opt.gate.files`. It is looked at between iterations and
        read again when it has changed; the gate goes over to the new claim in small steps. While
        the file is missing or broken, nothing waits.
    job, task
        The job and task of this process. Of a file only claims of that job count.
    record
        A file to which each burst is appended, as a line of JSON, see `metronome_opt.gate.sinks`.
    metrics
        ``HOST:PORT`` where scrapes of Prometheus are answered.
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
        metrics: str | None = None,
        wall: Callable[[], int] = time.time_ns,
        steady: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._wall, self._steady, self._sleep = wall, steady, sleep
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        self._claim: Claim | None = None
        self._file: Any = None
        self._plan: WindowTracker | None = None
        self._free = True  # whether the burst before had no slot
        self._moved = 0  # by how much the clock was set since the plan was made
        self._before = 0  # when the burst before was ready, by the steady clock
        self._difference = 0  # of the clocks, then
        self._iteration = -1
        self._iteration_began: int | None = None
        self._open: list[Burst] = []  # the first one, and those that are a part of it
        self._current: Burst | None = None
        self._sent: int | None = None
        self._ended: list[Burst] = []  # not counted yet
        self._due = steady()  # when sinks write
        if file is not None:
            from metronome_opt.gate.files import ClaimFile

            self._file = ClaimFile(file, job, task)
            self._read_file()
        elif claim is not None:
            self.follow(claim)
        else:
            self.warn(f"no claim: set METRONOME_CLAIM, or offset and period; {_FREE}")
        if self._claim is not None:
            job = job or self._claim.job
        self.measured = Measured(str(job), task)
        self._sinks: list[Any] = []
        if record is not None or metrics is not None:
            from metronome_opt.gate.sinks import open_sinks

            self._sinks = open_sinks(self, record, metrics)
        _GATES.add(self)

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
        return next((sink.address for sink in self._sinks if sink.address), None)

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

    def burst(self, sent_bytes: int | None = None, phase: int | None = None) -> Burst:
        """Return the next burst, to be entered with ``with``.

        Parameters
        ----------
        sent_bytes
            The bytes that it sends, if known; else to be set on the burst before it ends.
        phase
            Which burst of its iteration it is, from 0. If left out bursts are counted, and then a
            loop that leaves one out is out of step with its claim for good.
        """
        burst = Burst()
        burst.gate, burst.asked, burst.sent_bytes = self, phase, sent_bytes
        return burst

    def mark(self, sock: socket.socket) -> None:
        """Let all that a socket sends be of the traffic class of the claim, if there is one.

        Class 3, say, is the code point CS3 of IP, as `metronome inject` asks NCCL for.
        """
        claim = self._claim
        if claim is None:
            return
        import socket

        level, option = socket.IPPROTO_IP, socket.IP_TOS
        try:
            if sock.family == socket.AF_INET6:
                level, option = socket.IPPROTO_IPV6, socket.IPV6_TCLASS
            sock.setsockopt(level, option, claim.traffic_class << 5)
        except Exception as error:
            self.warn(f"{type(error).__name__}: {error}; a socket is not marked")

    def metrics(self) -> str:
        """Return what was measured, as Prometheus reads it."""
        with self._lock:
            self._count()
            return self.measured.text(self._claim)

    def close(self) -> None:
        """Write what is not written yet, and answer no more scrapes."""
        with self._lock:
            self._count()
            sinks, self._sinks = self._sinks, []
        for sink in sinks:
            try:
                sink.close()
            except Exception as error:  # at the end of a training, of all things
                self.warn(f"{type(error).__name__}: {error}; not all that was measured is written")

    def warn(self, message: str) -> None:
        """Log a warning, each text once."""
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
            if self._open and self._is_forgotten():
                self.warn("a burst was begun and never ended; the next one begins anew")
                self._open.clear()
            self._open.append(burst)
            if len(self._open) == 1:
                self._current, self._sent = burst, None
                self._decide(burst)
            current = self._current
        begins = burst.begins if current is None else current.begins
        came = now = self._steady()
        while now < begins:
            left = (begins - now) / 1e9
            self._sleep(left if left < _PIECE_S else _PIECE_S)
            now = self._steady()
        # Here the burst is held up by whatever is done, and caches are cold: as little as can be.
        burst.began = now
        if current is not burst:
            burst.ready, burst.ready_at = came, self._wall() - (now - came)
        elif burst.phase == 0:
            before, self._iteration_began = self._iteration_began, now
            if before is not None:
                burst.iteration_ns = now - before

    def leave(self, burst: Burst) -> None:
        """End a burst; what it was is measured as soon as no other one is open."""
        with self._lock:
            if burst not in self._open:
                return  # it was forgotten
            if burst.sent_bytes is not None:
                sent = burst.sent_bytes = self._valid_size(burst.sent_bytes)
                if sent is not None:
                    self._sent = sent if self._sent is None else self._sent + sent
            self._open.remove(burst)
            if self._open:
                return
            current, self._current = self._current, None
            if current is None or current.began < 0:
                return  # interrupted while it waited
            current.size = current.sent_bytes = self._sent
            current.ended = now = self._steady()
            self._ended.append(current)
            if now >= self._due:
                self._due = now + _WRITE_NS
                self._count()
                for sink in self._sinks:
                    sink.write()

    def _valid_size(self, given: Any) -> int | None:
        """Return the size of a burst in bytes; None if what is given is none."""
        if type(given) is int and given >= 0:
            return given
        try:
            number = int(given)
        except Exception:  # whatever converting a tensor, say, may raise
            number = -1
        if number >= 0:
            return number
        text = quote(given) if isinstance(given, (int, float, str)) else type(given).__name__
        self.warn(f"sent_bytes: {text}: must be a number, at least 0; it is not counted")
        return None

    def give_up(self, error: Exception) -> None:
        """Let everything through from now on, after an error that should not have been."""
        self._claim = self._file = self._plan = None
        self.warn(f"{type(error).__name__}: {error}; bursts do not wait any more, report this")

    def forget(self) -> None:
        """Leave files and scrapes to the process that this one was forked from."""
        self._lock = threading.RLock()
        self._open, self._current = [], None
        for sink in self._sinks:
            sink.drop()
        self._sinks = []

    def _count(self) -> None:
        """Count the bursts that have ended since this was done last."""
        ended, self._ended = self._ended, []
        for burst in ended:
            self.measured.add(burst)
        for sink in self._sinks:
            sink.add(ended)

    # ----------------------------------------------------------------- deciding

    def _decide(self, burst: Burst) -> None:
        """Determine when a burst begins, and which slot it takes."""
        plan = self._plan
        if burst.asked is not None and plan is not None:
            self._skip_to(burst, plan)
        if self._file is not None and (plan is None or plan.phase == 0):
            self._read_file()
        now, steady = self._wall(), self._steady()
        before, self._before = self._before, steady
        moved = now - steady - self._difference
        self._difference += moved
        jumped = not -_UNCLEAR_NS <= moved <= _UNCLEAR_NS and self._jumped(moved, steady - before)
        claim = self._claim
        if claim is None:
            self._free = True
        elif not jumped and (plan is None or plan.claim is not claim or self._free or self._moved):
            plan = self._adopt(claim, now)
            if burst.asked is not None:
                self._skip_to(burst, plan)
        burst.phase = _number(burst.asked) if plan is None else plan.phase
        if burst.phase == 0 or self._iteration < 0:
            self._iteration += 1
        burst.iteration = self._iteration
        burst.ready = burst.begins = steady
        burst.ready_at = now
        if plan is not None:
            begin, slot = plan.take(now - self._moved)
            if claim is not None and not (jumped or self._free):
                burst.begins = steady + begin - (now - self._moved)
                burst.slot_at = None if slot is None else slot + self._moved
                burst.cushion = claim.cushion_ns

    def _skip_to(self, burst: Burst, plan: WindowTracker) -> None:
        """Bring the plan into step with a loop that says which burst it makes."""
        count = len(plan.claim.starts_ns)
        if isinstance(burst.asked, int) and 0 <= burst.asked < count:
            plan.skip_to(burst.asked)
            return
        self.warn(f"phase: {str(burst.asked)[:20]}: the bursts of the claim are 0 to {count - 1}")
        burst.asked = None

    def _is_forgotten(self) -> bool:
        """Return True if the open burst has been so for longer than any should."""
        current = self._current
        if current is None or current.began < 0:
            return False
        period = 0 if self._claim is None else self._claim.period_ns
        return self._steady() - current.began > max(_FORGOTTEN_NS, 2 * period)

    def _adopt(self, claim: Claim, now: int) -> WindowTracker:
        """Make the plan that of the claim, if it is not, between two iterations; return it."""
        plan = self._plan
        if plan is None:
            plan = self._plan = WindowTracker(claim)
            if self._iteration >= 0:  # only the first burst of all takes the first slot
                plan.take(now)
        elif plan.phase:
            return plan
        slot = plan.slot
        if slot is not None and (self._free or self._moved or plan.claim != claim):
            # After bursts without slots, slots begin where the job is.
            plan.follow(claim, now - slot if self._free else self._moved)
        self._free, self._moved = not claim.gated, 0
        return plan

    def _read_file(self) -> None:
        """Read the file of claims if it has changed."""
        try:
            self._claim = self._file.current()
        except ClaimError as fault:
            self._claim = None
            self.warn(f"{fault}; {_FREE}")

    def _jumped(self, moved: int, elapsed: int) -> bool:
        """Return True if the clock was set since the burst before; the plan is moved with it."""
        if self._iteration < 0:
            return False  # there was none
        cushion = self._claim.cushion_ns if self._claim is not None else 0
        if abs(moved) <= max(cushion, _UNCLEAR_NS) + elapsed // _STEADY:
            return False
        self._moved += moved
        self.warn("the clock was set by more than the cushion; slots are taken up step by step")
        return True


def _number(phase: object) -> int:
    """Return which burst it is said to be, where no claim says how many there are."""
    return phase if isinstance(phase, int) and phase > 0 else 0


_GATES: WeakSet[Gate] = WeakSet()


def _forget() -> None:
    """Let the gates of a forked process, such as one that loads data, neither record nor answer."""
    for gate in list(_GATES):
        gate.forget()


os.register_at_fork(after_in_child=_forget)
