"""Schedules in force: which slots each running job keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.periods import stretched
from metronome_opt.records import FrozenDict


@dataclass(frozen=True)
class Claims:
    """A schedule in force; offsets count from the Unix epoch.

    Raises
    ------
    InputError
        If an offset in force is missing or not below the stretched period, or a name is not known.
    """

    # The jobs as they claim to be. `current_offset` is the offset in force; every job has one.
    instance: Instance
    hyperperiod: int  # slots that every stretched period has to divide
    stretch: Mapping[str, int] = field(default_factory=dict)  # idle slots by job, 0 if not named
    # Slots by which a job may be off without meeting another one, 0 if it is not named.
    cushions: Mapping[str, int] = field(default_factory=dict)
    gated: Mapping[str, bool] = field(default_factory=dict)  # by job, whether it keeps its slots

    def __post_init__(self) -> None:
        known = {job.name for job in self.instance.jobs}
        for place in ("stretch", "cushions", "gated"):
            given = getattr(self, place)
            for name, value in given.items():
                if name not in known:
                    raise InputError(f"{place}.{quote(name)}: there is no such job; leave it out")
                if value < 0:
                    raise InputError(
                        f"{place}.{quote(name)}: must be at least 0, got {quote(value)}"
                    )
            object.__setattr__(self, place, FrozenDict(given))
        for index, job in enumerate(self.instance.jobs):
            where, offset = f"jobs[{index}].current_offset", job.current_offset
            if offset is None:
                raise InputError(f"{where}: missing; say at which offset {quote(job.name)} runs")
            if offset >= self.period(job.name):
                raise InputError(
                    f"{where}: {quote(offset)}: must be below the stretched period of "
                    f"{quote(self.period(job.name))} slots"
                )

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """The offset in force of each job, in slots."""
        return FrozenDict({job.name: job.current_offset or 0 for job in self.instance.jobs})

    @cached_property
    def running(self) -> Instance:
        """The jobs with their stretched periods, which are not stretched further."""
        return stretched(self.instance, {name: self.stretch.get(name, 0) for name in self.offsets})

    def period(self, name: str) -> int:
        """Return the stretched period of a job, in slots."""
        return self.instance.job(name).period + self.stretch.get(name, 0)

    def is_gated(self, name: str) -> bool:
        """Return whether a job keeps its slots."""
        return self.gated.get(name, True)

    def with_slots(self, periods: Mapping[str, int], gated: Mapping[str, bool]) -> Claims:
        """Return the claims with other periods, and others gated; jobs stay where they are."""
        stretch = dict(self.stretch)
        jobs = []
        for job in self.instance.jobs:
            period = periods.get(job.name, self.period(job.name))
            stretch[job.name] = idle = period - job.period
            changes = {
                "current_offset": (job.current_offset or 0) % period,
                "max_stretch": max(job.max_stretch, idle),
            }
            jobs.append(job.model_copy(update=changes))
        return replace(
            self,
            instance=self.instance.replace(jobs=tuple(jobs)),
            stretch=stretch,
            gated={**self.gated, **gated},
        )

    def with_offsets(self, offsets: Mapping[str, int]) -> Claims:
        """Return the claims with other offsets in force, those of all jobs."""
        jobs = tuple(
            job.model_copy(update={"current_offset": offsets[job.name]})
            for job in self.instance.jobs
        )
        return replace(self, instance=self.instance.replace(jobs=jobs))
