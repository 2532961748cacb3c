"""The slots of a job as its pods carry them: annotations, which gates read."""

from __future__ import annotations

import json
from dataclasses import dataclass

from metronome_opt.cluster.gang import Reservation
from metronome_opt.cluster.state import ClusterState
from metronome_opt.kubernetes.names import DEFAULT_GROUP
from metronome_opt.kubernetes.pods import Pod
from metronome_opt.kubernetes.quantities import milliseconds


@dataclass(frozen=True)
class Slots:
    """Begins of the bursts of a job, in whole microseconds, and whether bursts wait for them.

    A burst is on time if it is late by a hundredth of the period: plans keep twice that distance
    between bursts, see `metronome_opt.slowdown.minimise`.
    """

    offset_us: int
    period_us: int
    starts_us: tuple[int, ...]
    gated: bool = True

    @classmethod
    def of(cls, state: ClusterState, claim: Reservation) -> Slots:
        """Return the slots of a reservation."""
        slot_us = 1000 * state.cluster.slot_ms
        return cls(
            slot_us * claim.offset,
            slot_us * claim.period,
            tuple(sorted(slot_us * phase.start for phase in claim.gang.phases)),
            claim.gated,
        )

    def annotations(self, job: str, name: str) -> dict[str, str]:
        """Return them as annotations of the pod of a name, which its claim has too."""
        offset, period = milliseconds(self.offset_us), milliseconds(self.period_us)
        cushion = milliseconds(self.period_us // 100)
        starts = [milliseconds(start) for start in self.starts_us]
        slots = {
            "offset_ms": offset,
            "period_ms": period,
            "starts_ms": starts,
            "cushion_ms": cushion,
            "gated": self.gated,
            "job": job,
        }
        return {
            f"{DEFAULT_GROUP}/offset-ms": str(offset),
            f"{DEFAULT_GROUP}/period-ms": str(period),
            f"{DEFAULT_GROUP}/starts-ms": ",".join(map(str, starts)),
            f"{DEFAULT_GROUP}/cushion-ms": str(cushion),
            f"{DEFAULT_GROUP}/gated": json.dumps(self.gated),
            f"{DEFAULT_GROUP}/claim": name,
            f"{DEFAULT_GROUP}/slots": json.dumps(slots),
        }


def slots_of(pod: Pod) -> Slots | None:
    """Return the slots that a pod carries; None if it carries none that can be read."""
    try:
        plain = json.loads(pod.annotations[f"{DEFAULT_GROUP}/slots"])
        starts = tuple(round(1000 * start) for start in plain["starts_ms"])
        return Slots(
            round(1000 * plain["offset_ms"]),
            round(1000 * plain["period_ms"]),
            starts,
            bool(plain.get("gated", True)),
        )
    except (ValueError, LookupError, TypeError, OverflowError):
        return None
