"""Cases that are reported together: means over them, comparisons, targets, growth.

Every instance counts the same: where a solver ran with several seeds, its mean over them is taken
first. An instance at two settings (time limit, memory, threads) is two problems.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from metronome_opt.bench.cases import Problem, Setting
from metronome_opt.bench.statistics import PowerLaw, fit_power_law, time_to_target
from metronome_opt.bench.tables import distinct_slugs

SHIFT_S, LARGE_SHIFT_S = 1.0, 10.0
FLOOR_S = 0.01
MIN_SEEDS = 10
ABOVE_BEST = Fraction(1, 100)
ENDINGS = ["optimal", "feasible", "no schedule", "infeasible", "out of memory", "crash", "invalid"]
_GAPS = ["primal_gap", "certified_gap"]
_MEASURES = [*_GAPS, "primal_integral", "solved", "penalised_s", "log_time", "large_log_time"]


@dataclass(frozen=True)
class Growth:
    """The times of one solver by number of jobs.

    Attributes
    ----------
    solved
        (jobs, seconds) of each instance that was solved in the median over the seeds.
    unsolved
        (jobs, time limit) of the others; they are no part of the fit.
    fit
        Through the solved ones, None if they are too few.
    """

    solver: str
    solved: tuple[tuple[int, float], ...]
    unsolved: tuple[tuple[int, float], ...]
    fit: PowerLaw | None


@dataclass(frozen=True)
class TargetRuns:
    """The runs of a solver on a problem, each with another seed.

    Attributes
    ----------
    target
        The value to reach, `ABOVE_BEST` above the best known one.
    times
        Seconds of each run to the target, ascending, infinity if it was not reached.
    """

    problem: Problem
    solver: str
    target: Fraction
    times: tuple[float, ...]

    def within(self, tenths: int) -> float:
        """Return the seconds within which so many tenths of the runs reached the target."""
        return self.times[math.ceil(tenths * len(self.times) / 10) - 1]


@dataclass(frozen=True, eq=False)
class Section:
    """Cases that are reported together.

    Attributes
    ----------
    title, slug
        For people, for the names of files.
    frame
        Rows of `cases.measure`.
    solvers
        In the order in which they are shown.
    bounding
        The solvers that stated a lower bound anywhere in the campaign.
    """

    title: str
    slug: str
    frame: pd.DataFrame
    solvers: tuple[str, ...]
    bounding: frozenset[str]

    @property
    def setting(self) -> Setting | None:
        """The setting of all cases, None if there are several."""
        settings = {problem.setting for problem in self.problems}
        return settings.pop() if len(settings) == 1 else None

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, in their order."""
        return tuple(sorted(set(self.frame["problem"])))

    @cached_property
    def seeds(self) -> pd.DataFrame:
        """How many runs there are of each problem (row) and solver, NaN for none."""
        return self._by_problem("seed", "count")

    @cached_property
    def proof_times(self) -> pd.DataFrame:
        """The median of the times to a proof of each problem (row) and solver, in seconds.

        The slower of two middle ones, infinite without a proof, NaN where a solver did not run.
        """
        return self._by_problem("proof_s", _upper_median)

    @cached_property
    def values(self) -> pd.DataFrame:
        """The exact median value of each problem (row) and solver, infinite for no schedule.

        The worse of two middle ones, NaN where a solver did not run.
        """
        return self._by_problem("value", _upper_median)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The measures of each solver (row).

        ``solved``, ``penalised_s`` (PAR2), gaps and ``primal_integral`` are means over problems,
        ``geometric_s`` and ``large_geometric_s`` shifted geometric means of penalised times; gaps
        that end in ``_worst`` are the largest of all cases. A solver that is not `bounding` has no
        certified gap to be blamed for: NaN. ``instances`` and ``cases`` are numbers of them,
        ``complete`` is whether a solver ran on all problems, the `ENDINGS` are numbers of cases.
        """
        frame = self.frame
        times = frame["penalised_s"]
        frame = frame.assign(
            log_time=np.log(times + SHIFT_S), large_log_time=np.log(times + LARGE_SHIFT_S)
        )
        by_problem = frame.groupby(["solver", "problem"])[_MEASURES].mean().groupby("solver")
        found = by_problem.mean()
        found = found.join(frame.groupby("solver")[_GAPS].max().add_suffix("_worst"))
        # Rounding may lead just below 0.
        found["geometric_s"] = (np.exp(found.pop("log_time")) - SHIFT_S).clip(lower=0)
        found["large_geometric_s"] = (np.exp(found.pop("large_log_time")) - LARGE_SHIFT_S).clip(
            lower=0
        )
        found["instances"] = by_problem.size()
        found["cases"] = frame.groupby("solver").size()
        found["complete"] = found["instances"] == len(self.problems)
        ended = pd.crosstab(frame["solver"], frame["ended"])
        found = found.join(ended.reindex(columns=ENDINGS, fill_value=0))
        unbounded = ~found.index.isin(list(self.bounding))
        found.loc[unbounded, ["certified_gap", "certified_gap_worst"]] = np.nan
        return found.reindex(list(self.solvers))

    def speed_up(self, solver: str, baseline: str) -> float | None:
        """Return the ratio of shifted geometric means on the instances that both ran on."""
        if not {solver, baseline} <= set(self.solvers):
            return None
        both = self.seeds[[solver, baseline]].dropna().index
        if both.empty:
            return None
        times = self.only(both).summary["geometric_s"]
        return float(times[baseline] / times[solver]) if times[solver] else None

    def only(self, problems: Iterable[Problem], solvers: Iterable[str] | None = None) -> Section:
        """Return the section of these problems, and of those of these solvers that ran on them."""
        frame = self.frame[self.frame["problem"].isin(list(problems))]
        if solvers is not None:
            frame = frame[frame["solver"].isin(list(solvers))]
        ran = set(frame["solver"])
        return replace(
            self, frame=frame, solvers=tuple(name for name in self.solvers if name in ran)
        )

    def classes(self) -> dict[str, Section]:
        """Return the parts of a section, by name.

        Those of a single setting are the instances whose names differ only after the last hyphen,
        those of several settings are the settings.
        """
        several = self.setting is None
        settings = {problem.setting for problem in self.problems}
        grouped: dict[str, list[Problem]] = {}
        for problem in self.problems:
            name = problem.instance.rpartition("-")[0]
            part = _title(problem.setting, settings) if several else name
            grouped.setdefault(part, []).append(problem)
        return {name: self.only(problems) for name, problems in grouped.items()}

    # -------------------------------------------------------------- comparisons

    def tally(self, solver: str, other: str) -> tuple[int, int, int] | None:
        """Return on how many problems a solver's value is better, equal and worse; exactly.

        None if there is no problem that both ran on; those without a schedule by either are in
        none of the three.
        """
        pairs = self.values[[solver, other]].dropna()
        if pairs.empty:
            return None
        mine, theirs = list(pairs.iloc[:, 0]), list(pairs.iloc[:, 1])
        found = [(a, b) for a, b in zip(mine, theirs, strict=True) if min(a, b) < math.inf]
        return (
            sum(a < b for a, b in found),
            sum(a == b for a, b in found),
            sum(a > b for a, b in found),
        )

    def pairs_with(self, solver: str, rivals: Sequence[str]) -> pd.DataFrame:
        """Return pairs of runs on the same problem, one of them a rival's.

        Runs with the same seed are compared; a solver that ran once, with every run of the other.
        The columns of the rival's run end in ``_of_rival``; ``worse`` is whether its value is
        better.
        """
        columns = ["problem", "solver", "seed", "value", "record"]
        frame = self.frame[columns].sort_values(["problem", "seed"], kind="stable")
        frame["runs"] = frame.groupby(["problem", "solver"])["seed"].transform("size")
        frame["value"] = frame["value"].map(_or_infinity)
        mine = frame[frame["solver"] == solver]
        others = [frame[frame["solver"] == rival] for rival in rivals]
        pairs = pd.concat(
            [mine.merge(other, on="problem", suffixes=("", "_of_rival")) for other in others]
        )
        once = (pairs["runs"] == 1) | (pairs["runs_of_rival"] == 1)
        pairs = pairs[once | (pairs["seed"] == pairs["seed_of_rival"])]
        return pairs.assign(worse=[a > b for a, b in pairs[["value", "value_of_rival"]].to_numpy()])

    # -------------------------------------------------------------- time to target

    def targets(self) -> tuple[TargetRuns, ...]:
        """Return the runs of every problem and solver with at least `MIN_SEEDS` seeds."""
        cases: dict[Any, pd.DataFrame] = dict(list(self.frame.groupby(["problem", "solver"])))
        found = []
        for problem, solver in product(self.problems, self.solvers):
            mine = cases.get((problem, solver))
            best = None if mine is None else mine["best_value"].iloc[0]
            if mine is not None and best is not None and len(mine) >= MIN_SEEDS:
                target = best * (1 + ABOVE_BEST)
                times = sorted(time_to_target(steps, target) for steps in mine["steps"])
                found.append(TargetRuns(problem, solver, target, tuple(times)))
        return tuple(found)

    def too_few_seeds(self) -> dict[str, int]:
        """Return the solvers with several seeds but nowhere `MIN_SEEDS`, with their most seeds."""
        most = self.seeds.max()
        return {name: int(most[name]) for name in self.solvers if 1 < most[name] < MIN_SEEDS}

    # -------------------------------------------------------------- growth

    def growth(self) -> tuple[Growth, ...]:
        """Return the growth of every solver that solved an instance.

        Instances whose number of jobs is not known are left out.
        """
        jobs = self.frame.groupby("problem")["jobs"].max().dropna().to_dict()
        found = []
        for solver in self.solvers:
            solved, unsolved = [], []
            times = self.proof_times[solver].dropna().to_dict()
            for problem in self.problems:
                if problem not in jobs or problem not in times:
                    continue
                size, time = int(jobs[problem]), times[problem]
                if math.isfinite(time):
                    solved.append((size, max(FLOOR_S, time)))
                else:
                    unsolved.append((size, problem.setting.time_limit_s))
            if solved:
                fit = fit_power_law([size for size, _ in solved], [time for _, time in solved])
                found.append(Growth(solver, tuple(sorted(solved)), tuple(sorted(unsolved)), fit))
        return tuple(found)

    def _by_problem(self, column: str, how: Any) -> pd.DataFrame:
        grouped = self.frame.groupby(["problem", "solver"])[column].agg(how)
        table: pd.DataFrame = grouped.unstack("solver")
        return table.reindex(columns=list(self.solvers))


def sections_of(frame: pd.DataFrame) -> tuple[Section, ...]:
    """Return one section for each setting, then one for all settings of each split.

    The second kind is left out where a split has one setting only.
    """
    together = whole(frame)
    settings = list(dict.fromkeys(problem.setting for problem in frame["problem"]))
    parts = [(_title(setting, settings), [setting]) for setting in settings]
    for split in dict.fromkeys(setting.split for setting in settings):
        of_split = [setting for setting in settings if setting.split == split]
        if len(of_split) > 1:
            title = "all suites" if split == "test" else f"all suites, split {split}"
            parts.append((title, of_split))
    # "30 s" is one word in the name of a file.
    words = (re.sub(r"(?<=\d) (?=s\b)", "", title.lower()) for title, _ in parts)
    slugs = distinct_slugs("-".join(re.findall(r"[a-z0-9]+", each)) for each in words)
    return tuple(
        replace(
            together.only(each for each in together.problems if each.setting in chosen),
            title=title,
            slug=slug,
        )
        for (title, chosen), slug in zip(parts, slugs, strict=True)
    )


def whole(frame: pd.DataFrame) -> Section:
    """Return one section of all cases."""
    solvers = tuple(dict.fromkeys(frame["solver"]))
    bounding = frozenset(frame.loc[frame["states_bound"], "solver"])
    return Section("all", "all", frame, solvers, bounding)


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


def _or_infinity(value: Fraction | None) -> Fraction | float:
    return math.inf if value is None else value


def _upper_median(values: Iterable[Any]) -> Any:
    ordered = sorted(map(_or_infinity, values))
    return ordered[len(ordered) // 2]
