"""The campaign of solvers: its sections, and the numbers that the paper tells of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.best_known import HOME
from metronome_opt.bench.cases import (
    FLOOR_S,
    Section,
    SolverProblem,
    measure,
    read_best_known,
    whole,
)
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.bench.statistics import primal_gap
from paper.campaigns import COMPARED
from paper.shown import Numbers, camel, digits, listed, percent
from paper.shown import whole as integer

FAMILIES = ("single", "paper", "fabric", "dense", "coprime", "weights")
BEST_KNOWN = HOME / "best_known.json"
SUBJECT = "auto"


def size_of(problem: SolverProblem) -> int:
    """Return the size that the name of an instance of `fabric` or `dense` states."""
    return int(problem.instance.split("-")[1])


def _of(*suites: str) -> Callable[[SolverProblem], bool]:
    return lambda problem: problem.setting.suite in suites


def _up_to(suite: str, most: int) -> Callable[[SolverProblem], bool]:
    return lambda problem: problem.setting.suite == suite and size_of(problem) <= most


def _from(suite: str, least: int) -> Callable[[SolverProblem], bool]:
    return lambda problem: problem.setting.suite == suite and size_of(problem) >= least


PARTS: Mapping[str, Callable[[SolverProblem], bool]] = {
    **{camel(family): _of(family) for family in FAMILIES},
    "FabricSmall": _up_to("fabric", 256),
    "FabricLarge": _from("fabric", 1024),
    "DenseSmall": _up_to("dense", 30),
    "DenseLarge": _from("dense", 100),
    "SinglePaper": _of("single", "paper"),
    "All": _of(*FAMILIES),
}
"""The parts of a campaign that have numbers of their own, by their names in macros."""


class PowerLaw(NamedTuple):
    """``time = factor * size ** exponent`` by least squares of the logarithms.

    `low` and `high` are the 95 % interval of the exponent.
    """

    factor: float
    exponent: float
    low: float
    high: float

    def at(self, size: float) -> float:
        """Return the fitted time of a size."""
        return float(self.factor * size**self.exponent)


class Growth(NamedTuple):
    """Pairs of jobs and seconds of the instances solved and unsolved, and the fit of the former."""

    solved: tuple[tuple[int, float], ...]
    unsolved: tuple[tuple[int, float], ...]
    fit: PowerLaw | None


def fit_power_law(sizes: Sequence[int], times: Sequence[float]) -> PowerLaw | None:
    """Fit a power law to positive pairs; None for fewer than three points or two sizes."""
    if len(sizes) < 3 or len(set(sizes)) < 2:
        return None
    line = stats.linregress(np.log(sizes), np.log(times))
    exponent = float(line.slope)
    margin = float(stats.t.ppf(0.975, len(sizes) - 2) * line.stderr)
    return PowerLaw(float(np.exp(line.intercept)), exponent, exponent - margin, exponent + margin)


def growth_of(section: Section, solver: str) -> Growth | None:
    """Return the growth of a solver's times by jobs; None if it solved nothing."""
    jobs = section.frame.groupby("problem")["jobs"].max().dropna().to_dict()
    times: dict[Any, float] = section.proof_times[solver].dropna().to_dict()
    sized = [(int(jobs[each]), time, each) for each, time in times.items() if each in jobs]
    solved = sorted((size, max(FLOOR_S, time)) for size, time, _ in sized if np.isfinite(time))
    unsolved = sorted(
        (size, each.setting.time_limit_s) for size, time, each in sized if not np.isfinite(time)
    )
    if not solved:
        return None
    fit = fit_power_law([size for size, _ in solved], [time for _, time in solved])
    return Growth(tuple(solved), tuple(unsolved), fit)


@dataclass(frozen=True)
class Campaign:
    """The recorded campaign, as far as it can be compared.

    Attributes
    ----------
    records
        All of them.
    section
        Those of the instances that every solver ran on; None if there are none.
    """

    records: tuple[SolverRecord, ...]
    section: Section | None

    def part(self, name: str) -> Section | None:
        """Return the section of a part; None if no instance of it is recorded."""
        return None if self.section is None else _only(self.section, PARTS[name])

    @cached_property
    def growth(self) -> Growth | None:
        """Growth of the time of `auto` with the jobs on `fabric`."""
        section = self.part("Fabric")
        return None if section is None else growth_of(section, SUBJECT)


def read_campaign(records: Sequence[SolverRecord], best_known: Path = BEST_KNOWN) -> Campaign:
    """Return the campaign of records.

    Instances that a solver has still to run on, while it has run on others of the same suite, are
    left out.

    Raises
    ------
    InputError
        If a case is there twice, or the file of best known values is wrong.
    """
    known = read_best_known(best_known)
    if not records:
        return Campaign((), None)
    together = whole(measure(records, known))
    ran = {(record.suite, record.solver) for record in records}
    ran_on = together.seeds.to_dict()
    done = [
        problem
        for problem in together.problems
        if all(
            ran_on[solver][problem] > 0
            for solver in together.solvers
            if (problem.setting.suite, solver) in ran
        )
    ]
    ordered = replace(together, solvers=in_order(together.solvers))
    return Campaign(tuple(records), ordered.only(done) if done else None)


def in_order(solvers: Iterable[str]) -> tuple[str, ...]:
    """Return solvers in the order in which the paper shows them, unknown ones last."""
    known = list(COMPARED)
    return tuple(
        sorted(solvers, key=lambda name: (known.index(name) if name in known else len(known), name))
    )


def _only(section: Section, wanted: Callable[[SolverProblem], bool]) -> Section | None:
    problems = [problem for problem in section.problems if wanted(problem)]
    return section.only(problems) if problems else None


# ------------------------------------------------------------------ numbers


