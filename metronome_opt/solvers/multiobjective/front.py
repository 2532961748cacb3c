"""Pareto fronts of two objectives: points, their values and the sum of fronts of separate parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import pluralise
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import find_objective
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


@dataclass(frozen=True)
class Interval:
    """Values of an objective from `low` on and below `high`; None is no limit."""

    low: Fraction | None
    high: Fraction | None

    def describe(self, name: str) -> str:
        """Return the interval as text, in the unit of an objective."""
        form = find_objective(name).format_exactly
        if self.low is None and self.high is None:
            return f"at any {name}"
        if self.low is None:
            return f"at {name} below {form(self.high)}"
        if self.high is None:
            return f"at {name} from {form(self.low)} on"
        return f"at {name} from {form(self.low)} to {form(self.high)}"


def add_intervals(groups: Sequence[tuple[Interval, Sequence[Interval]]]) -> tuple[Interval, ...]:
    """Return where values of sums over groups may be missing, overlapping intervals as one.

    Parameters
    ----------
    groups
        Of each where all its values are, and where some may be missing.
    """

    def total(intervals: Sequence[Interval]) -> Interval:
        lows, highs = [part.low for part in intervals], [part.high for part in intervals]
        return Interval(
            None if None in lows else sum(filter(None, lows), Fraction(0)),
            None if None in highs else sum(filter(None, highs), Fraction(0)),
        )

    ranges = [whole for whole, _ in groups]
    found = [
        total([*ranges[:number], interval, *ranges[number + 1 :]])
        for number, (_, missing) in enumerate(groups)
        for interval in missing
    ]
    found.sort(key=lambda interval: (interval.low is not None, interval.low or Fraction(0)))
    merged: list[Interval] = []
    for interval in found:
        last = merged[-1] if merged else None
        if last is None or (last.high and interval.low and last.high < interval.low):
            merged.append(interval)
        else:
            highs = [high for high in (last.high, interval.high) if high is not None]
            merged[-1] = Interval(last.low, max(highs) if len(highs) == 2 else None)
    return tuple(merged)


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
    open_intervals
        Where in the first objective points may be missing, or have lower values of the second one;
        none if it is complete. A front of simulated means has none either.
    """

    instance: Instance
    objectives: tuple[str, ...]
    points: tuple[Schedule, ...]
    complete: bool
    stop: StopReason
    runtime_s: float
    notes: tuple[str, ...] = ()
    open_intervals: tuple[Interval, ...] = ()

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

    @property
    def _summary(self) -> str:
        where = [interval.describe(self.objectives[0]) for interval in self.open_intervals]
        known = ", ".join(["complete" if self.complete else "not proved complete", *where])
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
        Schedules on the fronts of those parts, and of the one that is searched.
    proved
        Values of the points of that part that were proved since the last event.
    """

    elapsed_s: float
    done: int
    parts: int
    points: int
    proved: tuple[Values, ...] = ()

    def describe(self) -> str:
        """Return the points so far, and how many of several parts are done."""
        done = f"; {self.done} of {self.parts} groups of jobs done" if self.parts > 1 else ""
        return pluralise(self.points, "point") + done
