"""Runs that are reported together, and the means over them.

Every instance counts the same: where a solver ran with several seeds, its mean over them is taken
first. An instance at two settings (time limit, memory, threads) is two problems.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from metronome_opt.bench.cases import MeasuredCase, Problem, Setting
from metronome_opt.bench.items import with_distinct_slugs
from metronome_opt.bench.statistics import shifted_geometric_mean

Runs = Mapping[str, Mapping[Problem, Sequence[MeasuredCase]]]
Measure = Callable[[MeasuredCase], float]


@dataclass(frozen=True)
class Section:
    """Cases that are reported together.

    Attributes
    ----------
    title, slug
        For people, for the names of files.
    solvers
        In the order in which they are shown.
    bounding
        The solvers that stated a lower bound anywhere in the campaign.
    """

    title: str
    slug: str
    cases: tuple[MeasuredCase, ...]
    solvers: tuple[str, ...]
    bounding: frozenset[str]

    @property
    def setting(self) -> Setting | None:
        """The setting of all cases, None if there are several."""
        settings = {case.problem.setting for case in self.cases}
        return settings.pop() if len(settings) == 1 else None

    @cached_property
    def runs(self) -> Runs:
        """The cases of each solver by problem, in the order of their seeds."""
        runs: dict[str, dict[Problem, list[MeasuredCase]]] = {solver: {} for solver in self.solvers}
        for case in sorted(self.cases, key=lambda case: case.record.seed):
            runs[case.record.solver].setdefault(case.problem, []).append(case)
        return runs

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, in the order of their names, numbers by value."""
        return tuple(sorted({case.problem for case in self.cases}, key=_natural))

    def cases_of(self, solver: str) -> tuple[MeasuredCase, ...]:
        """Return all cases of a solver."""
        return tuple(case for cases in self.runs[solver].values() for case in cases)

    def complete(self, solver: str) -> bool:
        """Return whether a solver ran on every problem."""
        return len(self.runs[solver]) == len(self.problems)

    def mean(self, solver: str, measure: Measure) -> float:
        """Return the mean over the problems of a solver of the mean over its seeds."""
        by_problem = self.runs[solver].values()
        return fmean(fmean(map(measure, cases)) for cases in by_problem)

    def geometric_time(self, solver: str, shift_s: float) -> float:
        """Return the shifted geometric mean of penalised times, in seconds."""
        return shifted_geometric_mean(
            [
                shifted_geometric_mean([case.penalised_s for case in cases], shift_s)
                for cases in self.runs[solver].values()
            ],
            shift_s,
        )

    def worst(self, solver: str, measure: Measure) -> float:
        """Return the largest value of a measure over all cases of a solver."""
        return max(map(measure, self.cases_of(solver)))

    def only(self, problems: Iterable[Problem], solvers: Iterable[str] | None = None) -> Section:
        """Return the section of these problems, and of those of these solvers that ran on them."""
        wanted = set(problems)
        names = set(self.solvers if solvers is None else solvers)
        cases = tuple(
            case for case in self.cases if case.problem in wanted and case.record.solver in names
        )
        ran = {case.record.solver for case in cases}
        return replace(
            self, cases=cases, solvers=tuple(name for name in self.solvers if name in ran)
        )

    def classes(self) -> dict[str, Section]:
        """Return the parts of a section, by name.

        Those of a single setting are the instances whose names differ only after the last hyphen,
        those of several settings are the settings.
        """
        several = self.setting is None
        settings = {case.problem.setting for case in self.cases}
        grouped: dict[str, list[Problem]] = {}
        for problem in self.problems:
            name = problem.instance.rpartition("-")[0]
            part = _title(problem.setting, settings) if several else name
            grouped.setdefault(part, []).append(problem)
        return {name: self.only(problems) for name, problems in grouped.items()}


def sections_of(cases: Sequence[MeasuredCase]) -> tuple[Section, ...]:
    """Return one section for each setting, then one for all settings of each split.

    The second kind is left out where a split has one setting only.
    """
    together = whole(cases)
    by_setting: dict[Setting, list[MeasuredCase]] = {}
    for case in cases:
        by_setting.setdefault(case.problem.setting, []).append(case)
    settings = list(by_setting)
    sections = [
        _part(together, _title(setting, settings), by_setting[setting]) for setting in settings
    ]
    for split in dict.fromkeys(setting.split for setting in settings):
        of_split = [setting for setting in settings if setting.split == split]
        if len(of_split) > 1:
            pooled = [case for setting in of_split for case in by_setting[setting]]
            title = "all suites" if split == "test" else f"all suites, split {split}"
            sections.append(_part(together, title, pooled))
    return with_distinct_slugs(sections)


def whole(cases: Sequence[MeasuredCase]) -> Section:
    """Return one section of all cases."""
    return Section(
        title="all",
        slug="all",
        cases=tuple(cases),
        solvers=tuple(dict.fromkeys(case.record.solver for case in cases)),
        bounding=frozenset(case.record.solver for case in cases if _states_bound(case)),
    )


def _states_bound(case: MeasuredCase) -> bool:
    # That nothing is below a value of 0 is known without a solver.
    return case.bound is not None and not case.bound == case.value == 0


def _part(together: Section, title: str, cases: Sequence[MeasuredCase]) -> Section:
    ran = {case.record.solver for case in cases}
    # "30 s" is one word in the name of a file.
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=\d) (?=s\b)", "", title.lower()))
    return replace(
        together,
        title=title,
        slug="-".join(words),
        cases=tuple(cases),
        solvers=tuple(solver for solver in together.solvers if solver in ran),
    )


def _title(setting: Setting, settings: Collection[Setting]) -> str:
    """Return the suite and the time limit, and what else tells the setting from the others."""
    title = f"{setting.suite}, {setting.time_limit_s:g} s"
    if setting.split != "test":
        title += f", split {setting.split}"
    if len({other.workers for other in settings}) > 1:
        title += f", {setting.workers} threads"
    if len({other.memory_limit_mb for other in settings}) > 1:
        title += f", {setting.memory_limit_mb or 'unlimited'} MB"
    return title


def _natural(problem: Problem) -> tuple[list[tuple[int, str]], float, str]:
    parts = re.findall(r"(\d+)|(\D+)", problem.instance)
    return (
        [(int(digits or 0), text) for digits, text in parts],
        problem.setting.time_limit_s,
        problem.sha256,
    )