def solver_numbers(campaign: Campaign) -> Numbers:
    """Return the numbers of the parts of a campaign, by solver."""
    found = _circumstances(campaign) | _growth(campaign.growth) | _never_worse(campaign.section)
    for name in PARTS:
        section = campaign.part(name)
        problems = () if section is None else section.problems
        found[f"instances{name}"] = integer(len(problems)) if problems else None
        found[f"limit{name}"] = listed(f"{each.setting.time_limit_s:g}" for each in problems)
        for solver in in_order({*COMPARED, *(section.solvers if section else ())}):
            for macro, text in _of_solver(section, solver).items():
                found[f"{macro}{name}{camel(solver)}"] = text
    return found


def _of_solver(section: Section | None, solver: str) -> Numbers:
    if section is None or not _ran_on_all(section, {solver, SUBJECT}):
        return dict.fromkeys(("solved", "time", "par", "primal", "gap", "worst", "faster"))
    bounds = solver in section.bounding
    found = section.summary.loc[[solver]].to_dict("records")[0]
    return {
        "solved": integer(solved(section, solver)),
        "time": digits(found["geometric_s"]),
        "par": digits(found["penalised_s"]),
        "primal": percent(found["primal_gap"]),
        "gap": percent(found["certified_gap"]) if bounds else None,
        "worst": percent(found["certified_gap_worst"]) if bounds else None,
        "faster": digits(_faster(section, solver)),
    }


def _faster(section: Section, solver: str) -> float | None:
    """Return the ratio of the shifted geometric means of a solver and of `auto`."""
    both = section.seeds[[solver, SUBJECT]].dropna().index
    if both.empty:
        return None
    times = section.only(both).summary["geometric_s"]
    return float(times[solver] / times[SUBJECT]) if times[SUBJECT] else None


def _ran_on_all(section: Section, solvers: Collection[str]) -> bool:
    complete = section.summary["complete"]
    return all(solver in section.solvers and complete[solver] for solver in solvers)


def solved(section: Section, solver: str) -> int:
    """Return how many instances a solver proved in time, with every seed."""
    cases = section.frame[section.frame["solver"] == solver]
    return int(cases.groupby("problem")["solved"].all().sum())


def _circumstances(campaign: Campaign) -> Numbers:
    records, section = campaign.records, campaign.section
    names = (
        *("campaignCases", "campaignInstances", "campaignSolvers", "campaignSeeds"),
        *("campaignInvalid", "campaignCrashes", "campaignNone", "campaignWorkers"),
        *("campaignProcessor", "campaignCores", "campaignCommit", "campaignDate"),
        *("campaignPython", "campaignOrtools", "campaignNumba", "campaignLimit"),
        "protocolMemory",
    )
    if section is None:
        return dict.fromkeys(names)
    kinds = [record.kind for record in records]
    values = (
        integer(len(section.frame)),
        integer(len(section.problems)),
        integer(len(section.solvers)),
        integer(len({record.seed for record in records})),
        integer(kinds.count("invalid")),
        integer(kinds.count("crash") + kinds.count("out_of_memory")),
        integer(kinds.count("no_schedule")),
        listed(f"{record.workers}" for record in records),
        listed(str(record.machine.get("processor") or "") for record in records),
        listed(str(record.machine.get("cores") or "") for record in records),
        listed(record.commit or "" for record in records),
        min(record.started for record in records)[:10],
        *(
            listed(record.versions.get(package, "") for record in records)
            for package in ("python", "ortools", "numba")
        ),
        listed(f"{record.time_limit_s:g}" for record in records),
        listed(f"{record.memory_limit_mb:,}" for record in records if record.memory_limit_mb),
    )
    return dict(zip(names, values, strict=True))


def _growth(found: Growth | None) -> Numbers:
    names = ("Exponent", "Low", "High", "Solved", "Fewest", "Most")
    if found is None or found.fit is None:
        return {f"growth{name}": None for name in names}
    sizes = [size for size, _ in (*found.solved, *found.unsolved)]
    values = (
        *(f"{value:.1f}" for value in (found.fit.exponent, found.fit.low, found.fit.high)),
        *map(integer, (len(found.solved), min(sizes), max(sizes))),
    )
    return {f"growth{name}": value for name, value in zip(names, values, strict=True)}


def _never_worse(section: Section | None) -> Numbers:
    names = ("neverWorsePairs", "neverWorseViolations", "neverWorseMost")
    if section is None or SUBJECT not in section.solvers:
        return dict.fromkeys(names)
    pairs = _pairs(section.frame)
    worse = pairs[pairs["worse"]]
    most = max(
        (
            float(primal_gap(mine.value, other.value))
            for mine, other in zip(worse["record"], worse["record_of_rival"], strict=True)
        ),
        default=0.0,
    )
    values = integer(len(pairs)), integer(len(worse)), percent(most)
    return dict(zip(names, values, strict=True))


def _pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of runs of `auto` and a rival; with the same seed, unless one ran once."""
    frame = frame[["problem", "solver", "seed", "value", "record"]]
    runs = frame.groupby(["problem", "solver"])["seed"].transform("size")
    values = frame["value"].map(lambda value: float("inf") if value is None else value)
    frame = frame.assign(runs=runs, value=values)
    mine, others = frame[frame["solver"] == SUBJECT], frame[frame["solver"] != SUBJECT]
    pairs = mine.merge(others, on="problem", suffixes=("", "_of_rival"))
    once = (pairs["runs"] == 1) | (pairs["runs_of_rival"] == 1)
    pairs = pairs[once | (pairs["seed"] == pairs["seed_of_rival"])]
    worse = [a > b for a, b in pairs[["value", "value_of_rival"]].to_numpy()]
    return pairs.assign(worse=np.array(worse, dtype=bool))
