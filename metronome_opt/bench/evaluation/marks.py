"""The marks that were set before anything ran, and how far a study is from them.

Lower completion than today's clusters and higher utilisation than reserving bandwidth are the
headline of Metronome (arXiv 2510.12274); `ideal` says how much of each there is to be had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from metronome_opt.bench.evaluation.estimates import (
    BASELINE,
    COMPARED,
    EXCLUSIVE,
    IDEAL,
    Group,
    groups_of,
)
from metronome_opt.bench.evaluation.measures import (
    Chosen,
    group_completion,
    group_iteration,
    lengthening,
)
from metronome_opt.bench.evaluation.runs import Number, Part, SimulatedRun
from metronome_opt.bench.intervals import Interval
from metronome_opt.bench.shown import three_digits
from metronome_opt.plot.style import counted

if TYPE_CHECKING:
    import pandas as pd

SUBJECT, RIVAL = "metronome", "cassini"
_MICROSECOND = 1e-6
Pair = Callable[[SimulatedRun, SimulatedRun], Number]


@dataclass(frozen=True)
class Mark:
    """What is to be reached.

    Attributes
    ----------
    name, aim
        In words.
    against
        The policy that the subject is related to.
    bar
        The change that is to be reached: -0.195 is 19.5 % less.
    value
        The ratio of a pair of runs.
    higher
        Whether more is better.
    strict
        Whether it takes more than the bar.
    jobs
        Those whose longer completion explains why it is missed; None where that explains nothing.
    """

    name: str
    aim: str
    against: str
    bar: float
    value: Pair
    higher: bool = False
    strict: bool = False
    jobs: Chosen | None = None

    def margin(self, change: float) -> float:
        """Return by how much a change is better than the bar; negative if it is worse."""
        return change - self.bar if self.higher else self.bar - change

    def reached(self, change: float) -> bool:
        """Return whether a change is enough."""
        margin = self.margin(change)
        return margin > 0 if self.strict else margin >= 0


@dataclass(frozen=True)
class Verdict:
    """What came of a mark in a part of a study.

    Attributes
    ----------
    part, mark
        Of what.
    change
        Of the subject, None if it is not known.
    most
        What `ideal` reaches, None if it is not known or the mark is about `ideal` itself.
    limit
        Why it is missed or not known, in words.
    complete
        Whether all seeds are in the change.
    """

    part: str
    mark: Mark
    change: Interval | None
    most: Interval | None
    limit: str
    complete: bool

    @property
    def reached(self) -> bool | None:
        """Whether the subject reached it; None if that is not known."""
        return None if self.change is None else self.mark.reached(self.change.mean)

    @property
    def certain(self) -> bool:
        """Whether the whole interval is on one side of the bar."""
        return self.change is not None and self.mark.bar not in self.change


def verdicts(part: Part) -> Iterator[Verdict]:
    """Yield what came of each mark; none if the subject of the marks did not run."""
    if SUBJECT not in part.policies:
        return
    for mark in _marks(part):
        change = _change(part, SUBJECT, mark)
        most = None if mark.against == IDEAL else _change(part, IDEAL, mark)
        yield Verdict(
            part.title,
            mark,
            change,
            most,
            limit=_limit(part, mark, change, most),
            complete=change is not None and part.complete(change),
        )


def verdicts_csv(found: Iterable[Verdict]) -> str:
    """Return verdicts as text, a line each; what is not known is empty, changes are shares."""
    import pandas as pd

    rows = [
        {
            "part": each.part,
            "mark": each.mark.name,
            "bar": each.mark.bar,
            "reached": each.reached,
            "certain": each.certain,
            **_ends("change", each.change),
            **_ends("ideal", each.most),
            "limit": each.limit,
        }
        for each in found
    ]
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _marks(part: Part) -> Iterator[Mark]:
    yield Mark(
        f"mean completion, against {BASELINE}",
        "at least 19.5 % lower",
        BASELINE,
        -0.195,
        COMPARED["completion_mean_s"],
        jobs=_everyone,
    )
    for measure, words in (("utilisation_used", "links in use"), ("utilisation", "all links")):
        yield Mark(
            f"utilisation of {words}, against {EXCLUSIVE}",
            "at least 23.2 % higher",
            EXCLUSIVE,
            0.232,
            COMPARED[measure],
            higher=True,
        )
    for measure, words in (("completion_mean_s", "mean"), ("completion_p99_s", "p99")):
        yield Mark(
            f"{words} completion, against {RIVAL}",
            "lower",
            RIVAL,
            0.0,
            COMPARED[measure],
            strict=True,
            jobs=_everyone,
        )
    highest = partial(_highest, groups_of(part, "priority"))
    for related, words in ((group_completion, "completion"), (group_iteration, "iteration")):
        yield Mark(
            f"highest priority class, {words}, against {IDEAL}",
            "at most 2 % longer",
            IDEAL,
            0.02,
            related(highest),
            jobs=highest,
        )


def _everyone(jobs: pd.DataFrame) -> pd.Series[bool]:
    return jobs["ideal_ms"].notna()


def _highest(groups: Iterable[Group], jobs: pd.DataFrame) -> pd.Series[bool]:
    """Choose the jobs of the highest class that a scenario has."""
    return next(chosen for group in groups if (chosen := group.chosen(jobs)).any())


def _change(part: Part, policy: str, mark: Mark) -> Interval | None:
    if not {policy, mark.against} <= set(part.policies):
        return None
    found = part.paired(policy, mark.against, mark.value)
    return None if found is None else found - 1.0


# ------------------------------------------------------------------ why


def _limit(part: Part, mark: Mark, change: Interval | None, most: Interval | None) -> str:
    if change is None:
        return _unknown(part, mark)
    if mark.reached(change.mean):
        return ""
    missing = _share(change, most) if mark.jobs is None else _missing(part, mark.jobs)
    if most is not None and not mark.reached(most.mean):
        return f"{IDEAL} does not reach it either; {missing}"
    return missing


def _unknown(part: Part, mark: Mark) -> str:
    if mark.against not in part.policies:
        return f"not known: {mark.against} did not run"
    if part.unfinished:
        return f"not known: {counted(part.unfinished, 'job')} did not finish"
    return "not known: no seed was done by both policies in all cells"


def _missing(part: Part, chosen: Chosen) -> str:
    """Say what makes completion longer than under `ideal`, in seconds a job."""
    pairs = [
        (one, part.runs[cell, seed, IDEAL])
        for (cell, seed, policy), one in part.runs.items()
        if policy == SUBJECT and (cell, seed, IDEAL) in part.runs
    ]
    if not pairs:
        return f"{IDEAL} did not run"
    longer = [lengthening(one, other, chosen) for one, other in pairs]
    queueing, held, iterating, placement, others = (
        fmean(each[name] for each in longer)
        for name in ("queueing", "held", "iterating", "placement", "others")
    )
    total = queueing + held + iterating
    if not math.isfinite(total):
        return "not known: no job finished in both runs"
    why = ""
    if math.isfinite(placement):
        why = f" (by placement {_seconds(placement)}, by others {_seconds(others)})"
    return (
        f"{_seconds(total)} s a job above {IDEAL}: queueing {_seconds(queueing)}, held back for a "
        f"slot {_seconds(held)}, longer iterations {_seconds(iterating)}{why}"
    )


def _share(change: Interval, most: Interval | None) -> str:
    if most is None:
        return f"{IDEAL} did not run"
    return f"{100 * (most.mean - change.mean):.1f} points are left to what {IDEAL} reaches"


def _seconds(value: float) -> str:
    if abs(value) < _MICROSECOND:  # what rounding leaves of differences
        return "0"
    return f"{'+' if value > 0 else ''}{three_digits(value)}"
