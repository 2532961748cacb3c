"""Small systems whose ends were worked out by hand, slot by slot of 10 ms; the links carry 100."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.instance import Instance, Job, Link


@dataclass(frozen=True)
class Case:
    """Jobs, where they start, and when their iterations end, in ms."""

    name: str
    instance: Instance
    offsets: Mapping[str, int]
    ends: Mapping[str, tuple[Fraction | int, ...]]
    sharing: str = "fair"

    @property
    def iterations(self) -> int:
        return len(next(iter(self.ends.values())))


def links(*jobs: Job, **capacities: int) -> Instance:
    named = {"link": 100, **capacities}
    return Instance(
        name="by-hand",
        slot_ms=10,
        links=tuple(Link(name=name, capacity=value) for name, value in named.items()),
        jobs=jobs,
    )


def starts(**offsets: int) -> dict[str, int]:
    return offsets
