"""The gate: when a burst may begin, and what became of it."""

from __future__ import annotations

import os
import threading
import time
from weakref import WeakSet

from metronome_opt.gate.burst import Burst
from metronome_opt.gate.checks import ClaimError, check_claim, quote
from metronome_opt.gate.counters import BurstCounters
from metronome_opt.gate.windows import Claim, WindowTracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import Any

    from metronome_opt.gate.sinks import Record, Server

_PIECE_S = 0.1  # of sleep, after which signal handlers have had their turn
_STEADY = 1000  # the clocks of a machine differ by less than one part in this
_UNCLEAR_NS = 1_000_000
_WRITE_NS = 10**9
_FORGOTTEN_NS = 10 * 10**9  # for which a burst may be open, or for two periods
_MAX_TASK = 10**10
_FREE = "bursts do not wait"


class Gate:
    """Gate that a training loop enters before each burst.

    A burst waits for its window, never for longer than a period, by the rules of `WindowTracker`.
    Without a claim, or with a broken one, nothing waits; one warning says why. A job that is not
    gated does not wait either, and needs no warning. A gate never raises: what goes wrong is a
    warning of the logger ``metronome_opt.gate``, once for each text.

    Bursts come one at a time. One that begins while another is open, in the same thread or in
    another one, is a part of it: it begins with it, and what it sends counts there. Threads that
    burst independently need a gate each. A process that was forked keeps the windows, but records
    nothing and answers no scrapes.

    Parameters
    ----------
    claim
        The claim of the job, if it does not stand in a file; or why there is none.
    file
        A file of claims, see `metronome_opt.gate.files`, read again between iterations when it has
        changed. While it is missing or broken, nothing waits.
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
        self._tracker: WindowTracker | None = None
        self._free = True  # whether the burst before had no window
        self._moved = 0  # by how much the clock was set since the tracker got its claim
        self._before = 0  # when the burst before was ready, by the steady clock
        self._difference = 0  # of the clocks, then
        self._iteration = -1
        self._iteration_began: int | None = None
        self._open: list[Burst] = []  # the current one, and those that are a part of it
        self._current: Burst | None = None
        self._ended: list[Burst] = []  # not counted yet
        self._due = steady()  # when sinks write
        if task is not None and not (type(task) is int and 0 <= task < _MAX_TASK):
            self.warn(f"task: {quote(task)}: must be a number from 0; it is dropped")
            task = None
        job = job if isinstance(job, str) else quote(job)
        if file is not None:
            self._open_file(file, job, task)
        elif claim is not None:
            self.set_claim(claim)
        else:
            self.warn(f"no claim: set METRONOME_CLAIM, or offset and period; {_FREE}")
        if self._claim is not None:
            job = job or str(self._claim.job)
        self.counters = BurstCounters(job, task)
        self._record: Record | None = None
        self._server: Server | None = None
        if record or metrics:
            self._open_sinks(record, metrics)
        _GATES.add(self)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Gate:
        """Return the gate that the ``METRONOME_`` variables ask for, by default of the process.

        Options are arguments of the constructor, and go before variables.
        """
        from metronome_opt.gate.environment import settings

        asked, faults = settings(environ)
        gate = cls(**{**asked, **options})
        for fault in faults:
            gate.warn(fault)
        return gate

    def _open_file(self, file: Any, job: str, task: int | None) -> None:
        """Read a file of claims; what is no file is a warning."""
        from metronome_opt.gate.files import ClaimFile

        try:
            self._file = ClaimFile(file, job, task)
        except TypeError as error:
            self.warn(f"file: {error}; {_FREE}")
        else:
            self._read_file()

    def _open_sinks(self, record: Any, metrics: str | None) -> None:
        """Open what can be opened; the rest is a warning."""
        import atexit

        from metronome_opt.gate.sinks import Record, Server, reason_of

        def name_of(place: Any) -> str:
            return place if isinstance(place, str) else quote(place)

        try:
            if record:
                labels = {"job": self.counters.job, "task": self.counters.task}
                self._record = Record(os.fspath(record), labels, self.warn)
        except Exception as error:
            self.warn(f"{name_of(record)}: {reason_of(error)}; bursts are not recorded")
        try:
            if metrics:
                self._server = Server(metrics, self.metrics, self.warn)
        except Exception as error:
            self.warn(f"{name_of(metrics)}: {reason_of(error)}; no metrics are given")
        atexit.register(self.close)

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port where scrapes are answered; None if they are not."""
        return None if self._server is None else self._server.address

    @property
    def claim(self) -> Claim | None:
        """The claim that is obeyed; None while nothing waits."""
        return self._claim

    def set_claim(self, claim: Claim | ClaimError) -> None:
        """Go over to another claim, in small steps from the next iteration on."""
        try:
            if isinstance(claim, ClaimError):
                raise claim
            self._claim = check_claim(claim, lambda key: key.replace("_ms", "_ns"))
        except (ClaimError, AttributeError, TypeError) as fault:
            self._claim = None
            self.warn(f"{fault}; {_FREE}")

    def burst(self, sent_bytes: int | None = None, phase: int | None = None) -> Burst:
        """Return the next burst, to be entered with ``with``.

        The bytes that it sends may be set on it before it ends. Without `phase`, its number in its
        iteration, bursts are counted: a loop that drops one is out of step with its claim for good.
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
            return self.counters.text(self._claim)

    def close(self) -> None:
        """Write what is not written yet, and answer no more scrapes."""
        with self._lock:
            self._count()
            sinks = self._record, self._server
            self._record = self._server = None
        for sink in sinks:
            try:
                if sink is not None:
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
            text = message.encode(errors="backslashreplace").decode()  # some names are no UTF-8
            getLogger("metronome_opt.gate").warning("%s", text)

    # -------------------------------------------------------------- for bursts

    def enter(self, burst: Burst) -> None:
        """Wait for the window of a burst; one that is a part of another waits for that one's."""
        with self._lock:
            current = self._current
            if current is not None and current.began >= 0:
                period = 0 if self._claim is None else self._claim.period_ns
                if self._steady() - current.began > max(_FORGOTTEN_NS, 2 * period):
                    self.warn("a burst was begun and never ended; the next one begins again")
                    self._open.clear()
                    current = None
            self._open.append(burst)
            if current is None:
                current = self._current = burst
                self._decide(burst)
        begins = current.begins
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
        """End a burst; it is measured as soon as no other one is open."""
        with self._lock:
            current = self._current
            if burst not in self._open or current is None:
                return  # it was forgotten
            if burst.sent_bytes is not None:
                sent = burst.sent_bytes = self._valid_size(burst.sent_bytes)
                if sent is not None:
                    current.size = (current.size or 0) + sent
            self._open.remove(burst)
            if self._open:
                return
            self._current = None
            if current.began < 0:
                return  # interrupted while it waited
            current.sent_bytes = current.size
            current.ended = now = self._steady()
            self._ended.append(current)
            if now >= self._due:
                self._due = now + _WRITE_NS
                self._count()

    def _valid_size(self, given: Any) -> int | None:
        """Return the size of a burst in bytes; None if what is given is none."""
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
        """Let everything through from now on, after an internal error."""
        self._claim = self._file = self._tracker = None
        self.warn(f"{type(error).__name__}: {error}; bursts do not wait any more, report this")

    def forget(self) -> None:
        """Leave files and scrapes to the process that this one was forked from."""
        self._lock = threading.RLock()
        self._open, self._current = [], None
        if self._record is not None:
            self._record.close()
        if self._server is not None:
            self._server.drop()
        self._record = self._server = None

    def _count(self) -> None:
        """Count the bursts that have ended since this was done last."""
        ended, self._ended = self._ended, []
        for burst in ended:
            self.counters.add(burst)
        if self._record is not None:
            self._record.write(ended)

    # ----------------------------------------------------------------- deciding

    def _decide(self, burst: Burst) -> None:
        """Determine when a burst begins, and which window it takes."""
        tracker = self._tracker
        if burst.asked is not None and tracker is not None:
            self._skip_to(burst, tracker)
        if self._file is not None and (tracker is None or tracker.phase == 0):
            self._read_file()
        now, steady = self._wall(), self._steady()
        before, self._before = self._before, steady
        moved = now - steady - self._difference
        self._difference += moved
        jumped = not -_UNCLEAR_NS <= moved <= _UNCLEAR_NS and self._jumped(moved, steady - before)
        claim = self._claim
        self._free = self._free or claim is None
        changed = tracker is None or tracker.claim is not claim or self._free or self._moved
        if claim is not None and changed and not jumped:
            tracker = self._adopt(claim, now)
            if burst.asked is not None:
                self._skip_to(burst, tracker)
        if tracker is not None:
            burst.phase = tracker.phase
        elif isinstance(burst.asked, int):  # no claim says how many there are
            burst.phase = max(0, burst.asked)
        if burst.phase == 0 or self._iteration < 0:
            self._iteration += 1
        burst.iteration = self._iteration
        burst.ready = burst.begins = steady
        burst.ready_at = now
        if tracker is not None:
            begin, window = tracker.take(now - self._moved)
            if claim is not None and not (jumped or self._free):
                burst.begins = steady + begin - (now - self._moved)
                burst.window_at = None if window is None else window + self._moved
                burst.cushion = claim.cushion_ns

    def _skip_to(self, burst: Burst, tracker: WindowTracker) -> None:
        """Bring the tracker into step with a loop that numbers its bursts."""
        count = len(tracker.claim.starts_ns)
        if isinstance(burst.asked, int) and 0 <= burst.asked < count:
            tracker.skip_to(burst.asked)
            return
        self.warn(f"phase: {str(burst.asked)[:20]}: the bursts of the claim are 0 to {count - 1}")
        burst.asked = None

    def _adopt(self, claim: Claim, now: int) -> WindowTracker:
        """Give the tracker the claim, if it has another, between two iterations; return it."""
        tracker = self._tracker
        if tracker is None:
            tracker = self._tracker = WindowTracker(claim)
            if self._iteration >= 0:  # only the first burst of all takes the first window
                tracker.take(now)
        elif tracker.phase:
            return tracker
        window = tracker.window
        if window is not None and (self._free or self._moved or tracker.claim != claim):
            # After bursts without windows, windows begin where the job is.
            tracker.set_claim(claim, now - window if self._free else self._moved)
        self._free, self._moved = not claim.gated, 0
        return tracker

    def _read_file(self) -> None:
        """Read the file of claims if it has changed."""
        try:
            self._claim = self._file.current()
        except ClaimError as fault:
            self.set_claim(fault)

    def _jumped(self, moved: int, elapsed: int) -> bool:
        """Return True if the clock was set since the burst before; windows are moved with it."""
        if self._iteration < 0:
            return False  # there was none
        cushion = self._claim.cushion_ns if self._claim is not None else 0
        if abs(moved) <= max(cushion, _UNCLEAR_NS) + elapsed // _STEADY:
            return False
        self._moved += moved
        self.warn("the clock was set by more than the cushion; windows are taken up step by step")
        return True


_GATES: WeakSet[Gate] = WeakSet()


def _forget() -> None:
    """Let the gates of a forked process, such as one that loads data, neither record nor answer."""
    for gate in list(_GATES):
        gate.forget()


os.register_at_fork(after_in_child=_forget)
