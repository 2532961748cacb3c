"""Offsets and stretches that are none: what is false of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance, Job


@dataclass(frozen=True)
class Falsehood:
    """A statement of a schedule file that is not true."""

    place: str
    stated: str
    truth: str

    def __str__(self) -> str:
        return f"{self.place}: stated {self.stated}, but {self.truth}"


def assignment_faults(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
    stretch_limit: Fraction | None,
) -> list[Falsehood]:
    """Return the offsets and stretches that are missing, unknown or out of range."""
    faults = []
    jobs = {job.name: job for job in instance.jobs}
    for field, values in (("offsets", offsets), ("stretch", stretch)):
        for name, value in values.items():
            if name not in jobs:
                faults.append(Falsehood(f"{field}.{show(name)}", show(value), "no such job"))
    for name, job in jobs.items():
        idle = stretch.get(name, 0)
        # No period is above the limit of the instance, whatever share of it is allowed.
        share = math.floor((stretch_limit or 0) * job.period)
        most = max(job.max_stretch, min(share, instance.hyperperiod_limit - job.period))
        if not 0 <= idle <= most:
            faults.append(Falsehood(f"stretch.{name}", show(idle), f"it must be in [0, {most}]"))
            continue
        if name not in offsets:
            faults.append(Falsehood(f"offsets.{name}", "nothing", "every job needs an offset"))
        elif not 0 <= offsets[name] < job.period + idle:
            faults.append(
                Falsehood(
                    f"offsets.{name}",
                    show(offsets[name]),
                    f"it must be in [0, {job.period + idle})",
                )
            )
        elif job.fixed_offset is not None and offsets[name] != job.fixed_offset:
            faults.append(
                Falsehood(
                    f"offsets.{name}",
                    show(offsets[name]),
                    f"the job is fixed at {job.fixed_offset}",
                )
            )
    return faults


def naming_faults(
    instance: Instance, field: str, values: Mapping[str, object]
) -> Iterator[Falsehood]:
    """Yield where a field does not name exactly the jobs of the instance."""
    jobs = {job.name for job in instance.jobs}
    for name, value in values.items():
        if name not in jobs:
            yield Falsehood(f"{field}.{show(name)}", str(value), "no such job")
    for job in instance.jobs:
        if job.name not in values:
            yield Falsehood(f"{field}.{job.name}", "nothing", "all jobs are named or none")


def check_hyperperiods(instance: Instance, jobs: Iterable[Job], stretch: Mapping[str, int]) -> None:
    """Refuse stretched periods whose common multiple would take for ever to walk through."""
    for name, length in too_long(instance, jobs, stretch):
        raise InputError(
            f"stretch: makes the hyperperiod of link {show(name)} {show(length)} slots, "
            f"above the limit of {instance.hyperperiod_limit}; "
            "choose stretches that give common periods"
        )


def too_long(
    instance: Instance, jobs: Iterable[Job], stretch: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """Yield (link, hyperperiod) of the links on which that of some jobs exceeds the limit."""
    periods_on: dict[str, set[int]] = {link.name: set() for link in instance.links}
    for job in jobs:
        for name in job.links:
            periods_on[name].add(job.period + stretch.get(job.name, 0))
    for link in instance.links:
        length = math.lcm(*periods_on[link.name])
        if length > instance.hyperperiod_limit:
            yield link.name, length
