"""A schedule: one offset and one stretch per job, with its stated values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

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
_LEFT_OUT = (
    *("cushion_slots", "gated", "stretch_limit", "expected_ms"),
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


class PairPrices(Record):
    """Prices of the time that two jobs on a link meet, in units of weight.

    Parameters
    ----------
    link, jobs
        Where the two jobs meet.
    prices
        Of what computing leaves, of what iterations of the first need, and of the second.
    """

    link: Name
    jobs: Annotated[tuple[Name, ...], Field(strict=False, min_length=2, max_length=2)]
    prices: Annotated[tuple[_Price, ...], Field(strict=False, min_length=3, max_length=3)]


class Refutation(Record):
    """Jobs that cannot all keep slots of their periods, and what proves it.

    Parameters
    ----------
    periods
        The jobs, and the periods that they were to keep.
    link
        A link to which they bring more traffic in the long run than it carries, or where the gaps
        between bursts of some are too few for those of the others.
    branching
        A search tree in preorder, each node the index of the job that it places, among those named
        and in the order of the instance: one subtree follows for each slot, in ascending order, at
        which the job does not overload a link. None, and no link, if nothing proves it.
    """

    periods: Annotated[FrozenMap[Name, Positive], Field(min_length=1)]
    link: Name | None = None
    branching: Annotated[tuple[NonNegative, ...], Field(strict=False)] | None = None

    @property
    def is_proved(self) -> bool:
        """True if it states a proof, which may be wrong."""
        return self.link is not None or self.branching is not None


_Paths = Annotated[
    tuple[Annotated[tuple[NonNegative, ...], Field(strict=False)], ...], Field(strict=False)
]


class Schedule(Record):
    """Offsets and stretches for the jobs of one instance, with stated values and bound.

    Parameters
    ----------
    instance
        Name of the instance.
    offsets, stretch
        Slots per job name; empty when `status` is ``infeasible`` or ``unknown``. A job that
        `stretch` does not name is not stretched.
    status
        ``optimal`` is stated only together with a `lower_bound` that meets the first objective.
    objectives
        Exact values, the one that was optimised first; a cushion without limit is None.
    lower_bound
        Proved bound of the first objective, None where there is none.
    solver, seed, runtime_s, versions
        How the schedule was made.
    cushion_slots
        The slots by which every burst was lengthened before solving: objectives, bound and status
        are those of the longer bursts. A file leaves 0 out.
    gated
        Whether each job keeps slots of its stretched period; the others run freely from their
        offsets on. None says nothing of it.
    stretch_limit
        The share of its period by which each job may be stretched, where that is more than its
        `max_stretch`.
    expected_ms
        Mean iteration time of each job as simulated, ms.
    places
        Of a scenario whose jobs were placed: the node of each task of each job, in order.
    paths
        Of a scenario whose cluster has several spines: for each job whose flows do not go over all
        of them, and each of its tasks, the spine that it sends over by each of its interfaces; none
        of a task that sends nothing out of its rack.
    waiting
        The jobs of a scenario that found no room. They have no offsets.
    bound_prices
        Prices of the capacities of links that prove a lower bound of slowdown, in units of weight;
        a link that is not named costs nothing.
    bound_pairs
        The prices of pairs of jobs that prove it besides.
    classes
        The traffic class of each job: links serve higher ones first. None says nothing of it.
    refutations
        Jobs that cannot all be gated at their own periods; with status ``infeasible`` they are why
        not all jobs can.
    left_out_bound
        A lower bound of the weight of the jobs that are not gated at their own periods, which the
        refutations prove.
    network
        How links are shared where the schedule was solved for another network than that of the
        problem; ``gated`` serves gated jobs first. None for that of the problem.
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
    expected_ms: FrozenMap[Name, Annotated[Exact, Field(gt=0)]] | None = None
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
        """The objective that was optimised first."""
        return next(iter(self.objectives), OBJECTIVES[0])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schedule:
        """Build a schedule from a document of format ``metronome-schedule/1``."""
        return parse_record(cls, data, SCHEDULE_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the schedule as a document; `from_dict` gives back an equal schedule."""
        document = self.model_dump(mode="json")
        for field in _LEFT_OUT:
            if document[field] in (None, 0, []):
                del document[field]
        return document


def read_schedule(path: str | Path) -> Schedule:
    """Read a schedule from a JSON or YAML file.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_document_as(path, Schedule.from_dict)


def write_schedule(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule as JSON, whole or not at all."""
    write_text(path, dump_document(schedule.to_dict()))
