"""The marks that were set before anything ran, and how far a study is from them.

Lower completion than today's clusters and higher utilisation than reserving bandwidth are the
headline of Metronome (arXiv 2510.12274); `ideal` says how much of each there is to be had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from metronome_opt.bench.statistics import Interval
from metronome_opt.bench.studies import IDEAL, SUBJECT, Part
from metronome_opt.bench.tables import three_digits
from metronome_opt.documents import parse_yaml
from metronome_opt.plot.style import counted

_MICROSECOND = 1e-6


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
    measure
        The measure of a run; of marks of the highest class, the column of its jobs.
    higher
        Whether more is better.
    strict
        Whether it takes more than the bar.
    explained
        Whether longer completion of jobs explains why it is missed.
    highest
        Whether it is about the jobs of the highest priority class.
    """

    name: str
    aim: str
    against: str
    bar: float
    measure: str
    higher: bool = False
    strict: bool = False
    explained: bool = True
    highest: bool = False

    def margin(self, change: float) -> float:
        """Return by how much a change is better than the bar; negative if it is worse."""
        return change - self.bar if self.higher else self.bar - change

    def reached(self, change: float) -> bool:
        """Return whether a change is enough."""
        margin = self.margin(change)
        return margin > 0 if self.strict else margin >= 0


_STORED = Path(__file__).parent / "templates" / "marks.yaml"
MARKS = tuple(Mark(**mark) for mark in parse_yaml(_STORED.read_text(encoding="utf-8")))


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
    for mark in MARKS:
        change = _change(part, SUBJECT, mark)
        most = None if mark.against == IDEAL else _change(part, IDEAL, mark)
        complete = change is not None and part.complete(change)
        yield Verdict(part.title, mark, change, most, _limit(part, mark, change, most), complete)


def verdicts_csv(found: Iterable[Verdict]) -> str:
    """Return verdicts as text, a line each; what is not known is empty, changes are shares."""
    rows = []
    for each in found:
        row = {
            "part": each.part,
            "mark": each.mark.name,
            "bar": each.mark.bar,
            "reached": each.reached,
            "certain": each.certain,
        }
        for name, interval in (("change", each.change), ("ideal", each.most)):
            for end, suffix in (("mean", ""), ("low", "_low"), ("high", "_high")):
                row[f"{name}{suffix}"] = getattr(interval, end, None)
        rows.append(row | {"limit": each.limit})
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


def _change(part: Part, policy: str, mark: Mark) -> Interval | None:
    if mark.highest:
        found = part.paired_jobs(policy, mark.against, mark.measure, part.choose_highest())
    else:
        found = part.paired(policy, mark.against, mark.measure)
    return None if found is None else found - 1.0


def _limit(part: Part, mark: Mark, change: Interval | None, most: Interval | None) -> str:
    """Return why a mark is missed or not known, in words."""
    if change is None:
        if mark.against not in part.policies:
            return f"not known: {mark.against} did not run"
        if part.unfinished:
            return f"not known: {counted(part.unfinished, 'job')} did not finish"
        return "not known: no seed was done by both policies in all cells"
    if mark.reached(change.mean):
        return ""
    missing = _missing(part, mark) if mark.explained else _share(change, most)
    if most is not None and not mark.reached(most.mean):
        return f"{IDEAL} does not reach it either; {missing}"
    return missing


def _missing(part: Part, mark: Mark) -> str:
    """Say what makes completion longer than under `ideal`, in seconds a job."""
    chosen = part.choose_highest() if mark.highest else None
    longer = part.lengthening(SUBJECT, IDEAL, chosen)
    if longer.empty:
        return f"{IDEAL} did not run"
    total = longer["queueing"] + longer["held"] + longer["iterating"]
    if not math.isfinite(total):
        return "not known: no job finished in both runs"
    told = longer.map(_seconds)
    why = ""
    if math.isfinite(longer["placement"]):
        why = f" (by placement {told['placement']}, by others {told['others']})"
    return (
        f"{_seconds(total)} s a job above {IDEAL}: queueing {told['queueing']}, held back for a "
        f"slot {told['held']}, longer iterations {told['iterating']}{why}"
    )


def _share(change: Interval, most: Interval | None) -> str:
    if most is None:
        return f"{IDEAL} did not run"
    return f"{100 * (most.mean - change.mean):.1f} points are left to what {IDEAL} reaches"


def _seconds(value: float) -> str:
    if abs(value) < _MICROSECOND:  # what rounding leaves of differences
        return "0"
    return f"{'+' if value > 0 else ''}{three_digits(value)}"
