"""The report of a campaign of solvers: tables, figures, checks and threats to validity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import pandas as pd

from metronome_opt.bench.cases import (
    Problem,
    References,
    cases_csv,
    gather,
    measure,
    read_best_known,
)
from metronome_opt.bench.figures import (
    MOST_PANELS,
    Strokes,
    plot_cactus,
    plot_growth,
    plot_profile,
    plot_targets,
    proving_solvers,
    strokes,
)
from metronome_opt.bench.records import Record
from metronome_opt.bench.sections import (
    ABOVE_BEST,
    ENDINGS,
    FLOOR_S,
    LARGE_SHIFT_S,
    MIN_SEEDS,
    SHIFT_S,
    Section,
    sections_of,
    whole,
)
from metronome_opt.bench.statistics import certified_gap
from metronome_opt.bench.tables import (
    MISSING,
    Drawing,
    Item,
    Table,
    count,
    cross_table,
    distinct,
    exact,
    listed,
    markdown_text,
    percent,
    seed_range,
    three_digits,
    versions_of,
    write_pages,
)
from metronome_opt.errors import InputError, show

BEST_SOLVER = "auto"
RIVALS = ("greedy", "cassini", "local", "cpsat")
GROWING_SUITE = "fabric"
INCOMPLETE = "*"
_ANY_SOLVER = "any solver found, or any is known to have"

_SOLVED = ("solved", "solved", percent)
_TIME = ("geometric_s", f"shifted geometric mean, {SHIFT_S:g} s (s)", three_digits)
_GAP = ("primal_gap", "primal gap, mean", percent)
_CERTIFIED = ("certified_gap", "certified gap, mean", percent)
Columns = Sequence[tuple[str, str, Callable[[float], str]]]

_OUTCOMES: Columns = [
    (name, name, lambda number: count(int(number))) for name in ("instances", "cases", *ENDINGS)
]
_TIMES: Columns = (
    _SOLVED,
    _TIME,
    ("large_geometric_s", f"the same, {LARGE_SHIFT_S:g} s (s)", three_digits),
    ("penalised_s", "PAR2 (s)", three_digits),
)
_QUALITY: Columns = (
    _GAP,
    ("primal_gap_worst", "primal gap, worst", percent),
    ("primal_integral", "primal integral, mean", percent),
    _CERTIFIED,
    ("certified_gap_worst", "certified gap, worst", percent),
)


def write_report(
    records: Sequence[Record],
    folder: str | Path,
    *,
    baseline: str | None = None,
    best_known: str | Path | None = None,
) -> Path:
    """Write ``report.md``, ``records.csv``, ``tables/*.tex`` and ``figures/*.svg`` and ``*.pdf``.

    The same records make the same files. Other files of the folder stay as they are.

    Parameters
    ----------
    records
        Of one campaign, every case once.
    folder
        Made if it does not exist.
    baseline
        The solver whose times the others' are related to.
    best_known
        A file of format ``metronome-best-known/1``; without it, the best values of the records
        are the best known.

    Returns
    -------
    Path
        That of ``report.md``, which is written last.

    Raises
    ------
    InputError
        If there are no records, a case is there twice, the baseline did not run, the file of best
        known values is wrong or something cannot be written.
    """
    if not records:
        raise InputError("records: there are none, so there is nothing to report")
    references = gather(records, None if best_known is None else read_best_known(best_known))
    frame = measure(records, references)
    together = whole(frame)
    if baseline is not None and baseline not in together.solvers:
        raise InputError(
            f"baseline: {show(baseline)} is not in the records; "
            f"choose from {', '.join(together.solvers)}"
        )
    looks = strokes(together.solvers)
    head = Table("campaign", "What ran", ("", ""), what_ran(records), words=2)
    contents: dict[str, Sequence[Item]] = {"What ran": [head]}
    for section in sections_of(frame):
        contents[section.title] = list(section_items(section, references, baseline, looks))
    checks = ["\n".join([*_checks(frame, references), *_dominance(together)]) + "\n"]
    if best_known is not None:
        checks += _against_known(together, references)
    contents["Checks"] = checks
    return write_pages(
        folder,
        "campaign.md",
        contents,
        suffixes=(".svg", ".pdf"),
        texts={"records.csv": cases_csv(frame)},
        latex=True,
        best_known=best_known is not None,
        constants={
            "shift": SHIFT_S,
            "large_shift": LARGE_SHIFT_S,
            "floor": FLOOR_S,
            "seeds": MIN_SEEDS,
            "above": float(100 * ABOVE_BEST),
        },
        **_circumstances(records, references),
    )


# ------------------------------------------------------------------ a section


def section_items(
    section: Section, references: References, baseline: str | None, looks: Strokes
) -> Iterator[Item]:
    """Yield what one section shows."""
    yield _table(section, "outcomes", "how the cases ended", _OUTCOMES)
    yield _times(section, baseline)
    gaps = "gaps to the best known values and to the solvers' own bounds"
    yield _table(section, "quality", gaps, _QUALITY)
    classes = section.classes()
    if section.setting is None or 1 < len(classes) < len(section.problems):
        yield _classes(section, classes)
    if len(section.solvers) > 1:
        yield _pairs(section)
    yield from _time_drawings(section, looks)
    if section.setting is not None:
        yield from _targets(section, looks)
        if section.setting.suite == GROWING_SUITE:
            yield from _growth(section, looks)
        yield _instances(section, references)


def _table(section: Section, name: str, caption: str, columns: Columns) -> Table:
    """Return a table of shown measures with a row for each solver."""
    return Table(
        f"{section.slug}-{name}",
        f"{section.title}: {caption}",
        ("solver", *(heading for _, heading, _ in columns)),
        [
            (
                str(solver) if measures["complete"] else f"{solver} {INCOMPLETE}",
                *(shown(measures[column]) for column, _, shown in columns),
            )
            for solver, measures in section.summary.iterrows()
        ],
    )


def _times(section: Section, baseline: str | None) -> Table:
    caption = "time to a proof of optimality, failures included"
    table = _table(section, "times", caption, _TIMES)
    if baseline is None:
        return table
    ratios = [three_digits(section.speed_up(solver, baseline)) for solver in section.solvers]
    return replace(
        table,
        headings=(*table.headings, f"times faster than {baseline}"),
        rows=[(*row, ratio) for row, ratio in zip(table.rows, ratios, strict=True)],
    )


def _classes(section: Section, classes: Mapping[str, Section]) -> Table:
    part = "suite" if section.setting is None else "class"
    columns = (_OUTCOMES[0], _SOLVED, _TIME, _GAP, _CERTIFIED)
    tables = {name: _table(each, "classes", "", columns) for name, each in classes.items()}
    return replace(
        _table(section, "classes", f"the same by {part}", columns),
        headings=(part, *next(iter(tables.values())).headings),
        rows=[(name, *row) for name, table in tables.items() for row in table.rows],
        words=2,
    )


def _pairs(section: Section) -> Table:
    def cell(solver: str, other: str) -> str:
        found = None if solver == other else section.tally(solver, other)
        return MISSING if found is None else "/".join(map(str, found))

    caption = f"{section.title}: better/equal/worse value of the row than of the column"
    solvers = section.solvers
    return cross_table(f"{section.slug}-pairs", caption, "solver", solvers, solvers, cell)


def _instances(section: Section, references: References) -> Table:
    def names(cases: pd.DataFrame, problem: Problem) -> str:
        there = set(cases.loc[cases["problem"] == problem, "solver"])
        if len(there) == len(section.solvers) > 1:
            return "all"
        return ", ".join(name for name in section.solvers if name in there) or MISSING

    frame = section.frame
    reaching = frame[frame["value"].notna() & (frame["value"] == frame["best_value"])]
    proving = frame[frame["optimal"]]
    rows = []
    for problem in section.problems:
        best = references.values.get(problem.sha256)
        bound = references.bounds.get(problem.sha256)
        known = best is not None and (bound is not None or best == 0)
        rows.append(
            (
                problem.instance,
                names(reaching, problem),
                names(proving, problem),
                count(references.jobs.get(problem.sha256)),
                exact(best),
                exact(bound),
                percent(float(certified_gap(best, bound)) if known else None),
            )
        )
    return Table(
        f"{section.slug}-instances",
        f"{section.title}: best known values and bounds, and which solvers reach them",
        ("instance", "reached by", "proved by", "jobs", "value", "bound", "gap"),
        rows,
        words=3,
    )


def _time_drawings(section: Section, looks: Strokes) -> Iterator[Item]:
    shown = proving_solvers(section)
    absent = [solver for solver in section.solvers if solver not in shown]
    if not shown:
        yield "No solver that ran on all instances solved one: there is no figure of times.\n"
        return
    if len(shown) > 1:
        yield Drawing(
            f"{section.slug}-profile",
            "Performance profile: how often a solver is within a factor of the fastest.",
            plot_profile(section, looks),
        )
    yield Drawing(
        f"{section.slug}-cactus",
        "Cactus plot: how many instances are solved when each gets so much time.",
        plot_cactus(section, looks),
    )
    if absent:
        yield (
            "Not drawn, since they solved nothing or did not run on all instances: "
            f"{listed(absent)}.\n"
        )


def _targets(section: Section, looks: Strokes) -> Iterator[Item]:
    runs, few = section.targets(), section.too_few_seeds()
    if few:
        seeds = ", ".join(f"{markdown_text(solver)} {seeds}" for solver, seeds in few.items())
        yield (
            f"Time to target needs at least {MIN_SEEDS} seeds and is not shown for solvers with "
            f"fewer: {seeds}.\n"
        )
    elif not runs:
        yield (
            f"Time to target is not shown: no solver found schedules with at least {MIN_SEEDS} "
            "seeds.\n"
        )
    if not runs:
        return
    rows = [
        (
            run.problem.instance,
            run.solver,
            exact(run.target),
            count(len(run.times)),
            count(sum(map(math.isfinite, run.times))),
            three_digits(run.within(5)),
            three_digits(run.within(9)),
        )
        for run in runs
    ]
    yield Table(
        f"{section.slug}-targets",
        f"{section.title}: seconds to a value at most "
        f"{100 * float(ABOVE_BEST):g} % above the best known one",
        (
            *("instance", "solver", "target", "runs", "reached"),
            *("half of the runs (s)", "9 of 10 runs (s)"),
        ),
        rows,
        words=2,
    )
    instances = len({run.problem for run in runs})
    which = f", the {MOST_PANELS} slowest of {instances}" if instances > MOST_PANELS else ""
    yield Drawing(
        f"{section.slug}-targets",
        f"Time to target, a panel for each instance{which}.",
        plot_targets(section, runs, looks),
    )


def _growth(section: Section, looks: Strokes) -> Iterator[Item]:
    growths = section.growth()
    if not growths:
        yield "No instance was solved: nothing can be said of how the time grows.\n"
        return
    rows = []
    for each in growths:
        sizes, fit = [size for size, _ in each.solved], each.fit
        fitted = (MISSING, MISSING)
        if fit is not None:
            fitted = (f"{fit.exponent:.2f}", f"{fit.low:.2f} to {fit.high:.2f}")
        numbers = (count(len(each.solved)), count(len(each.unsolved)))
        rows.append((each.solver, *numbers, f"{min(sizes):,} to {max(sizes):,}", *fitted))
    yield Table(
        f"{section.slug}-growth",
        f"{section.title}: growth of the time to a proof with the number of jobs",
        ("solver", "solved", "not solved", "jobs", "exponent", "95 % interval"),
        rows,
    )
    if any(each.unsolved for each in growths):
        yield (
            "The fits are through solved instances only. Where larger ones were not solved, the "
            "exponent is likely too small: those would have taken longer than the limit.\n"
        )
    yield Drawing(
        f"{section.slug}-growth",
        "Seconds to a proof by number of jobs, a point for each instance.",
        plot_growth(section, growths, looks),
    )


# ------------------------------------------------------------------ checks


def _checks(frame: pd.DataFrame, references: References) -> Iterator[str]:
    """Yield what must hold of all cases, and where it does not, as lines of a list."""
    values, known = references.values, references.known_bounds
    claims: dict[str, Callable[[Record], str | None]] = {
        "No schedule was refused by the judge": _refused,
        # The raw fields: what the judge refused is looked at as well.
        "No lower bound is above the value of the same run": lambda record: _above(
            record.lower_bound, record.objective, "value"
        ),
        f"No lower bound is above the best value that {_ANY_SOLVER}": lambda record: _above(
            record.lower_bound, values.get(record.instance_sha256), "best value"
        ),
        "No value is below a known lower bound": lambda record: _above(
            known.get(record.instance_sha256), record.value, "value", "known bound"
        ),
        "Every schedule called optimal has a bound that meets its value": _unproved,
        "Every proof was done within the time limit (later ones do not count as solved)": _late,
    }
    for claim, fault in claims.items():
        violations = [
            f"{_case(record)}: {told}" for record in frame["record"] if (told := fault(record))
        ]
        yield from _verdict(claim, f"{count(len(frame))} cases", violations)


def _refused(record: Record) -> str | None:
    told = record.error or "; ".join(record.faults) or "refused"
    return told if record.kind == "invalid" else None


def _above(
    bound: Fraction | None, value: Fraction | None, what: str, which: str = "bound"
) -> str | None:
    if bound is None or value is None or bound <= value:
        return None
    return f"{which} {exact(bound, value)}, {what} {exact(value, bound)}"


def _unproved(record: Record) -> str | None:
    if record.status != "optimal" or not record.value or record.lower_bound == record.value:
        return None
    return f"value {exact(record.value)}, bound {exact(record.lower_bound)}"


def _late(record: Record) -> str | None:
    if record.status != "optimal" or record.value is None:
        return None
    if record.runtime_s is None:
        return "no time stated"
    in_time = record.runtime_s <= record.time_limit_s
    return None if in_time else f"proved after {record.runtime_s:.3f} s"


def _case(record: Record) -> str:
    return f"{record.instance}, {record.solver}, seed {record.seed}, {record.time_limit_s:g} s"


def _verdict(claim: str, over: str, violations: Sequence[str]) -> list[str]:
    if not violations:
        return [f"- {claim}: none violated ({over})."]
    return [
        f"- {claim}: **{count(len(violations))} violated** ({over}):",
        *(f"  - {markdown_text(violation)}" for violation in violations),
    ]


def _dominance(together: Section) -> list[str]:
    """Return whether one solver is never worse than others, as lines of a list."""
    if BEST_SOLVER not in together.solvers:
        return [f"- Whether {BEST_SOLVER} is never worse than others: not checked, it did not run."]
    pairs = together.pairs_with(BEST_SOLVER, RIVALS)
    compared = pairs["solver_of_rival"].value_counts()
    ran = [rival for rival in RIVALS if rival in compared]
    absent = [rival for rival in RIVALS if rival not in ran]
    lines = []
    if ran:
        worse = pairs[pairs["worse"]]
        lines += _verdict(
            f"{BEST_SOLVER} is never worse than {', '.join(ran)} at the same limit",
            ", ".join(f"{rival} {count(int(compared[rival]))}" for rival in ran) + " pairs of runs",
            [
                f"{_case(mine)}: {_value(mine, other)}; {other.solver}, seed {other.seed}: "
                f"{_value(other, mine)}"
                for mine, other in zip(worse["record"], worse["record_of_rival"], strict=True)
            ],
        )
    if absent:
        lines.append(f"- Not compared with {BEST_SOLVER}, for want of runs: {listed(absent)}.")
    return lines


def _value(record: Record, other: Record) -> str:
    return "no schedule" if record.value is None else exact(record.value, other.value)


def _against_known(together: Section, references: References) -> Iterator[str]:
    names = {problem.sha256: problem.instance for problem in together.problems}
    missing = [name for sha, name in names.items() if sha not in references.known_values]
    better = [
        f"{names[sha]} (value {exact(references.values[sha], known)}, was {exact(known)})"
        for sha, known in references.known_values.items()
        if references.values[sha] < known
    ]
    yield f"Better than the file of best known values: {listed(better) or 'none'}.\n"
    if missing:
        yield f"Not in that file: {listed(missing)}.\n"
    if references.outdated:
        yield f"In that file with another checksum, so not used: {listed(references.outdated)}.\n"


# ------------------------------------------------------------------ circumstances


def what_ran(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return what ran, where and when, as rows of a table."""
    starts = [record.started for record in records]
    seeds = (
        f"{solver}: {seed_range(each.seed for each in records if each.solver == solver)}"
        for solver in distinct(record.solver for record in records)
    )
    instances = {record.instance_sha256 for record in records}
    packages = versions_of(records).items()
    return [
        ("cases", f"{count(len(records))} on {count(len(instances))} instances"),
        ("suites", ", ".join(distinct(record.suite for record in records))),
        ("splits", ", ".join(distinct(record.split for record in records))),
        ("solvers and seeds", "; ".join(seeds)),
        ("time limits", _time_limits(records)),
        ("memory limits", _memory_limits(records)),
        ("threads", ", ".join(map(str, sorted({record.workers for record in records})))),
        ("machine", "; ".join(distinct(map(_machine, records)))),
        ("commit", ", ".join(distinct(record.commit or "unknown" for record in records))),
        ("versions", ", ".join(f"{name} {' and '.join(each)}" for name, each in packages)),
        ("started", f"{min(starts)} to {max(starts)}"),
    ]


def _circumstances(records: Sequence[Record], references: References) -> dict[str, Any]:
    """Return what the threats to validity rest on, by the names that the template gives it."""
    instances = {record.instance_sha256 for record in records}
    values, bounds = references.values, references.bounds
    zero = {sha256 for sha256 in instances if values.get(sha256) == 0}
    proved = {sha256 for sha256 in values if values[sha256] == bounds.get(sha256)}
    by_machine: dict[str, list[Record]] = {}
    for record in records:
        by_machine.setdefault(_machine(record), []).append(record)
    runs = Counter(solver for solver, _ in {(each.solver, each.seed) for each in records})
    commits = distinct(record.commit or "unknown" for record in records)
    return {
        "instances": len(instances),
        "open_instances": len(instances - zero - proved),
        "zero_instances": len(zero),
        "splits": distinct(record.split for record in records),
        "limits": _time_limits(records),
        "memory": _memory_limits(records),
        "threads": max(record.workers for record in records),
        "seeds": sorted(set(runs.values())),
        "machines": len(by_machine),
        "cores": next((cores for r in records if (cores := r.machine.get("cores"))), None),
        "at_once": max(map(_at_once, by_machine.values())),
        "commits": commits,
        "changed": any(commit.endswith("+") for commit in commits),
        "several": [name for name, each in versions_of(records).items() if len(each) > 1],
    }


def _time_limits(records: Sequence[Record]) -> str:
    return ", ".join(f"{limit:g} s" for limit in sorted({each.time_limit_s for each in records}))


def _memory_limits(records: Sequence[Record]) -> str:
    limits = {record.memory_limit_mb for record in records}
    known = [f"{limit:,} MB" for limit in sorted(limit for limit in limits if limit is not None)]
    return ", ".join([*known, *(["no limit"] if None in limits else [])])


def _machine(record: Record) -> str:
    machine = record.machine
    memory = machine.get("memory_mb")
    parts = (
        machine.get("processor"),
        None if machine.get("cores") is None else f"{machine['cores']} cores",
        f"{memory:,} MB" if isinstance(memory, int) else None,
        machine.get("system"),
    )
    return ", ".join(str(part) for part in parts if part is not None) or "unknown machine"


def _at_once(records: Sequence[Record]) -> int:
    """Return how many cases overlapped, not counting what the rounding of `started` leaves open."""
    changes = []
    for record in records:
        try:
            begin = pd.Timestamp(record.started).tz_localize(None)
        except ValueError:
            raise InputError(
                f"{record.instance}: started: must be a time such as 2026-01-31T12:00:00Z, "
                f"got {show(record.started)}"
            ) from None
        if record.wall_s > 1:
            last = begin + pd.Timedelta(seconds=record.wall_s)
            changes += [(begin + pd.Timedelta(seconds=1), 1), (last, -1)]
    # An end sorts before a beginning at the same moment.
    return max(1, *accumulate(change for _, change in sorted(changes)), 1)
