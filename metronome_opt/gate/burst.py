"""One burst of a training loop."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from metronome_opt.gate.gate import Gate


class Burst:
    """Burst that waits for its window when it is entered; made by `Gate.burst`.

    Times are in nanoseconds, by the steady clock or (`_at`) since the Unix epoch.
    """

    # It has neither a constructor nor slots, and the gate reads attributes rather than properties:
    # with the cold caches of a loop that has slept each of these costs some microseconds.
    gate: Gate
    asked: int | None = None  # number in its iteration as the loop states it; None for the next one
    phase = iteration = 0  # number in its iteration, and of the iteration, both from 0
    ready = begins = ended = ready_at = 0  # when it could begin, was to begin, and ended
    began = -1  # -1 before
    window_at: int | None = None  # None if it was let through without a claim
    cushion = 0  # lateness up to which it counts as on time
    iteration_ns: int | None = None  # of the first burst: since the iteration before began
    sent_bytes: int | None = None  # as the loop states them, at any time before it ends
    size: int | None = None  # bytes that were counted, with those of bursts that were a part of it
    _inside = False

    @property
    def began_at(self) -> int:
        """The time when it began, nanoseconds since the Unix epoch."""
        return self.ready_at + self.began - self.ready

    @property
    def waited_ns(self) -> int:
        """The time that it waited for its window."""
        return self.began - self.ready

    @property
    def late_ns(self) -> int | None:
        """The time from its window to its beginning; None without a window."""
        return None if self.window_at is None else max(0, self.began_at - self.window_at)

    def begin(self) -> None:
        """Wait for the window, as ``with`` does."""
        if self._inside:
            return
        if self.began >= 0:
            self.gate.warn("a burst is entered a second time; take another one: gate.burst()")
            return
        self._inside = True
        try:
            self.gate.enter(self)
        except Exception as error:
            self.gate.give_up(error)
        except BaseException:  # Ctrl-C while it waits
            self.end()
            raise

    def end(self) -> None:
        """End it, as leaving ``with`` does; in any thread."""
        if not self._inside:
            return
        self._inside = False
        try:
            self.gate.leave(self)
        except Exception as error:
            self.gate.give_up(error)

    def __enter__(self) -> Burst:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
