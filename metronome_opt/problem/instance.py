"""The problem: links, periodic jobs and bursts, in integers, immutable and validated."""

from __future__ import annotations

import html
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, model_validator

from metronome_opt.errors import InputError, check_type, format_path, pluralise, quote
from metronome_opt.files.documents import write_text
from metronome_opt.files.records import (
    Exact,
    FrozenDict,
    FrozenMap,
    Jitter,
    Name,
    NonNegative,
    Positive,
    Record,
    check_unique,
    dump_document,
    explain,
    parse_record,
    read_document_as,
    refuse,
)

if TYPE_CHECKING:
    import pandas as pd

INSTANCE_FORMAT = "metronome-instance/1"
HYPERPERIOD_LIMIT = 1_000_000
_LIMIT_VARIABLE = "METRONOME_HYPERPERIOD_LIMIT"

# Documents omit default values of later fields, so that their checksums stay.
TrafficClasses = Annotated[int, Field(ge=1, le=8, exclude_if=lambda count: count == 1)]
"""Number of traffic classes that links serve in strict order, the highest first."""

Sharing = Literal["fair", "tcp", "weighted", "strict"]
"""How jobs share a link; see `Instance`."""

Network = Annotated[Sharing, Field(exclude_if=lambda sharing: sharing == "fair")]
"""How jobs share all links of a cluster."""


def default_limit() -> int:
    """Return the largest period in slots: from the environment, or a million."""
    text = os.environ.get(_LIMIT_VARIABLE) or str(HYPERPERIOD_LIMIT)
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text)):
        raise InputError(f"{_LIMIT_VARIABLE}: must be a number of slots, got {quote(text)}")
    return int(text)


class Link(Record):
    """A shared link.

    Parameters
    ----------
    name
        Unique among the links of an instance.
    capacity
        Capacity in Mbit/s.
    """

    name: Name
    capacity: Positive


class Phase(Record):
    """One burst inside a period: `rate` Mbit/s during the slots ``[start, start + length)``."""

    start: NonNegative
    length: Positive
    rate: Positive

    @property
    def end(self) -> int:
        """The first slot after the burst."""
        return self.start + self.length


class Job(Record):
    """A periodic job; docs/model.md has the mathematics.

    Parameters
    ----------
    name
        Unique among the jobs of an instance.
    period
        Length of one iteration, in slots.
    phases
        The bursts of one iteration; they lie inside the period and do not overlap.
    links
        Number of flows, each with the rate of the job, by link.
    weight
        Priority; larger is more important.
    ready
        The slot at which the job starts unshifted.
    max_stretch
        Largest number of idle slots appended to the period; for slowdown 0 sets no limit.
    fixed_offset
        The offset of a job that must not move.
    current_offset
        The present offset of a running job; another offset counts as a move.
    jitter
        Standard deviation of its computing times as a share of them; None if unknown.
    best_ms
        Its shortest iteration in the empty cluster, to which slowdowns are relative; None for its
        period.
    """

    name: Name
    period: Positive
    weight: NonNegative = 1
    ready: NonNegative = 0
    max_stretch: NonNegative = 0
    phases: Annotated[tuple[Phase, ...], Field(strict=False)]
    links: FrozenMap[Name, Positive]
    fixed_offset: NonNegative | None = None
    current_offset: NonNegative | None = None
    jitter: Jitter = None
    best_ms: Annotated[
        Annotated[Exact, Field(gt=0)] | None, Field(exclude_if=lambda best: best is None)
    ] = None

    @property
    def volume(self) -> int:
        """Volume of one flow in one iteration, in Mbit/s * slots."""
        return sum(phase.length * phase.rate for phase in self.phases)

    @property
    def peak(self) -> int:
        """The largest rate of one flow, in Mbit/s."""
        return max(phase.rate for phase in self.phases)

    @property
    def unshifted(self) -> int:
        """The unshifted offset: the fixed offset, or else the slot at which the job is ready."""
        return self.ready % self.period if self.fixed_offset is None else self.fixed_offset

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_phases(self.phases, self.period)
        if self.fixed_offset is not None and self.fixed_offset >= self.period:
            refuse(
                "fixed_offset",
                f"{quote(self.fixed_offset)}: must be below the period {quote(self.period)}",
            )
        longest = self.period + self.max_stretch
        if self.current_offset is not None and self.current_offset >= longest:
            refuse(
                "current_offset",
                f"{quote(self.current_offset)}: must be below the period {quote(longest)}",
            )
        return self


