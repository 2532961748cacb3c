"""The simulated studies: their parts, and the numbers that the paper tells of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.statistics import Interval
from metronome_opt.bench.studies import (
    BASELINE,
    DONE,
    EXCLUSIVE,
    RIVAL,
    SUBJECT,
    StudyPart,
    parts_of,
)
from metronome_opt.simulate.policies import POLICIES
from metronome_opt.simulate.study import Cell, Setting
from paper.published import HEADLINES
from paper.shown import Numbers, camel, change, listed, whole

MEAN, TAIL = "completion_mean_s", "completion_p99_s"
NAMES: Mapping[str, str] = {
    "dynamic-24": "Dynamic",
    "static-24": "Static",
    "snapshot": "Snapshot",
}
"""The studies by their names in macros."""

SHOWN = tuple(policy for policy in POLICIES if policy != BASELINE)
_HEADLINE = -float(HEADLINES["headlineCompletion"]) / 100


@dataclass(frozen=True)
class StudyRuns:
    """The recorded runs of a study.

    Attributes
    ----------
    whole
        All cells together.
    cells
        Each by itself, with its settings.
    records
        What both are made of.
    """

    whole: StudyPart
    cells: Mapping[str, StudyPart]
    records: tuple[SimulationRecord, ...]

    @property
    def policies(self) -> tuple[str, ...]:
        """Those that are compared with the baseline."""
        return tuple(policy for policy in self.whole.policies if policy != BASELINE)

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return len(self.whole.seeds)

    def where(self, **settings: Setting) -> StudyPart | None:
        """Return the part of the cells that have these settings; None if there are none."""
        chosen = [title for title in self.cells if settings.items() <= self.settings[title].items()]
        return self.whole.only(chosen) if chosen else None

    @cached_property
    def settings(self) -> Mapping[str, Mapping[str, Setting]]:
        """The settings of each cell by its title."""
        return {Cell(each.cell).label: each.cell for each in self.records}

    def values(self, name: str) -> list[Setting]:
        """Return all values of a setting, in the order of the records."""
        return list(dict.fromkeys(record.cell[name] for record in self.records))


def read_study(records: Sequence[SimulationRecord]) -> StudyRuns | None:
    """Return the runs of a study; None if nothing is recorded.

    Seeds that are not recorded whole do not count: cells would rest on different ones.

    Raises
    ------
    InputError
        If the records are of several studies, or a run has no results.
    """
    if not records:
        return None
    # Policies that are no more were recorded too.
    chosen = _whole_seeds([record for record in records if record.policy in POLICIES])
    parts = parts_of(chosen)
    cells = parts[1:] or parts
    return StudyRuns(parts[0], {part.title: part for part in cells}, tuple(chosen))


def _whole_seeds(records: Sequence[SimulationRecord]) -> list[SimulationRecord]:
    """Return the records of the seeds at which as much ran as at the first; all if it is alone."""
    count: dict[int, int] = {}
    for record in records:
        count[record.seed] = count.get(record.seed, 0) + 1
    most = max(count.values())
    return [record for record in records if count[record.seed] == most]


def changed(
    part: StudyPart | None, policy: str, measure: str, against: str = BASELINE
) -> Interval | None:
    """Return by what share a measure of a policy differs from that of another, in pairs of runs."""
    if part is None or not {policy, against} <= set(part.policies):
        return None
    found = part.paired(policy, against, measure)
    return None if found is None else found - 1.0


# ------------------------------------------------------------------ numbers


def study_numbers(studies: Mapping[str, StudyRuns | None]) -> Numbers:
    """Return the numbers of all studies.

    Parameters
    ----------
    studies
        By the names of the studies, None for what is not recorded.
    """
    found = _together([each for each in studies.values() if each is not None])
    for study, name in NAMES.items():
        runs = studies.get(study)
        found |= {f"{macro}{name}": text for macro, text in _size(runs).items()}
        for policy in SHOWN:
            found |= _of_policy(runs, policy, f"{name}{camel(policy)}")
        found |= _of_subject(runs, name)
    return found


def _together(studies: Sequence[StudyRuns]) -> Numbers:
    records = [record for each in studies for record in each.records]
    if not records:
        return dict.fromkeys(
            ("simulationsRuns", "simulationsFailed", "simulationsProcessor", "simulationsCommit")
        )
    return {
        "simulationsRuns": whole(len(records)),
        "simulationsFailed": whole(sum(record.kind != DONE for record in records)),
        "simulationsProcessor": listed(str(each.machine.get("processor")) for each in records),
        "simulationsCommit": listed(each.commit or "" for each in records),
    }


def _size(runs: StudyRuns | None) -> Numbers:
    if runs is None:
        return dict.fromkeys(("cells", "seeds", "runs", "jobs"))
    done = runs.whole.runs
    return {
        "cells": whole(len(runs.cells)),
        "seeds": whole(runs.seeds),
        "runs": whole(len(done)),
        "jobs": None if done.empty else whole(done["jobs"].mean()),
    }


def _of_policy(runs: StudyRuns | None, policy: str, end: str) -> Numbers:
    part = None if runs is None else runs.whole
    known = _by_cell(runs, policy)
    return {
        **with_ends(f"change{end}", changed(part, policy, MEAN)),
        **with_ends(f"tail{end}", changed(part, policy, TAIL)),
        **with_ends(f"used{end}", changed(part, policy, "utilisation_used", EXCLUSIVE)),
        **with_ends(f"all{end}", changed(part, policy, "utilisation", EXCLUSIVE)),
        f"least{end}": change(min((each.mean for each in known), default=None)),
        f"most{end}": change(max((each.mean for each in known), default=None)),
        f"shorter{end}": _count([each.high is not None and each.high < 0 for each in known]),
        f"longer{end}": _count([each.low is not None and each.low > 0 for each in known]),
    }


def _of_subject(runs: StudyRuns | None, name: str) -> Numbers:
    part = None if runs is None else runs.whole
    known = _by_cell(runs, SUBJECT)
    return {
        **with_ends(f"rival{name}", changed(part, SUBJECT, MEAN, RIVAL)),
        f"headlineCells{name}": _count([each.mean <= _HEADLINE for each in known]),
        f"certainCells{name}": _count(
            [each.high is not None and each.high <= _HEADLINE for each in known]
        ),
    }


def _by_cell(runs: StudyRuns | None, policy: str) -> list[Interval]:
    """Return the change of mean completion in each cell where it is known."""
    cells = [] if runs is None else [changed(each, policy, MEAN) for each in runs.cells.values()]
    return [each for each in cells if each is not None]


def _count(held: Sequence[bool]) -> str | None:
    """Return how often something held; None where it was never asked."""
    return whole(sum(held)) if held else None


def with_ends(macro: str, found: Interval | None) -> Numbers:
    """Return a change and the ends of its interval, as three macros."""
    mean, low, high = (None, None, None) if found is None else (found.mean, found.low, found.high)
    return {macro: change(mean), f"{macro}Low": change(low), f"{macro}High": change(high)}
