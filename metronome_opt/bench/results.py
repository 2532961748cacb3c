"""The tables of a section: who solved what, how fast, how well."""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.bench.cases import MeasuredCase
from metronome_opt.bench.pairwise import tally
from metronome_opt.bench.references import References
from metronome_opt.bench.sections import Section
from metronome_opt.bench.shown import MISSING, count, exact, percent, seconds, three_digits
from metronome_opt.bench.statistics import certified_gap
from metronome_opt.bench.tables import Table

SHIFT_S, LARGE_SHIFT_S = 1.0, 10.0
INCOMPLETE = "*"

_PARTS = {True: "suite", False: "class"}

_OUTCOMES = {
    "optimal": lambda case: case.optimal,
    "feasible": lambda case: case.value is not None and not case.optimal,
    "no schedule": lambda case: case.record.kind == "no_schedule",
    "infeasible": lambda case: case.record.kind == "infeasible",
    "out of memory": lambda case: case.record.kind == "out_of_memory",
    "crash": lambda case: case.record.kind == "crash",
    "invalid": lambda case: case.record.kind == "invalid",
}


def outcomes_table(section: Section) -> Table:
    """Return how many cases of each solver ended how."""
    rows = []
    for solver in section.solvers:
        cases = section.cases_of(solver)
        counts = (sum(map(holds, cases)) for holds in _OUTCOMES.values())
        instances = len(section.runs[solver])
        rows.append((_name(section, solver), count(instances), *map(count, (len(cases), *counts))))
    return Table(
        name=f"{section.slug}-outcomes",
        caption=f"{section.title}: how the cases ended",
        headings=("solver", "instances", "cases", *_OUTCOMES),
        rows=tuple(rows),
    )


def times_table(section: Section, baseline: str | None) -> Table:
    """Return the times to a proof, failures included; with a baseline, how many times faster."""
    rows = []
    for solver in section.solvers:
        row = (
            percent(section.mean(solver, _is_solved)),
            seconds(section.geometric_time(solver, SHIFT_S)),
            seconds(section.geometric_time(solver, LARGE_SHIFT_S)),
            seconds(section.mean(solver, lambda case: case.penalised_s)),
        )
        ratio = () if baseline is None else (three_digits(speed_up(section, solver, baseline)),)
        rows.append((_name(section, solver), *row, *ratio))
    against = () if baseline is None else (f"times faster than {baseline}",)
    return Table(
        name=f"{section.slug}-times",
        caption=f"{section.title}: time to a proof of optimality, failures included",
        headings=(
            "solver",
            "solved",
            f"shifted geometric mean, {SHIFT_S:g} s (s)",
            f"the same, {LARGE_SHIFT_S:g} s (s)",
            "PAR2 (s)",
            *against,
        ),
        rows=tuple(rows),
    )


def speed_up(section: Section, solver: str, baseline: str) -> float | None:
    """Return the ratio of shifted geometric means on the instances that both ran on."""
    both = section.runs[solver].keys() & section.runs.get(baseline, {}).keys()
    if not both:
        return None
    common = section.only(both)
    time = common.geometric_time(solver, SHIFT_S)
    return common.geometric_time(baseline, SHIFT_S) / time if time else None


def quality_table(section: Section) -> Table:
    """Return how good the schedules are, and how good they are proved to be."""
    rows = []
    for solver in section.solvers:
        certified = (section.mean(solver, _certified), section.worst(solver, _certified))
        rows.append(
            (
                _name(section, solver),
                percent(section.mean(solver, lambda case: case.primal_gap)),
                percent(section.worst(solver, lambda case: case.primal_gap)),
                percent(section.mean(solver, lambda case: case.primal_integral)),
                *(_if_bounding(section, solver, gap) for gap in certified),
            )
        )
    return Table(
        name=f"{section.slug}-quality",
        caption=f"{section.title}: gaps to the best known values and to the solvers' own bounds",
        headings=(
            "solver",
            "primal gap, mean",
            "primal gap, worst",
            "primal integral, mean",
            "certified gap, mean",
            "certified gap, worst",
        ),
        rows=tuple(rows),
    )


def classes_table(section: Section) -> Table:
    """Return the main figures for each part of the section, such as one size, and solver."""
    rows = [
        (
            name,
            _name(part, solver),
            count(len(part.runs[solver])),
            percent(part.mean(solver, _is_solved)),
            seconds(part.geometric_time(solver, SHIFT_S)),
            percent(part.mean(solver, lambda case: case.primal_gap)),
            _if_bounding(part, solver, part.mean(solver, _certified)),
        )
        for name, part in section.classes().items()
        for solver in part.solvers
    ]
    return Table(
        name=f"{section.slug}-classes",
        caption=f"{section.title}: the same by {_PARTS[section.setting is None]}",
        headings=(
            _PARTS[section.setting is None],
            "solver",
            "instances",
            "solved",
            f"shifted geometric mean, {SHIFT_S:g} s (s)",
            "primal gap, mean",
            "certified gap, mean",
        ),
        rows=tuple(rows),
        words=2,
    )


def pairs_table(section: Section) -> Table:
    """Return on how many instances the row's value is better, equal and worse than the column's."""
    rows = []
    for solver in section.solvers:
        cells = []
        for other in section.solvers:
            found = None if other == solver else tally(section, solver, other)
            cells.append(
                MISSING if found is None else f"{found.better}/{found.equal}/{found.worse}"
            )
        rows.append((solver, *cells))
    return Table(
        name=f"{section.slug}-pairs",
        caption=f"{section.title}: better/equal/worse value of the row than of the column",
        headings=("solver", *section.solvers),
        rows=tuple(rows),
    )


def instances_table(section: Section, references: References) -> Table:
    """Return what is known of each instance, and who got there in this section."""
    rows = []
    for problem in section.problems:
        best = references.values.get(problem.sha256)
        bound = references.bounds.get(problem.sha256)
        reached = [
            solver
            for solver in section.solvers
            if any(_reaches(case, best) for case in section.runs[solver].get(problem, ()))
        ]
        proved = [
            solver
            for solver in section.solvers
            if any(case.optimal for case in section.runs[solver].get(problem, ()))
        ]
        gap = None if best is None else float(certified_gap(best, bound))
        rows.append(
            (
                problem.instance,
                _names(reached, section),
                _names(proved, section),
                count(references.jobs.get(problem.sha256)),
                exact(best),
                exact(bound),
                percent(gap) if bound is not None or best == 0 else MISSING,
            )
        )
    return Table(
        name=f"{section.slug}-instances",
        caption=f"{section.title}: best known values and bounds, and which solvers reach them",
        headings=("instance", "reached by", "proved by", "jobs", "value", "bound", "gap"),
        rows=tuple(rows),
        words=3,
    )


def _reaches(case: MeasuredCase, best: Fraction | None) -> bool:
    return case.value is not None and case.value == best


def _names(solvers: list[str], section: Section) -> str:
    if len(solvers) == len(section.solvers) > 1:
        return "all"
    return ", ".join(solvers) or MISSING


def _name(section: Section, solver: str) -> str:
    return solver if section.complete(solver) else f"{solver} {INCOMPLETE}"


def _if_bounding(section: Section, solver: str, gap: float) -> str:
    # A solver that never states a bound has no certified gap to be blamed for.
    return percent(gap) if solver in section.bounding else MISSING


def _is_solved(case: MeasuredCase) -> float:
    return float(case.solved_s is not None)


def _certified(case: MeasuredCase) -> float:
    return case.certified_gap
