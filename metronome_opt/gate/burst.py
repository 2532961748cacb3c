"""One burst of a training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from metronome_opt.gate.gate import Gate


class Burst:
    """A burst, which waits for its slot when it is entered.

    Attributes
    ----------
    phase, iteration
        Which burst it is of which iteration, both from 0.
    ready, begins, began, ended
        When it could begin, was to begin, began and ended, by the steady clock, in nanoseconds;
        `began` is -1 as long as it has not.
    ready_at, slot_at
        When it could begin, and its slot, nanoseconds since the Unix epoch; no slot if it was let
        through without a claim.
    cushion
        By how much it may be late and still count as on time.
    iteration_ns
        Since the iteration before began, for its first burst; None where that is not known.
    """

    __slots__ = (
        "_gate",
        "_inside",
        "_sent",
        "began",
        "begins",
        "cushion",
        "ended",
        "iteration",
        "iteration_ns",
        "phase",
        "ready",
        "ready_at",
        "slot_at",
    )

    def __init__(self, gate: Gate, sent_bytes: int | None = None) -> None:
        self._gate = gate
        self._inside = False
        self._sent = gate.bytes_told(sent_bytes)
        self.phase = self.iteration = 0
        self.ready = self.begins = self.ended = 0
        self.began = -1
        self.ready_at = 0
        self.slot_at: int | None = None
        self.cushion = 0
        self.iteration_ns: int | None = None

    @property
    def sent_bytes(self) -> int | None:
        """What it sends, None if nobody said; to be told at any time before it ends."""
        return self._sent

    @sent_bytes.setter
    def sent_bytes(self, told: int | None) -> None:
        self._sent = self._gate.bytes_told(told)

    @property
    def began_at(self) -> int:
        """When it began, nanoseconds since the Unix epoch."""
        return self.ready_at + self.began - self.ready

    @property
    def waited_ns(self) -> int:
        """How long it waited for its slot."""
        return self.began - self.ready

    @property
    def late_ns(self) -> int | None:
        """How long after its slot it began; None without a slot."""
        return None if self.slot_at is None else max(0, self.began_at - self.slot_at)

    def begin(self) -> None:
        """Wait for the slot, as ``with`` does."""
        if self._inside:
            return
        self._inside = True
        try:
            self._gate.enter(self)
        except Exception as error:
            self._gate.give_up(error)
        except BaseException:  # Ctrl-C while it waits
            self.end()
            raise

    def end(self) -> None:
        """End it, as leaving ``with`` does; in any thread."""
        if not self._inside:
            return
        self._inside = False
        try:
            self._gate.leave(self)
        except Exception as error:
            self._gate.give_up(error)

    def __enter__(self) -> Burst:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()
