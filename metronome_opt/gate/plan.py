"""The slots of one job, and which of them a burst takes.

Times are whole nanoseconds since the Unix epoch. Nothing here sleeps or looks at a clock.
"""

from __future__ import annotations

from typing import NamedTuple

STALL = 0.25
"""The largest share of a period by which a new claim delays one iteration."""


class Claim(NamedTuple):
    """What a job was given: when its bursts are to begin, again and again.

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
    """

    offset_ns: int
    period_ns: int
    starts_ns: tuple[int, ...] = (0,)
    cushion_ns: int = 0
    job: str = ""


class Plan:
    """The next slot of a job.

    A burst that is ready before its slot waits for it. One that is late begins at once, and the
    slots after it stay where they are, so that idle time lets the job catch up. One that is late by
    more than half a period takes the slot of a later iteration, the first that is near enough.
    These are the rules of `metronome_opt.kernels.fluid.slots` for paced jobs that yield.

    Parameters
    ----------
    claim
        What the job was given.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self._phase = 0
        self._begun = False
        self._iteration = 0
        self._behind = 0  # by how much the slots are still before those of the claim

    @property
    def phase(self) -> int:
        """Which burst of its iteration comes next; 0 between two iterations."""
        return self._phase

    @property
    def slot(self) -> int | None:
        """When the next burst is planned to begin; None before the first one."""
        return self._slot() if self._begun else None

    def take(self, ready: int) -> tuple[int, int]:
        """Return when a burst begins that is ready now, and the slot that it takes.

        The first burst takes the first slot that it is not late for. Nobody waits for longer than
        a period.
        """
        claim = self.claim
        if not self._begun:
            self._align(ready)
        elif self._phase == 0:
            self._behind = max(0, self._behind - int(STALL * claim.period_ns))
        slot = self._slot()
        missed = max(0, -((claim.period_ns - 2 * (ready - slot)) // (2 * claim.period_ns)))
        self._iteration += missed
        slot += missed * claim.period_ns
        self._phase = (self._phase + 1) % len(claim.starts_ns)
        if self._phase == 0:
            self._iteration += 1
        return min(max(ready, slot), ready + claim.period_ns), slot

    def follow(self, claim: Claim, moved_ns: int = 0) -> None:
        """Go over to another claim between two iterations, step by step.

        The slots move later until they are those of the claim, by at most `STALL` of a period in
        each iteration, or earlier by no more than the cushion, for which nobody waits.

        Parameters
        ----------
        moved_ns
            By how much the clock was set forward since the last burst.
        """
        slot = self.slot
        self.claim = claim
        self._phase = 0
        self._behind = 0
        if slot is None:
            return
        self._align(slot + moved_ns)
        self._behind = max(0, self._slot() - slot - moved_ns)

    def _align(self, moment: int) -> None:
        """Take the first iteration whose first slot is not over at a moment, but for a cushion.

        Of a cushion only half a period counts: who is later than that takes the next slot anyway.
        """
        claim = self.claim
        first = claim.offset_ns + claim.starts_ns[0]
        cushion = min(claim.cushion_ns, claim.period_ns // 2)
        self._iteration = -((first + cushion - moment) // claim.period_ns)
        self._begun = True

    def _slot(self) -> int:
        claim = self.claim
        start = claim.offset_ns + self._iteration * claim.period_ns + claim.starts_ns[self._phase]
        return start - self._behind
