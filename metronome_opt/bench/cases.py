"""One run and what it is worth, measured against the best that is known of its instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from metronome_opt.bench.records import Record
from metronome_opt.bench.references import References
from metronome_opt.bench.statistics import (
    Steps,
    certified_gap,
    penalised_time,
    primal_gap,
    primal_integral,
)
from metronome_opt.errors import InputError


@dataclass(frozen=True)
class Setting:
    """Under what conditions a case ran; only runs under the same ones are compared."""

    suite: str
    split: str
    time_limit_s: float
    memory_limit_mb: int | None
    workers: int


@dataclass(frozen=True)
class Problem:
    """An instance at a setting."""

    instance: str
    sha256: str
    setting: Setting


@dataclass(frozen=True)
class MeasuredCase:
    """One record and what it is measured against.

    Attributes
    ----------
    best
        The best known value of the instance, None if nobody found a schedule.
    """

    record: Record
    best: Fraction | None

    @cached_property
    def problem(self) -> Problem:
        """The instance and the setting."""
        record = self.record
        setting = Setting(
            record.suite,
            record.split,
            record.time_limit_s,
            record.memory_limit_mb,
            record.workers,
        )
        return Problem(record.instance, record.instance_sha256, setting)

    @property
    def value(self) -> Fraction | None:
        """The value of the schedule, None if there is none that the judge accepted."""
        return self.record.value

    @property
    def bound(self) -> Fraction | None:
        """The lower bound, None if there is none or the run was refused."""
        return None if self.record.kind == "invalid" else self.record.lower_bound

    @property
    def optimal(self) -> bool:
        """Whether the schedule is proved optimal, however long it took."""
        return self.value is not None and self.record.status == "optimal"

    @property
    def solved_s(self) -> float | None:
        """Seconds until the proof of optimality; None if there is none within the time limit."""
        time = self.record.runtime_s
        in_time = time is not None and time <= self.record.time_limit_s
        return time if self.optimal and in_time else None

    @property
    def penalised_s(self) -> float:
        """Seconds until the proof, twice the time limit without one."""
        return penalised_time(self.solved_s, self.record.time_limit_s)

    @property
    def primal_gap(self) -> float:
        """Distance from the best known value, as a share."""
        return float(primal_gap(self.value, self.best))

    @property
    def certified_gap(self) -> float:
        """What the run did not prove of its own value, as a share."""
        return float(certified_gap(self.value, self.bound))

    @property
    def steps(self) -> Steps:
        """The incumbents with their times; those below the accepted value are not believed."""
        value, record = self.value, self.record
        if value is None:
            return ()
        found = [
            (elapsed, incumbent)
            for elapsed, incumbent, _, _ in record.trajectory
            if incumbent is not None and incumbent >= value
        ]
        if not found or found[-1][1] != value:
            found.append((record.wall_s if record.runtime_s is None else record.runtime_s, value))
        return tuple(found)

    @cached_property
    def primal_integral(self) -> float:
        """Mean primal gap over the time limit."""
        return primal_integral(self.steps, self.best, self.record.time_limit_s)


def median_time(cases: Sequence[MeasuredCase]) -> float:
    """Return the median of the times to a proof, the slower of two middle ones, else infinity."""
    times = [float("inf") if case.solved_s is None else case.solved_s for case in cases]
    return sorted(times)[len(times) // 2]


def median_value(cases: Sequence[MeasuredCase]) -> Fraction | None:
    """Return the median of the values, the worse of two middle ones, None for no schedule."""
    values = sorted((case.value is None, case.value or Fraction(0)) for case in cases)
    missing, value = values[len(values) // 2]
    return None if missing else value


def measured(records: Sequence[Record], references: References) -> tuple[MeasuredCase, ...]:
    """Return the cases of records.

    Raises
    ------
    InputError
        If a case is there twice: means would count it twice.
    """
    cases = tuple(
        MeasuredCase(record, references.values.get(record.instance_sha256)) for record in records
    )
    seen = set()
    for record in records:
        if record.key in seen:
            raise InputError(
                f"{record.instance}: {record.solver}, seed {record.seed}, "
                f"{record.time_limit_s:g} s is there twice; report one campaign at a time"
            )
        seen.add(record.key)
    return cases
