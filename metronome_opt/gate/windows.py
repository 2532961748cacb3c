"""The windows of one job, and which of them a burst takes.

Times are whole nanoseconds since the Unix epoch. Nothing here sleeps or looks at a clock.
"""

from __future__ import annotations

from collections import namedtuple

LATEST = 4
"""A burst that is late by more than the period over this lets go of its windows."""

RETRY = 64
"""A job that has let go takes a window again in an iteration whose number is a multiple of this."""

STALL = 0.25
"""The largest share of a period by which a new claim delays one iteration."""


# A typing.NamedTuple would state the types, and typing takes longer to import than the gate.
class Claim(
    namedtuple(
        "Claim",
        "offset_ns period_ns starts_ns cushion_ns job gated traffic_class",
        defaults=((0,), 0, "", True, 0),
    )
):
    """Periodic windows of the bursts of a job.

    Attributes
    ----------
    offset_ns
        Beginning of an iteration, since the Unix epoch; any multiple of the period may be added.
    period_ns
        Time from one iteration to the next, stretch included.
    starts_ns
        Beginning of each burst, from that of its iteration, increasing, below the period.
    cushion_ns
        Lateness up to which a burst counts as on time.
    job
        The job that it is for; empty if that is not stated.
    gated
        Whether bursts wait for windows; otherwise they have none.
    traffic_class
        From 0 to 7; links serve higher ones first.
    """

    __slots__ = ()


class WindowTracker:
    """The next window of a job.

    A burst that is ready before its window waits for it. One that is late begins at once, and the
    windows after it stay where they are, so that idle time lets the job catch up. If it is late by
    more than a quarter of a period, the job lets go: bursts begin at once, until an iteration
    begins whose number since the epoch is a multiple of `RETRY`, or a later one. It takes the first
    window there that it is not late for. Jobs of one period so come back together. An iteration
    that is late by more than a period comes after a pause, such as a checkpoint, and takes the next
    window. These are the rules of `metronome_opt.engine.fluid.windows` for paced jobs.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.phase = 0  # of the burst that comes next; 0 between two iterations
        self._origin: int | None = None  # where the iteration begins that is next or under way
        self._behind = 0  # by how much the windows are still before those of the claim
        self._retry: int | None = None  # from when on a job takes windows again that has let go

    @property
    def window(self) -> int | None:
        """The time when the next burst is planned to begin; None before the first one."""
        return None if self._origin is None else self._origin + self.claim.starts_ns[self.phase]

    def skip_to(self, phase: int) -> None:
        """Drop the bursts before one of this iteration, or of the next if it is over here."""
        if phase < self.phase and self._origin is not None:
            self._origin += self.claim.period_ns
        self.phase = phase

    def take(self, ready: int) -> tuple[int, int | None]:
        """Return when a burst begins that is ready now, and the window that it takes, if any.

        The first burst takes the first window that it is not late for.
        """
        period, starts = self.claim.period_ns, self.claim.starts_ns
        origin, phase = self._origin, self.phase
        if origin is None:
            origin = self._align(ready)
        elif phase == 0 and (self._retry is not None or ready - origin - starts[0] > period):
            origin, self._behind = self._align(ready, 0), 0
            if self._retry is not None and origin >= self._retry:
                self._retry = None
        elif self._behind and phase == 0:
            step = min(self._behind, int(STALL * period))
            self._behind -= step
            origin += step
        let_go = self._retry is not None
        window = origin + starts[phase]
        if not let_go and LATEST * (ready - window) > period:
            self._retry = (origin // (RETRY * period) + 1) * RETRY * period
            self._behind = 0
        phase += 1
        if phase == len(starts):
            phase = 0
            origin += period
        self._origin, self.phase = origin, phase
        if let_go:
            return ready, None
        begin = window if window > ready else ready
        return begin if begin - ready < period else ready + period, window

    def set_claim(self, claim: Claim, moved_ns: int = 0) -> None:
        """Go over to another claim between two iterations, step by step.

        Windows move later until they are those of the claim, by at most `STALL` of a period in each
        iteration, or earlier by no more than the cushion. The clock was set forward by `moved_ns`.
        """
        window = self.window
        self.claim = claim
        self.phase = self._behind = 0
        self._retry = None
        if window is not None:
            origin = self._align(window + moved_ns)
            self._behind = max(0, origin + claim.starts_ns[0] - window - moved_ns)
            self._origin = origin - self._behind

    def _align(self, moment: int, cushion: int | None = None) -> int:
        """Return the first iteration whose first window is not over at a moment, but for a cushion.

        The default is that of the claim, but at most a quarter of a period: a later burst lets go.
        """
        claim = self.claim
        first = claim.offset_ns + claim.starts_ns[0]
        if cushion is None:
            cushion = min(claim.cushion_ns, claim.period_ns // LATEST)
        iteration = -((first + cushion - moment) // claim.period_ns)
        aligned: int = claim.offset_ns + iteration * claim.period_ns
        return aligned