def _check_phases(phases: Sequence[Phase], period: int) -> None:
    """Refuse bursts that do not lie inside a period or overlap."""
    if not phases:
        refuse("phases", "empty; a job without bursts needs no schedule, leave it out")
    for index, phase in enumerate(phases):
        if phase.end > period:
            refuse(
                f"phases[{index}].length",
                f"{quote(phase.length)}: the burst ends at slot {quote(phase.end)}, "
                f"after the period of {quote(period)}",
            )
    order = sorted(range(len(phases)), key=lambda index: phases[index].start)
    for before, after in itertools.pairwise(order):
        if phases[after].start < phases[before].end:
            refuse(
                f"phases[{after}].start",
                f"{quote(phases[after].start)}: overlaps phases[{before}], "
                f"which ends at slot {quote(phases[before].end)}",
            )


class Instance(Record):
    """A rotation problem: jobs with periodic bursts on links.

    Every number is an integer, so that every cost is an exact rational. An instance that exists
    is consistent: names are unique, links are known, periods are within the limit. A hyperperiod
    can be of any length; code with tables of that length calls `check_hyperperiods`.

    Parameters
    ----------
    traffic_classes
        Number of classes that links serve in strict order, the highest first; 1 for none.
    network
        How links are shared: max-min ``fair``, as with RoCE and short queues; at random
        like bursts over ``tcp`` in deep queues; ``weighted`` by weight; or in ``strict`` order.
    """

    format: Literal["metronome-instance/1"] = "metronome-instance/1"
    name: Name
    slot_ms: Positive
    links: Annotated[tuple[Link, ...], Field(strict=False)]
    jobs: Annotated[tuple[Job, ...], Field(strict=False)]
    traffic_classes: TrafficClasses = 1
    network: Network = "fair"

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if not self.jobs:
            refuse("jobs", "empty; there is nothing to schedule")
        check_unique("links", [link.name for link in self.links])
        check_unique("jobs", [job.name for job in self.jobs])
        known = {link.name for link in self.links}
        for index, job in enumerate(self.jobs):
            for link in job.links:
                if link not in known:
                    refuse(format_path(["jobs", index, "links", link]), "there is no such link")
        limit = (info.context or {}).get("hyperperiod_limit") or default_limit()
        self.__dict__["hyperperiod_limit"] = limit
        for index, job in enumerate(self.jobs):
            # A job without links has no hyperperiod, but its period takes memory as well.
            for field, length, value in (
                ("period", job.period, job.period),
                ("max_stretch", job.period + job.max_stretch, job.max_stretch),
            ):
                if length > limit:
                    refuse(
                        f"jobs[{index}].{field}",
                        f"{quote(value)}: an iteration may take {quote(length)} "
                        f"slots, above the limit of {limit}; coarsen the slots or raise the limit",
                    )
        return self

    # ---------------------------------------------------------------- views

    @cached_property
    def jobs_on(self) -> Mapping[str, tuple[int, ...]]:
        """The indices of the jobs on every link, ascending."""
        users: dict[str, list[int]] = {link.name: [] for link in self.links}
        for index, job in enumerate(self.jobs):
            for link in job.links:
                users[link].append(index)
        return FrozenDict({link: tuple(jobs) for link, jobs in users.items()})

    @cached_property
    def hyperperiods(self) -> Mapping[str, int]:
        """The least common multiple of the periods on every link, in slots; 1 if unused."""
        return FrozenDict(
            {
                link: math.lcm(*(self.jobs[index].period for index in jobs))
                for link, jobs in self.jobs_on.items()
            }
        )

    @cached_property
    def hyperperiod_limit(self) -> int:
        """The largest period in slots; validation sets it."""
        return HYPERPERIOD_LIMIT

    def best_ms(self, job: Job) -> Fraction:
        """Return the shortest iteration of a job in the empty cluster, in ms."""
        return Fraction(job.period * self.slot_ms) if job.best_ms is None else job.best_ms

    def over_best(self, job: Job) -> Fraction:
        """Return the period of a job as a multiple of its shortest iteration."""
        return job.period * self.slot_ms / self.best_ms(job)

    @property
    def needs_stretch(self) -> bool:
        """Whether a hyperperiod is above the limit unless jobs are stretched."""
        return bool(self.long_hyperperiods())

    def long_hyperperiods(self, stretch: Mapping[str, int] = FrozenDict()) -> dict[str, int]:
        """Return the hyperperiods above the limit, by link, of jobs that are stretched."""
        periods = [job.period + stretch.get(job.name, 0) for job in self.jobs]
        lengths = {
            link: math.lcm(*{periods[index] for index in users})
            for link, users in self.jobs_on.items()
        }
        return {link: slots for link, slots in lengths.items() if slots > self.hyperperiod_limit}

    def check_hyperperiods(
        self, stretch: Mapping[str, int] = FrozenDict(), *, may_stretch: bool = False
    ) -> None:
        """Refuse an instance with a hyperperiod above the limit.

        Parameters
        ----------
        stretch
            Idle slots by job.
        may_stretch
            Whether to skip links with jobs that can be stretched.
        """
        for link, length in self.long_hyperperiods(stretch).items():
            if not (may_stretch and any(self.jobs[j].max_stretch for j in self.jobs_on[link])):
                raise InputError(
                    f"{self.name}: contention and latency need a hyperperiod of {quote(length)} "
                    f"slots on link {quote(link)}, above the limit of {self.hyperperiod_limit}; "
                    "coarsen the slots, raise the limit or minimise slowdown"
                )

    def job(self, name: str) -> Job:
        """Return the job called `name`."""
        return self.jobs[self._job_index[name]]

    @property
    def unshifted(self) -> Mapping[str, int]:
        """The unshifted offset of each job."""
        return {job.name: job.unshifted for job in self.jobs}

    @cached_property
    def _job_index(self) -> Mapping[str, int]:
        return {job.name: index for index, job in enumerate(self.jobs)}

    # ---------------------------------------------------------------- conversion

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, hyperperiod_limit: int | None = None) -> Self:
        """Build an instance from a document of format ``metronome-instance/1``.

        Periods are at most the limit; the default is `default_limit`.

        Raises
        ------
        InputError
            If anything is unknown, missing, of the wrong type, out of range or inconsistent.
        """
        limit = default_limit() if hyperperiod_limit is None else hyperperiod_limit
        return parse_record(cls, data, INSTANCE_FORMAT, {"hyperperiod_limit": limit})

    def to_dict(self) -> dict[str, Any]:
        """Return the instance as a document; `from_dict` gives back an equal instance."""
        return self.model_dump(mode="json")

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed."""
        try:
            fields = {name: getattr(self, name) for name in type(self).model_fields}
            return type(self).model_validate(
                {**fields, **changes}, context={"hyperperiod_limit": self.hyperperiod_limit}
            )
        except ValidationError as error:
            raise InputError(explain(error)) from None

    def to_frame(self) -> pd.DataFrame:
        """Return one row per job: period, weight, bursts, links and offsets."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "job": job.name,
                    "weight": job.weight,
                    "period": job.period,
                    "bursts": len(job.phases),
                    "duty": sum(phase.length for phase in job.phases) / job.period,
                    "peak": job.peak,
                    "volume": job.volume,
                    "links": ", ".join(
                        name if flows == 1 else f"{flows} x {name}"
                        for name, flows in job.links.items()
                    ),
                    "ready": job.ready,
                    "fixed_offset": job.fixed_offset,
                    "current_offset": job.current_offset,
                }
                for job in self.jobs
            ]
        ).set_index("job")

    def _repr_html_(self) -> str:
        count = f"{pluralise(len(self.jobs), 'job')} over {pluralise(len(self.links), 'link')}"
        units = "peak in Mbit/s, volume in Mbit/s x slots"
        head = f"<b>{html.escape(self.name)}</b>: {count}, in slots of {self.slot_ms} ms ({units})"
        frame = self.to_frame().drop(columns="links")
        used = frame[[name for name in frame if name in _ALWAYS or frame[name].any()]]
        return f"<p>{head}</p>{used.to_html(float_format='{:.2f}'.format, na_rep='')}"


_ALWAYS = {"weight", "period", "bursts", "duty", "peak", "volume"}


def read_instance(path: str | Path) -> Instance:
    """Read an instance from a JSON or YAML file.

    Raises
    ------
    InputError
        One line that names file, location and value.
    """
    return read_document_as(path, Instance.from_dict)


def write_instance(instance: Instance, path: str | Path) -> None:
    """Write an instance as JSON, one job a line, whole or not at all."""
    check_type("instance", instance, Instance)
    write_text(path, dump_document(instance.to_dict(), one_per_line=("links", "jobs")))
