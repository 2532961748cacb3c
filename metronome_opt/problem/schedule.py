"""Schedules: one offset and one stretch per job, with stated values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from metronome_opt.errors import check_type
from metronome_opt.files.documents import write_text
from metronome_opt.files.records import (
    Exact,
    FrozenDict,
    FrozenMap,
    Name,
    NonNegative,
    Positive,
    Record,
    dump_document,
    parse_record,
    read_document_as,
)
from metronome_opt.problem.instance import Sharing

SCHEDULE_FORMAT = "metronome-schedule/1"
_OMITTED_IF_EMPTY = (
    *("cushion_slots", "gated", "stretch_limit", "expected_ms", "before_ms"),
    *("places", "paths", "waiting", "bound_prices", "bound_pairs", "classes"),
    *("refutations", "left_out_bound", "network"),
)
OBJECTIVES = ("contention", "latency", "stretch", "wait", "moves", "cushion")


class Status(StrEnum):
    """Status of a schedule."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


_Price = Annotated[Exact, Field(ge=0)]
_Time = Annotated[Exact, Field(gt=0)]


class PairPrices(Record):
    """Prices of the time for which two jobs share a link, in units of weight.

    Parameters
    ----------
    link, jobs
        The link and the two jobs.
    prices
        Prices of three constraints: computing leaves time to share, iterations of the first job
        need time, and iterations of the second.
    """

    link: Name
    jobs: Annotated[tuple[Name, ...], Field(strict=False, min_length=2, max_length=2)]
    prices: Annotated[tuple[_Price, ...], Field(strict=False, min_length=3, max_length=3)]


class Refutation(Record):
    """Jobs that cannot all be gated at their periods, with a proof.

    Parameters
    ----------
    periods
        Periods of the jobs, by name.
    link
        A link with a capacity below the mean traffic of the jobs, or where the gaps between bursts
        of some jobs are too few for bursts of the others.
    branching
        A search tree in preorder. A node is the index of the job that it places, among the named
        jobs in the order of the instance: one subtree follows for each slot, in ascending order, at
        which the job does not overload a link. None, and no link, if nothing proves it.
    """

    periods: Annotated[FrozenMap[Name, Positive], Field(min_length=1)]
    link: Name | None = None
    branching: Annotated[tuple[NonNegative, ...], Field(strict=False)] | None = None

    @property
    def is_proved(self) -> bool:
        """Whether it states a proof, which may be wrong."""
        return self.link is not None or self.branching is not None


_Paths = Annotated[
    tuple[Annotated[tuple[NonNegative, ...], Field(strict=False)], ...], Field(strict=False)
]


class Schedule(Record):
    """Offsets and stretches of the jobs of an instance, with stated values and bound.

    Parameters
    ----------
    instance
        Name of the instance.
    offsets, stretch
        Slots by job; empty if `status` is ``infeasible`` or ``unknown``. A job that `stretch` does
        not name is not stretched.
    status
        ``optimal`` is stated only with a `lower_bound` equal to the first objective.
    objectives
        Exact values, the primary objective first; a cushion without limit is None.
    lower_bound
        Proved bound of the primary objective; None without one.
    solver, seed, runtime_s, versions
        Solver, seed, run time and versions of packages.
    cushion_slots
        Slots by which every burst was extended before solving: objectives, bound and status are
        values of the extended bursts. A file omits 0.
    gated
        Whether a job bursts only in windows of its stretched period; ungated jobs start at their
        offsets. None if unknown.
    stretch_limit
        Share of its period by which a job may be stretched, if above its `max_stretch`.
    expected_ms
        Mean iteration time by job, as simulated, ms.
    before_ms
        The same before: no job gated, on the nearest nodes unless nodes were stated; of jobs for
        which it is known.
    places
        Node of each task by job, if the jobs of a scenario were placed.
    paths
        Spines by job, task and interface, if a job's flows do not cross all spines of a cluster;
        empty for a task that sends nothing out of its rack.
    waiting
        Jobs of a scenario without feasible placement. They have no offsets.
    bound_prices
        Prices of the capacities of links that prove a lower bound of slowdown, in units of weight;
        a link that is not named costs nothing.
    bound_pairs
        Further prices of the proof, by pairs of jobs.
    classes
        Traffic class by job: links serve higher classes first. None if unknown.
    refutations
        Jobs that cannot all be gated at their own periods; they prove status ``infeasible``.
    left_out_bound
        Lower bound, proved by the refutations, of the weight of jobs that are not gated at their
        own periods.
    network
        How links are shared, if not as in the problem; ``gated`` serves gated jobs first.
    """

    format: Literal["metronome-schedule/1"] = "metronome-schedule/1"
    instance: Name
    offsets: FrozenMap[Name, NonNegative]
    stretch: FrozenMap[Name, NonNegative]
    status: Annotated[Status, Field(strict=False)]
    objectives: FrozenMap[str, Exact | None]
    lower_bound: Exact | None
    solver: str
    seed: int | None
    runtime_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    versions: FrozenMap[str, str] = FrozenDict()
    cushion_slots: NonNegative = 0
    gated: FrozenMap[Name, bool] | None = None
    stretch_limit: Annotated[Exact, Field(ge=0)] | None = None
    expected_ms: FrozenMap[Name, _Time] | None = None
    before_ms: FrozenMap[Name, _Time] | None = None
    places: FrozenMap[Name, Annotated[tuple[Name, ...], Field(strict=False)]] | None = None
    paths: FrozenMap[Name, _Paths] | None = None
    waiting: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    bound_prices: FrozenMap[Name, _Price] | None = None
    bound_pairs: Annotated[tuple[PairPrices, ...], Field(strict=False)] = ()
    classes: FrozenMap[Name, NonNegative] | None = None
    refutations: Annotated[tuple[Refutation, ...], Field(strict=False)] = ()
    left_out_bound: NonNegative | None = None
    network: Sharing | Literal["gated"] | None = None

    @property
    def primary_objective(self) -> str:
        """Name of the objective that was optimised first."""
        return next(iter(self.objectives), OBJECTIVES[0])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schedule:
        """Build a schedule from a document of format ``metronome-schedule/1``."""
        return parse_record(cls, data, SCHEDULE_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the schedule as a document; `from_dict` gives back an equal schedule."""
        document = self.model_dump(mode="json")
        for field in _OMITTED_IF_EMPTY:
            if document[field] in (None, 0, []):
                del document[field]
        return document


def read_schedule(path: str | Path) -> Schedule:
    """Read a schedule from a JSON or YAML file.

    Raises
    ------
    InputError
        One line that names file, location and value.
    """
    return read_document_as(path, Schedule.from_dict)


def write_schedule(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule as JSON, whole or not at all."""
    check_type("schedule", schedule, Schedule)
    write_text(path, dump_document(schedule.to_dict()))
