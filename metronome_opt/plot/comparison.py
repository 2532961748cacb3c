"""The same instance before and after, with what the judge says of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import index

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance
from metronome_opt.verify import Evaluation, LinkReport, evaluate


@dataclass(frozen=True)
class Side:
    """One of the two schedules: ``before`` or ``after``."""

    name: str
    offsets: Mapping[str, int]
    evaluation: Evaluation

    def report(self, link: str) -> LinkReport:
        """Return what the judge says of the link called `link`."""
        return next(report for report in self.evaluation.links if report.name == link)


@dataclass(frozen=True)
class Comparison:
    """Two schedules of one instance."""

    instance: Instance
    before: Side
    after: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both, in the order in which they are drawn."""
        return self.before, self.after


def compare(instance: Instance, before: Mapping[str, int], after: Mapping[str, int]) -> Comparison:
    """Check and judge two sets of offsets.

    Raises
    ------
    InputError
        If an offset is missing, of an unknown job, out of range or not an integer.
    """
    return Comparison(instance, judge(instance, "before", before), judge(instance, "after", after))


def judge(
    instance: Instance,
    name: str,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int] | None = None,
    stretch_limit: Fraction | None = None,
) -> Side:
    """Check and judge one set of offsets, called ``before`` or ``after``; see `evaluate`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, of an unknown job, out of range or not an integer.
    """
    try:
        whole = _integers("offsets", offsets)
        idle = _integers("stretch", stretch or {})
        return Side(name, whole, evaluate(instance, whole, idle, stretch_limit=stretch_limit))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _integers(field: str, values: Mapping[str, int]) -> dict[str, int]:
    return {job: _integer(f"{field}.{job}", value) for job, value in values.items()}


def _integer(where: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]  # what is not an integer is refused here
    except TypeError:
        raise InputError(f"{where}: must be an integer, got {show(value)}") from None


def most_contended(comparison: Comparison) -> str | None:
    """Return the link with the largest contention before, ties by name; None if none is used."""
    reports = [report for report in comparison.before.evaluation.links if report.jobs]
    return (
        min(reports, key=lambda report: (-report.contention, report.name)).name if reports else None
    )


def busiest_link(instance: Instance, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return the name of the link that was most contended before, ties by name.

    Links without jobs are never chosen.

    Raises
    ------
    InputError
        If an offset of either schedule is wrong or no link has a job.
    """
    link = most_contended(compare(instance, before, after))
    if link is None:
        raise InputError(f"instance {show(instance.name)}: no job uses a link, nothing to draw")
    return link
