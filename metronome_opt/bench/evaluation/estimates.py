"""Every number of a report with its interval, as one table for further work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metronome_opt.bench.evaluation.measures import (
    MEASURES,
    Chosen,
    finished_ratio,
    group_completion,
    group_slowdown,
    ratio,
    slowdown_p99_ratio,
    slowdown_ratio,
)
from metronome_opt.bench.evaluation.runs import Number, Part, SimulatedRun
from metronome_opt.bench.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd

BASELINE, EXCLUSIVE, IDEAL = "default", "exclusive", "ideal"
FINISHED = "completion_finished"
"""Completion over that of another run, of the jobs that finished in both."""

COMPARED: dict[str, Callable[[SimulatedRun, SimulatedRun], Number]] = {
    **{
        name: ratio(MEASURES[name])
        for name in ("completion_mean_s", "completion_median_s", "completion_p99_s")
    },
    FINISHED: finished_ratio,
    "slowdown_mean": slowdown_ratio,
    "slowdown_p99": slowdown_p99_ratio,
    **{
        name: ratio(MEASURES[name])
        for name in ("makespan_s", "iterations", "utilisation_used", "utilisation")
    },
}
AGAINST_EXCLUSIVE = ("utilisation_used", "utilisation")


@dataclass(frozen=True)
class Group:
    """Jobs that are looked at by themselves: a priority class or a model."""

    kind: str
    name: str
    chosen: Chosen


@dataclass(frozen=True)
class Estimate:
    """One number of one policy in one part of a study.

    Attributes
    ----------
    part, policy, measure
        Of what.
    against
        The policy that it is related to; None for a number by itself.
    group
        The kind and the name of the jobs that are meant; None for all.
    interval
        None where it is not known.
    complete
        Whether all seeds are in it.
    """

    part: str
    policy: str
    measure: str
    interval: Interval | None
    complete: bool
    against: str | None = None
    group: tuple[str, str] | None = None


Key = tuple[str, str, str | None, tuple[str, str] | None]


class Estimates:
    """The numbers of one part of a study, to be looked up."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._all = {
            (each.policy, each.measure, each.against, each.group): each for each in _all_of(part)
        }

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self._all.values())

    def find(
        self,
        policy: str,
        measure: str,
        against: str | None = None,
        group: Group | None = None,
    ) -> Estimate | None:
        """Return a number; None if a policy that it takes is not in the study."""
        key = (policy, measure, against, None if group is None else (group.kind, group.name))
        return self._all.get(key)


def groups_of(part: Part, kind: str) -> tuple[Group, ...]:
    """Return the groups of a kind, ``priority`` or ``model``; the highest priority first."""
    values = {value for run in part.runs.values() for value in run.jobs[kind]}
    ordered = sorted(values, reverse=kind == "priority")
    return tuple(Group(kind, _name(value), _equal(kind, value)) for value in ordered)


def estimates_csv(parts: Iterable[Estimates]) -> str:
    """Return all numbers as text, a line each; what is not known is empty.

    A number with `against` is the mean of ratios, one for each pair of runs.
    """
    import pandas as pd

    frame = pd.DataFrame([_row(each) for part in parts for each in part])
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _all_of(part: Part) -> Iterator[Estimate]:
    for policy in part.policies:
        for name, measure in MEASURES.items():
            yield _estimate(part, policy, name, part.mean(policy, measure.of))
        for against, names in ((BASELINE, tuple(COMPARED)), (EXCLUSIVE, AGAINST_EXCLUSIVE)):
            if against in part.policies:
                for name in names:
                    found = part.paired(policy, against, COMPARED[name])
                    yield _estimate(part, policy, name, found, against)
        for group in (*groups_of(part, "priority"), *groups_of(part, "model")):
            yield from _of_group(part, policy, group)


def _of_group(part: Part, policy: str, group: Group) -> Iterator[Estimate]:
    found = part.mean(policy, group_slowdown(group.chosen))
    yield _estimate(part, policy, "slowdown_mean", found, group=group)
    if IDEAL in part.policies:
        found = part.paired(policy, IDEAL, group_completion(group.chosen))
        yield _estimate(part, policy, FINISHED, found, IDEAL, group)


def _estimate(
    part: Part,
    policy: str,
    measure: str,
    interval: Interval | None,
    against: str | None = None,
    group: Group | None = None,
) -> Estimate:
    return Estimate(
        part=part.title,
        policy=policy,
        measure=measure,
        interval=interval,
        complete=interval is not None and part.complete(interval),
        against=against,
        group=None if group is None else (group.kind, group.name),
    )


def _row(each: Estimate) -> dict[str, str | float | int | None]:
    kind, name = each.group or (None, None)
    interval = each.interval
    return {
        "part": each.part,
        "policy": each.policy,
        "against": each.against,
        "grouped_by": kind,
        "group": name,
        "measure": each.measure,
        "mean": None if interval is None else interval.mean,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "seeds": 0 if interval is None else interval.count,
    }


def _name(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _equal(kind: str, value: object) -> Chosen:
    def chosen(jobs: pd.DataFrame) -> pd.Series[bool]:
        return jobs[kind] == value

    return chosen
