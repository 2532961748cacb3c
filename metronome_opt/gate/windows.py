"""The slots of one job, and which of them a burst takes.

Times are whole nanoseconds since the Unix epoch. Nothing here sleeps or looks at a clock.
"""

from __future__ import annotations

from collections import namedtuple

LATEST = 4
"""A burst that is late by more than the period over this lets go of its slots."""

RETRY = 64
"""A job that has let go takes a slot again in an iteration whose number is a multiple of this."""

STALL = 0.25
"""The largest share of a period by which a new claim delays one iteration."""


# A typing.NamedTuple would say the types, and typing takes longer to import than the gate.
_ClaimFields = namedtuple(
    "_ClaimFields",
    (
        "offset_ns",
        "period_ns",
        "starts_ns",
        "cushion_ns",
        "job",
        "gated",
        "traffic_class",
    ),
    defaults=((0,), 0, "", True, 0),
)


class Claim(_ClaimFields):
    """Periodic slots of the bursts of a job.

    Attributes
    ----------
    offset_ns
        Beginning of an iteration, since the Unix epoch; any multiple of the period may be added.
    period_ns
        From one iteration to the next, stretch included.
    starts_ns
        Beginning of each burst, from that of its iteration, increasing, below the period.
    cushion_ns
        By how much a burst may be late and still count as on time.
    job
        Whose claim it is; empty if it was not said.
    gated
        Whether bursts wait for their slots; otherwise they have none.
    traffic_class
        From 0 to 7; links serve higher ones first.
    """

    __slots__ = ()


class WindowTracker:
    """The next slot of a job.

    A burst that is ready before its slot waits for it. One that is late begins at once, and the
    slots after it stay where they are, so that idle time lets the job catch up. If it is late by
    more than a quarter of a period, the job lets go: bursts begin at once, until an iteration
    begins whose number since the epoch is a multiple of `RETRY`, or a later one. It takes the first
    slot there that it is not late for. Jobs of one period so come back together. An iteration that
    is late by more than a period comes after a pause, such as a checkpoint, and takes the next
    slot. These are the rules of `metronome_opt.engine.fluid.windows` for paced jobs.

    Parameters
    ----------
    claim
        What the job was given.

    Attributes
    ----------
    phase
        Which burst of its iteration comes next; 0 between two iterations.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.phase = 0
        self._origin: int | None = None  # where the iteration begins that is next or under way
        self._behind = 0  # by how much the slots are still before those of the claim
        self._retry: int | None = None  # from when on a job takes slots again that has let go

    @property
    def slot(self) -> int | None:
        """The time when the next burst is planned to begin; None before the first one."""
        return None if self._origin is None else self._origin + self.claim.starts_ns[self.phase]

    def skip_to(self, phase: int) -> None:
        """Leave out the bursts before one of this iteration, or of the next if it is over here."""
        if phase < self.phase and self._origin is not None:
            self._origin += self.claim.period_ns
        self.phase = phase

    def take(self, ready: int) -> tuple[int, int | None]:
        """Return when a burst begins that is ready now, and the slot that it takes, if any.

        The first burst takes the first slot that it is not late for. No burst waits for longer
        than a period.
        """
        period, starts = self.claim.period_ns, self.claim.starts_ns
        origin, phase = self._origin, self.phase
        if origin is None:
            origin = self._aligned(ready)
        elif phase == 0 and (self._retry is not None or ready - origin - starts[0] > period):
            origin, self._behind = self._aligned(ready, 0), 0
            if self._retry is not None and origin >= self._retry:
                self._retry = None
        elif self._behind and phase == 0:
            step = min(self._behind, int(STALL * period))
            self._behind -= step
            origin += step
        let_go = self._retry is not None
        slot = origin + starts[phase]
        if not let_go and LATEST * (ready - slot) > period:
            self._retry = (origin // (RETRY * period) + 1) * RETRY * period
            self._behind = 0
        phase += 1
        if phase == len(starts):
            phase = 0
            origin += period
        self._origin, self.phase = origin, phase
        if let_go:
            return ready, None
        begin = slot if slot > ready else ready
        return begin if begin - ready < period else ready + period, slot

    def follow(self, claim: Claim, moved_ns: int = 0) -> None:
        """Go over to another claim between two iterations, step by step.

        The slots move later until they are those of the claim, by at most `STALL` of a period in
        each iteration, or earlier by no more than the cushion, for which no burst waits.

        Parameters
        ----------
        moved_ns
            By how much the clock was set forward since the last burst.
        """
        slot = self.slot
        self.claim = claim
        self.phase = 0
        self._behind = 0
        self._retry = None
        if slot is None:
            return
        origin = self._aligned(slot + moved_ns)
        self._behind = max(0, origin + claim.starts_ns[0] - slot - moved_ns)
        self._origin = origin - self._behind

    def _aligned(self, moment: int, cushion: int | None = None) -> int:
        """Return the first iteration whose first slot is not over at a moment, but for a cushion.

        Of that of the claim only a quarter of a period counts: a later burst lets go anyway.
        """
        claim = self.claim
        first = claim.offset_ns + claim.starts_ns[0]
        if cushion is None:
            cushion = min(claim.cushion_ns, claim.period_ns // LATEST)
        iteration = -((first + cushion - moment) // claim.period_ns)
        aligned: int = claim.offset_ns + iteration * claim.period_ns
        return aligned
