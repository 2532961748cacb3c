"""Pareto fronts of two objectives: points, their values and the sum of fronts of separate parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Schedule

if TYPE_CHECKING:
    import pandas as pd

Values = tuple[Fraction, ...]
Row = tuple[dict[str, int], dict[str, int]]
"""Offsets and stretches by job name."""


@dataclass(frozen=True)
class Candidate:
    """A schedule of some groups of jobs and its costs.

    Attributes
    ----------
    values
        One per objective, all to be minimised.
    parts
        What makes the schedule: of groups the offsets and stretches of each, in their order.
    """

    values: Values
    parts: tuple[Any, ...] = ()


def nondominated(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the non-dominated candidates, ascending in the first of two values.

    Of candidates of equal values the first is kept.
    """
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.values):
        if not kept or candidate.values[1] < kept[-1].values[1]:
            kept.append(candidate)
    return kept


def minkowski(fronts: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Return the front of the whole from those of groups that are decided separately.

    Objectives add up over groups, so non-dominated parts are enough.
    """

    def both(ones: Sequence[Candidate], others: Sequence[Candidate]) -> list[Candidate]:
        return nondominated(
            Candidate(
                tuple(a + b for a, b in zip(one.values, other.values, strict=True)),
                (*one.parts, *other.parts),
            )
            for one in ones
            for other in others
        )

    return reduce(both, fronts[1:], list(fronts[0])) if fronts else []


@dataclass(frozen=True, repr=False)
class Front:
    """Non-dominated schedules of an instance for two objectives.

    Attributes
    ----------
    objectives
        Their names; the points ascend in the first.
    points
        Schedules with the values of all objectives, as `verify` computed them.
    complete
        Whether it is proved that no point is missing.
    stop
        Why the search ended.
    """

    instance: Instance
    objectives: tuple[str, ...]
    points: tuple[Schedule, ...]
    complete: bool
    stop: StopReason
    runtime_s: float
    notes: tuple[str, ...] = ()

    def values(self, schedule: Schedule) -> tuple[Fraction | None, ...]:
        """Return the objectives of one point."""
        return tuple(schedule.objectives[name] for name in self.objectives)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per point: its number from 1 on and its objectives as floats."""
        import pandas as pd

        rows = [self.values(point) for point in self.points]
        frame = pd.DataFrame(rows, columns=list(self.objectives), dtype=float)
        frame.index = pd.RangeIndex(1, len(rows) + 1, name="point")
        return frame

    def __repr__(self) -> str:
        ended = f"{self.runtime_s:.2f} s ({self.stop})"
        return f"<Front {self.instance.name}, {self._summary}, {ended}>"

    def _repr_html_(self) -> str:
        return f"<p>{self._summary}</p>{self.to_frame().to_html(float_format='{:.6g}'.format)}"

    @property
    def _summary(self) -> str:
        known = "complete" if self.complete else "not proved complete"
        return f"{len(self.points)} points of {', '.join(self.objectives)}: {known}"


@dataclass(frozen=True)
class FrontEvent:
    """A step of `pareto`.

    Attributes
    ----------
    elapsed_s
        Seconds since the call.
    done, parts
        How many of the parts of the instance have their fronts.
    points
        Schedules on the fronts of those parts.
    """

    elapsed_s: float
    done: int
    parts: int
    points: int
