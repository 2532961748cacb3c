"""Results of solvers: schedule, bound and trajectory of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from metronome_opt.errors import PluginError, SolverError
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import find_objective
from metronome_opt.problem.schedule import Schedule, Status

if TYPE_CHECKING:
    import pandas as pd


class StopReason(StrEnum):
    """Reason why a solver stopped."""

    PROVED = "proved"
    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    RULE = "stopping rule"
    ERROR = "error"  # of a solver of the user


@dataclass(frozen=True)
class ProgressEvent:
    """New incumbent or bound of a run.

    Attributes
    ----------
    elapsed_s
        Seconds since the call.
    incumbent, bound
        Best value and best bound so far; None without one.
    source
        The method that improved them.
    iteration
        Iterations so far, as a stopping rule sees them.
    stalled, stalled_s
        Iterations and seconds since the incumbent last changed, as a stopping rule sees them.
    """

    elapsed_s: float
    incumbent: Fraction | None
    bound: Fraction | None
    source: str
    iteration: int = field(default=0, compare=False)
    stalled: int = field(default=0, compare=False)
    stalled_s: float = field(default=0.0, compare=False)

    def describe(self) -> str:
        """Return incumbent and bound."""
        incumbent = "" if self.incumbent is None else f"incumbent {float(self.incumbent):,.6g}"
        bound = "" if self.bound is None else f"bound {float(self.bound):,.1f}"
        return f"{incumbent}  {bound}"


@dataclass(frozen=True)
class Level:
    """An objective of an order, after its optimisation.

    Attributes
    ----------
    name
        Name of the objective, or ``weighted sum``.
    value
        Its value; None for a cushion without limit and for a slowdown that was not simulated.
    proved
        Whether no better value is possible with the earlier objectives held.
    """

    name: str
    value: Fraction | None
    proved: bool

    def __str__(self) -> str:
        formatted = find_objective(self.name).format_exactly(self.value)
        return f"{self.name} {formatted} ({'proved' if self.proved else 'not proved'})"


def relative_gap(value: Fraction | None, bound: Fraction | None) -> Fraction | None:
    """Return ``|value - bound| / value``, 0 if the value is 0, None if one is not known."""
    if value is None or bound is None:
        return None
    return abs(value - bound) / value if value else Fraction(0)


@dataclass(frozen=True)
class PoolBound:
    """Cost of placements in a joint model, and its lower bound over a pool of placements.

    It bounds neither the simulated slowdown nor the cost of other placements.

    Attributes
    ----------
    cost, bound
        Weighted mean loss by pairs of jobs; the bound holds if no more jobs wait, None if unknown.
    placements
        The number of placements in the pool, over all jobs.
    """

    cost: Fraction
    bound: Fraction | None
    placements: int

    @property
    def gap(self) -> Fraction | None:
        """``(cost - bound) / cost``, 0 where both are 0, None without a bound."""
        return relative_gap(self.cost, self.bound)


@dataclass(frozen=True, repr=False)
class Result:
    """The outcome of `solve` or `allocate`.

    Attributes
    ----------
    instance, schedule
        The problem and the best schedule.
    stop_reason
        Why the solver stopped.
    evaluation
        Objectives and links of the schedule; None if a link's hyperperiod is above the limit.
    build_s, solve_s
        Seconds of building the model, and of the rest.
    trajectory
        Every new incumbent and every better bound, in order.
    notes
        Remarks to the user, in lines.
    levels
        The optimised objectives in their order.
    unshifted_ms
        Simulated iteration time by job, ms, with no job shifted or gated, where known; None
        unless slowdown was minimised.
    pool
        Bound of a joint model of placements; None without one.
    """

    instance: Instance
    schedule: Schedule
    stop_reason: StopReason
    evaluation: Evaluation | None
    build_s: float
    solve_s: float
    trajectory: tuple[ProgressEvent, ...]
    notes: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    unshifted_ms: Mapping[str, Fraction] | None = None
    pool: PoolBound | None = None

    @property
    def status(self) -> Status:
        """Status of the schedule."""
        return self.schedule.status

    @property
    def offsets(self) -> Mapping[str, int]:
        """The offset of each job, in slots."""
        return self.schedule.offsets

    @property
    def stretch(self) -> Mapping[str, int]:
        """The idle slots at the end of each job's iterations."""
        return self.schedule.stretch

    @property
    def value(self) -> Fraction | None:
        """Value of the primary objective; None if not simulated, or a cushion without limit."""
        evaluated = self.evaluation.objectives if self.evaluation else {}
        return {**evaluated, **self.schedule.objectives}[self.schedule.primary_objective]

    @property
    def bound(self) -> Fraction | None:
        """Proved bound of the primary objective: a lower one, for the cushion an upper one.

        None without one.
        """
        return self.schedule.lower_bound

    @property
    def gap(self) -> Fraction | None:
        """``|value - bound| / value``, 0 if the value is 0, None without a bound."""
        return relative_gap(self.value, self.bound)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per job; period, offset, stretch and wait are in slots.

        After minimising slowdown, columns for gating and for iteration times in ms are added.
        """
        import pandas as pd

        schedule = self.schedule
        rows = []
        for job in self.instance.jobs:
            offset, stretch = schedule.offsets[job.name], schedule.stretch.get(job.name, 0)
            row = {
                "job": job.name,
                "weight": job.weight,
                "period": job.period,
                "offset": offset,
                "stretch": stretch,
                "wait": (offset - job.ready) % (job.period + stretch),
            }
            if schedule.gated is not None:
                row["gated"] = schedule.gated[job.name]
            if schedule.classes is not None:
                row["class"] = schedule.classes[job.name]
            if schedule.expected_ms is not None:
                row["expected_ms"] = float(schedule.expected_ms[job.name])
            if self.unshifted_ms is not None:
                before = self.unshifted_ms.get(job.name)
                row["unshifted_ms"] = None if before is None else float(before)
            rows.append(row)
        return pd.DataFrame(rows).set_index("job")

    def summary(self) -> str:
        """Return one line: solver, status, value, bound and gap."""
        name, bound, gap = self.schedule.primary_objective, self.bound, self.gap
        proved = "none" if bound is None else f"{float(bound):,.6g}"
        value = find_objective(name).format_exactly(self.value)
        return (
            f"{self.schedule.solver}: {self.status}, {name} {value}, lower bound {proved}"
            f"{'' if gap is None else f', gap {float(gap):.1%}'}, "
            f"{self.schedule.runtime_s:.2f} s ({self.stop_reason})"
        )

    def __repr__(self) -> str:
        return f"<Result {self.instance.name}, {self.summary()}>"


class CustomSolverError(PluginError, SolverError):
    """A solver of the user raised ``__cause__``; `result` is the best one before, or None."""

    result: Result | None = None
