"""One burst of a training loop."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from metronome_opt.gate.gate import Gate


class Burst:
    """Burst that waits for its window when it is entered; made by `Gate.burst`.

    Attributes
    ----------
    phase, iteration
        Number of the burst in its iteration, and of the iteration, both from 0.
    ready, begins, began, ended
        When it could begin, was to begin, began and ended, by the steady clock, in nanoseconds;
        `began` is -1 as long as it has not begun.
    ready_at, window_at
        When it could begin, and its window, nanoseconds since the Unix epoch; no window if it was
        let through without a claim.
    cushion
        Lateness up to which it counts as on time.
    iteration_ns
        Time since the iteration before began, for the first burst of an iteration, if known.
    asked
        Number in its iteration as the loop states it; None for the next one.
    sent_bytes
        Bytes that it sends as the loop states them; may be set at any time before it ends.
    size
        Bytes that were counted when it ended, with those of bursts that were a part of it.
    """

    # It has neither a constructor nor slots, and the gate reads attributes rather than properties:
    # with the cold caches of a loop that has slept each of these costs some microseconds.
    gate: Gate
    asked: int | None = None
    phase = iteration = 0
    ready = begins = ended = ready_at = cushion = 0
    began = -1
    window_at: int | None = None
    iteration_ns: int | None = None
    sent_bytes: int | None = None
    size: int | None = None
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
