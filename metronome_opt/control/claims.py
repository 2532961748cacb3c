"""Claims that were handed out: which slot each job is to keep, from which moment on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from immutabledict import immutabledict

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.periods import stretched
from metronome_opt.presolve.lengthen import lengthen


@dataclass(frozen=True)
class Claims:
    """A schedule in force.

    Raises
    ------
    InputError
        If an offset in force is missing or not below the stretched period, or a name is not known.
    """

    # The jobs as they claim to be. `current_offset` is the offset in force; every job has one.
    instance: Instance
    epoch_ms: float = 0.0  # the moment of slot 0, by the clock of the observations
    stretch: Mapping[str, int] = field(default_factory=dict)  # idle slots by job, 0 if not named
    # Slots by which a job may be off without being in anybody's way, 0 if it is not named.
    cushions: Mapping[str, int] = field(default_factory=dict)
    hyperperiod: int | None = None  # slots that every stretched period has to divide, if asked for
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
            object.__setattr__(self, place, immutabledict(given))
        if not math.isfinite(self.epoch_ms):
            raise InputError(f"epoch_ms: must be a finite number, got {quote(self.epoch_ms)}")
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
        return immutabledict({job.name: job.current_offset or 0 for job in self.instance.jobs})

    @cached_property
    def running(self) -> Instance:
        """The jobs with their periods as they are stretched; nobody is stretched further."""
        return stretched(self.instance, {name: self.stretch.get(name, 0) for name in self.offsets})

    @cached_property
    def reserved(self) -> Instance:
        """The same with every burst longer by the cushion of its job: what is to be kept apart."""
        jobs = []
        named = {link.name: link for link in self.running.links}
        for job in self.running.jobs:
            links = tuple(named[link] for link in job.links)
            alone = self.running.replace(links=links, jobs=(job,))
            jobs.append(lengthen(alone, self.cushions.get(job.name, 0)).jobs[0])
        return self.running.replace(jobs=tuple(jobs))

    def period(self, name: str) -> int:
        """Return the stretched period of a job, in slots."""
        return self.instance.job(name).period + self.stretch.get(name, 0)

    def due_ms(self, name: str) -> float:
        """Return when a job is to begin its first iteration after the epoch."""
        return self.epoch_ms + self.offsets[name] * self.instance.slot_ms

    def next_due_ms(self, name: str, after_ms: float) -> float:
        """Return when a job is to begin its first iteration that does not begin before a moment."""
        period_ms = self.period(name) * self.instance.slot_ms
        first = self.due_ms(name)
        return first + math.ceil((after_ms - first) / period_ms) * period_ms

    def drift_ms(self, name: str, began_ms: float) -> float:
        """Return by how much a job that began an iteration then was late; negative if early."""
        period_ms = float(self.period(name) * self.instance.slot_ms)
        return signed(began_ms - self.due_ms(name), period_ms)

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


def signed(difference: float, period: float) -> float:
    """Return a difference of phases, in [-period / 2, period / 2)."""
    return (difference + period / 2) % period - period / 2
