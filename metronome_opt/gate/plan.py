"""The slots of one job, and which of them a burst takes.

Times are whole nanoseconds since the Unix epoch. Nothing here sleeps or looks at a clock.
"""

from __future__ import annotations

from collections import namedtuple

STALL = 0.25
"""The largest share of a period by which a new claim delays one iteration."""


# A typing.NamedTuple would say the types, and typing takes longer to import than the gate.
_ClaimFields = namedtuple(
    "_ClaimFields",
    ("offset_ns", "period_ns", "starts_ns", "cushion_ns", "job", "gated", "traffic_class"),
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


class SlotPlan:
    """The next slot of a job.

    A burst that is ready before its slot waits for it. One that is late begins at once, and the
    slots after it stay where they are, so that idle time lets the job catch up. One that is late by
    more than half a period takes the slot of a later iteration, the first that is near enough.
    These are the rules of `metronome_opt.kernels.fluid.slots` for paced jobs that yield.

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

    @property
    def slot(self) -> int | None:
        """The time when the next burst is planned to begin; None before the first one."""
        return None if self._origin is None else self._origin + self.claim.starts_ns[self.phase]

    def skip_to(self, phase: int) -> None:
        """Leave out the bursts before one of this iteration, or of the next if it is over here."""
        if phase < self.phase and self._origin is not None:
            self._origin += self.claim.period_ns
        self.phase = phase

    def take(self, ready: int) -> tuple[int, int]:
        """Return when a burst begins that is ready now, and the slot that it takes.

        The first burst takes the first slot that it is not late for. No burst waits for longer
        than a period.
        """
        period, starts = self.claim.period_ns, self.claim.starts_ns
        origin, phase = self._origin, self.phase
        if origin is None:
            origin = self._aligned(ready)
        elif self._behind and phase == 0:
            step = min(self._behind, int(STALL * period))
            self._behind -= step
            origin += step
        slot = origin + starts[phase]
        if 2 * (ready - slot) > period:
            missed = -((period - 2 * (ready - slot)) // (2 * period)) * period
            origin += missed
            slot += missed
        phase += 1
        if phase == len(starts):
            phase = 0
            origin += period
        self._origin, self.phase = origin, phase
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
        if slot is None:
            return
        origin = self._aligned(slot + moved_ns)
        self._behind = max(0, origin + claim.starts_ns[0] - slot - moved_ns)
        self._origin = origin - self._behind

    def _aligned(self, moment: int) -> int:
        """Return the first iteration whose first slot is not over at a moment, but for a cushion.

        Of a cushion only half a period counts: a later burst takes the next slot anyway.
        """
        claim = self.claim
        first = claim.offset_ns + claim.starts_ns[0]
        cushion = min(claim.cushion_ns, claim.period_ns // 2)
        iteration = -((first + cushion - moment) // claim.period_ns)
        aligned: int = claim.offset_ns + iteration * claim.period_ns
        return aligned
