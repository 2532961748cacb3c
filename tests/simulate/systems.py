"""What the references simulate: links, jobs in loops, and nothing of the package but the instance.

Times are in ms, bandwidths in Mbit/s, volumes in Mbit/s * ms and per flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from metronome_opt.instance import Instance, Job


@dataclass(frozen=True)
class Segment:
    """A part of an iteration: as long as it takes alone, at this rate; rate 0 is computing."""

    length: Fraction
    rate: int

    @property
    def volume(self) -> Fraction:
        """What each flow carries."""
        return self.length * self.rate


@dataclass(frozen=True)
class Loop:
    """A job: `iterations` times its segments, one after the other, from `start` on."""

    name: str
    segments: tuple[Segment, ...]
    flows: Mapping[str, int]
    weight: int
    start: Fraction
    iterations: int


@dataclass(frozen=True)
class System:
    """Loops over links; `sharing` is fair, strict or weighted.

    Those that keep slots have a period in `periods`, and keep in step.
    """

    capacities: Mapping[str, int]
    loops: tuple[Loop, ...]
    sharing: str
    periods: Mapping[str, Fraction] = field(default_factory=dict)


def system(
    instance: Instance,
    offsets: Mapping[str, int],
    iterations: int,
    sharing: str = "fair",
    stretch: Mapping[str, int] | None = None,
) -> System:
    """Return an instance whose jobs start at their offsets, `iterations` each.

    They keep slots if it is said how far each is stretched.
    """
    return System(
        {link.name: link.capacity for link in instance.links},
        tuple(
            Loop(
                job.name,
                _segments(job, instance.slot_ms),
                dict(job.links),
                job.weight,
                Fraction(offsets[job.name] * instance.slot_ms),
                iterations,
            )
            for job in instance.jobs
        ),
        sharing,
        {}
        if stretch is None
        else {
            job.name: Fraction((job.period + stretch[job.name]) * instance.slot_ms)
            for job in instance.jobs
        },
    )


def _segments(job: Job, slot_ms: int) -> tuple[Segment, ...]:
    """Return bursts in order with the computing between them; nothing has length 0."""
    segments = []
    now = 0
    for phase in sorted(job.phases, key=lambda phase: phase.start):
        segments += [(phase.start - now, 0), (phase.length, phase.rate)]
        now = phase.end
    segments.append((job.period - now, 0))
    return tuple(Segment(Fraction(slots * slot_ms), rate) for slots, rate in segments if slots)


def classes(loops: Sequence[Loop], sharing: str) -> list[list[Loop]]:
    """Return the loops in the groups that are served one after the other.

    By weight a job of weight 0 gets what the others leave.
    """
    ranks = {
        loop.name: {"fair": 0, "strict": loop.weight, "weighted": min(loop.weight, 1)}[sharing]
        for loop in loops
    }
    return [
        [loop for loop in loops if ranks[loop.name] == rank]
        for rank in sorted(set(ranks.values()), reverse=True)
    ]
