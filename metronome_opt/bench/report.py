"""The report of a campaign of solvers: tables, figures, checks and threats to validity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import pandas as pd

from metronome_opt.bench.cases import (
    ABOVE_BEST,
    ENDINGS,
    FLOOR_S,
    LARGE_SHIFT_S,
    MIN_SEEDS,
    SHIFT_S,
    BestKnown,
    Growth,
    Section,
    TargetRuns,
    measure,
    read_best_known,
    sections_of,
    whole,
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
from metronome_opt.bench.pages import (
    MISSING,
    Columns,
    count,
    distinct,
    exact,
    facts,
    percent,
    seed_range,
    shown,
    software,
    three_digits,
    versions_of,
    write_pages,
)
from metronome_opt.bench.statistics import certified_gap
from metronome_opt.bench.trials import Record
from metronome_opt.errors import InputError, quote
from metronome_opt.solvers.registry import OWN_SOLVERS

_BEST_SOLVER = "auto"
_RIVALS = ("greedy", "cassini", "local", "cpsat")
_GROWING_SUITE = "fabric"
_INCOMPLETE = "*"
_ANY_SOLVER = "any solver found, or any is known to have"

_FOR_REPORTS = [
    *("record", "problem", "steps", "ended", "optimal", "proof_s", "states_bound"),
    *("best_bound", "known_value", "known_bound"),
]
_OUTCOMES: Columns = {name: (name, count) for name in ("instances", "cases", *ENDINGS)}
_TIMES: Columns = {
    "solved": ("solved", percent),
    "geometric_s": (f"shifted geometric mean, {SHIFT_S:g} s (s)", three_digits),
    "large_geometric_s": (f"the same, {LARGE_SHIFT_S:g} s (s)", three_digits),
    "penalised_s": ("PAR2 (s)", three_digits),
}
_QUALITY: Columns = {
    "primal_gap": ("primal gap, mean", percent),
    "primal_gap_worst": ("primal gap, worst", percent),
    "primal_integral": ("primal integral, mean", percent),
    "certified_gap": ("certified gap, mean", percent),
    "certified_gap_worst": ("certified gap, worst", percent),
}
_BY_CLASS: Columns = {
    name: (_OUTCOMES | _TIMES | _QUALITY)[name]  # type: ignore[operator]
    for name in ("instances", "solved", "geometric_s", "primal_gap", "certified_gap")
}


def write_report(
    records: Sequence[Record],
    folder: str | Path,
    *,
    baseline: str | None = None,
    best_known: str | Path | None = None,
) -> Path:
    """Write ``report.md``, ``report.html``, ``records.csv``, ``tables/*.tex`` and ``figures/*``.

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
    known = None if best_known is None else read_best_known(best_known)
    frame = measure(records, known)
    together = whole(frame)
    if baseline is not None and baseline not in together.solvers:
        raise InputError(
            f"baseline: {quote(baseline)} is not in the records; "
            f"choose from {', '.join(together.solvers)}"
        )
    looks = strokes(together.solvers)
    return write_pages(
        folder,
        "campaign.md",
        suffixes=(".svg", ".pdf"),
        texts={"records.csv": _cases_csv(frame)},
        latex=True,
        what_ran=facts(what_ran(records)),
        origins=_origins(records),
        sections=[_view(section, baseline, looks) for section in sections_of(frame)],
        cases=count(len(records)),
        best_solver=_BEST_SOLVER,
        checks=list(_checks(frame)),
        dominance=_dominance(together),
        known=None if known is None else _against_known(frame, known),
        constants={
            "shift": SHIFT_S,
            "large_shift": LARGE_SHIFT_S,
            "floor": FLOOR_S,
            "seeds": MIN_SEEDS,
            "above": float(100 * ABOVE_BEST),
            "panels": MOST_PANELS,
        },
        **_circumstances(records, frame),
    )


def _cases_csv(frame: pd.DataFrame) -> str:
    """Return the rows of `measure` as text, one line per case; what is not known is empty."""
    known = frame["value"].notna() & frame["lower_bound"].notna()
    frame = frame.assign(certified_gap=frame["certified_gap"].where(known))
    return str(frame.drop(columns=_FOR_REPORTS).to_csv(index=False, lineterminator="\n"))


# ------------------------------------------------------------------ a section


def _view(section: Section, baseline: str | None, looks: Strokes) -> dict[str, Any]:
    """Return what the template shows of a section: tables, figures and the names in its words."""
    times = _by_solver(section, _TIMES)
    if baseline is not None:
        ratios = [three_digits(section.speed_up(solver, baseline)) for solver in section.solvers]
        times[f"times faster than {baseline}"] = ratios
    classes = section.classes()
    several = section.setting is None
    proving = proving_solvers(section)
    seeds = section.seeds.max()
    runs = () if several else section.targets()
    growing = section.setting is not None and section.setting.suite == _GROWING_SUITE
    growths = section.growth() if growing else ()
    return {
        "title": section.title,
        "slug": section.slug,
        "single": not several,
        "outcomes": _by_solver(section, _OUTCOMES),
        "times": times,
        "quality": _by_solver(section, _QUALITY),
        "part": "suite" if several else "class",
        "classes": pd.concat(
            {name: _by_solver(each, _BY_CLASS) for name, each in classes.items()},
            names=["suite" if several else "class"],
        )
        if several or 1 < len(classes) < len(section.problems)
        else None,
        "pairs": _pairs(section) if len(section.solvers) > 1 else None,
        "profile": plot_profile(section, looks) if len(proving) > 1 else None,
        "cactus": plot_cactus(section, looks) if proving else None,
        "absent": [solver for solver in section.solvers if solver not in proving],
        "few": {name: int(seeds[name]) for name in seeds.index if 1 < seeds[name] < MIN_SEEDS},
        "targets": _targets(runs),
        "target_instances": len({run.problem for run in runs}),
        "target_figure": plot_targets(section, runs, looks) if runs else None,
        "growing": growing,
        "growth": _growth(growths),
        "unsolved": any(each.unsolved for each in growths),
        "growth_figure": plot_growth(section, growths, looks) if growths else None,
        "instances": None if several else _instances(section),
    }


def _by_solver(section: Section, columns: Columns) -> pd.DataFrame:
    """Return a table of measures with a row for each solver."""
    table = shown(section.summary, columns)
    complete = section.summary["complete"]
    marked = [each if complete[each] else f"{each} {_INCOMPLETE}" for each in table.index]
    return table.set_axis(pd.Index(marked, name="solver"))


def _pairs(section: Section) -> pd.DataFrame:
    def cell(solver: str, other: str) -> str:
        found = None if solver == other else section.tally(solver, other)
        return MISSING if found is None else "/".join(map(str, found))

    solvers = section.solvers
    cells = {other: [cell(solver, other) for solver in solvers] for other in solvers}
    return pd.DataFrame(cells, index=pd.Index(solvers, name="solver"))


def _instances(section: Section) -> pd.DataFrame:
    """Return the best that is known of each instance, and who reaches and who proves it."""

    def names(cases: pd.DataFrame) -> str:
        there = [name for name in section.solvers if name in set(cases["solver"])]
        return "all" if len(there) == len(section.solvers) > 1 else ", ".join(there) or MISSING

    rows = []
    by_problem: dict[Any, pd.DataFrame] = dict(list(section.frame.groupby("problem")))
    for problem, cases in by_problem.items():
        best, bound = cases["best_value"].iloc[0], cases["best_bound"].iloc[0]
        known = best is not None and (bound is not None or best == 0)
        rows.append(
            {
                "instance": problem.instance,
                "reached by": names(
                    cases[[best is not None and v == best for v in cases["value"]]]
                ),
                "proved by": names(cases[cases["optimal"]]),
                "jobs": count(cases["jobs"].iloc[0]),
                "value": exact(best),
                "bound": exact(bound),
                "gap": percent(float(certified_gap(best, bound)) if known else None),
            }
        )
    return pd.DataFrame(rows).set_index(["instance", "reached by", "proved by"])


def _targets(runs: Sequence[TargetRuns]) -> pd.DataFrame | None:
    rows = [
        {
            "instance": run.problem.instance,
            "solver": run.solver,
            "target": exact(run.target),
            "runs": count(len(run.times)),
            "reached": count(sum(map(math.isfinite, run.times))),
            "half of the runs (s)": three_digits(run.within(5)),
            "9 of 10 runs (s)": three_digits(run.within(9)),
        }
        for run in runs
    ]
    return pd.DataFrame(rows).set_index(["instance", "solver"]) if rows else None


def _growth(growths: Sequence[Growth]) -> pd.DataFrame | None:
    rows = []
    for each in growths:
        sizes, fit = [size for size, _ in each.solved], each.fit
        rows.append(
            {
                "solver": each.solver,
                "solved": count(len(each.solved)),
                "not solved": count(len(each.unsolved)),
                "jobs": f"{min(sizes):,} to {max(sizes):,}",
                "exponent": MISSING if fit is None else f"{fit.exponent:.2f}",
                "95 % interval": MISSING if fit is None else f"{fit.low:.2f} to {fit.high:.2f}",
            }
        )
    return pd.DataFrame(rows).set_index("solver") if rows else None


# ------------------------------------------------------------------ checks


def _checks(frame: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """Yield what must hold of all cases, and where it does not."""
    claims: dict[str, Callable[[Any], str | None]] = {
        "No schedule was refused by the judge": _refused,
        # The raw fields: what the judge refused is looked at as well.
        "No lower bound is above the value of the same run": lambda case: _above(
            case.record.lower_bound, case.record.objective, "value"
        ),
        f"No lower bound is above the best value that {_ANY_SOLVER}": lambda case: _above(
            case.record.lower_bound, case.best_value, "best value"
        ),
        "No value is below a known lower bound": lambda case: _above(
            case.known_bound, case.value, "value", "known bound"
        ),
        "Every schedule called optimal has a bound that meets its value": _unproved,
        "Every proof was done within the time limit (later ones do not count as solved)": _late,
    }
    cases: list[Any] = list(frame.itertuples())
    for claim, fault in claims.items():
        yield claim, [f"{_case(case.record)}: {told}" for case in cases if (told := fault(case))]


def _refused(case: Any) -> str | None:
    record = case.record
    told = record.error or "; ".join(record.faults) or "refused"
    return told if record.kind == "invalid" else None


def _above(
    bound: Fraction | None, value: Fraction | None, what: str, which: str = "bound"
) -> str | None:
    if bound is None or value is None or bound <= value:
        return None
    return f"{which} {exact(bound, value)}, {what} {exact(value, bound)}"


def _unproved(case: Any) -> str | None:
    record = case.record
    if record.status != "optimal" or not record.value or record.lower_bound == record.value:
        return None
    return f"value {exact(record.value)}, bound {exact(record.lower_bound)}"


def _late(case: Any) -> str | None:
    if not case.optimal or case.solved:
        return None
    runtime = case.record.runtime_s
    return "no time stated" if runtime is None else f"proved after {runtime:.3f} s"


def _case(record: Record) -> str:
    return f"{record.instance}, {record.solver}, seed {record.seed}, {record.time_limit_s:g} s"


def _dominance(together: Section) -> dict[str, Any] | None:
    """Return whether one solver is never worse than others; None if it did not run."""
    if _BEST_SOLVER not in together.solvers:
        return None
    pairs = together.pairs_with(_BEST_SOLVER, _RIVALS)
    compared = pairs["solver_of_rival"].value_counts()
    worse = pairs[pairs["worse"]]
    return {
        "ran": {rival: int(compared[rival]) for rival in _RIVALS if rival in compared},
        "absent": [rival for rival in _RIVALS if rival not in compared],
        "violations": [
            f"{_case(mine)}: {_value(mine, other)}; {other.solver}, seed {other.seed}: "
            f"{_value(other, mine)}"
            for mine, other in zip(worse["record"], worse["record_of_rival"], strict=True)
        ],
    }


def _value(record: Record, other: Record) -> str:
    return "no schedule" if record.value is None else exact(record.value, other.value)


def _against_known(frame: pd.DataFrame, known: BestKnown) -> dict[str, list[str]]:
    """Return instances that are better than in the file, not in it, and there with another sum."""
    found: list[Any] = list(frame.drop_duplicates("instance_sha256").itertuples())
    there = {entry.sha256 for entry in known.instances.values()}
    return {
        "better": [
            f"{case.instance} (value {exact(case.best_value, case.known_value)}, "
            f"was {exact(case.known_value)})"
            for case in found
            if case.known_value is not None and case.best_value < case.known_value
        ],
        "missing": [case.instance for case in found if case.known_value is None],
        "outdated": sorted(
            case.instance
            for case in found
            if case.instance in known.instances and case.instance_sha256 not in there
        ),
    }


# ------------------------------------------------------------------ circumstances


def what_ran(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return what ran, where and when, as rows of a table."""
    starts = [record.started for record in records]
    seeds = (
        f"{solver}: {seed_range(each.seed for each in records if each.solver == solver)}"
        for solver in distinct(record.solver for record in records)
    )
    instances = {record.instance_sha256 for record in records}
    return [
        ("cases", f"{count(len(records))} on {count(len(instances))} instances"),
        ("suites", ", ".join(distinct(record.suite for record in records))),
        ("splits", ", ".join(distinct(record.split for record in records))),
        ("solvers and seeds", "; ".join(seeds)),
        ("time limits", _time_limits(records)),
        ("memory limits", _memory_limits(records)),
        ("threads", ", ".join(map(str, sorted({record.workers for record in records})))),
        ("machine", "; ".join(distinct(map(_machine, records)))),
        *software(records),
        ("started", f"{min(starts)} to {max(starts)}"),
    ]


def _circumstances(records: Sequence[Record], frame: pd.DataFrame) -> dict[str, Any]:
    """Return what the threats to validity rest on, by the names that the template gives it."""
    found = frame.drop_duplicates("instance_sha256")
    zero = found["best_value"] == 0
    proved = zero | (found["best_value"].notna() & (found["best_value"] == found["best_bound"]))
    machines = frame["record"].groupby(frame["record"].map(_machine))
    commits = distinct(record.commit or "unknown" for record in records)
    return {
        "instances": len(found),
        "open_instances": int((~proved).sum()),
        "zero_instances": int(zero.sum()),
        "generated": int(found["record"].map(_is_ours).sum()),
        "foreign": [
            name for name in distinct(r.solver for r in records) if name not in OWN_SOLVERS
        ],
        "splits": distinct(record.split for record in records),
        "limits": _time_limits(records),
        "memory": _memory_limits(records),
        "threads": max(record.workers for record in records),
        "seeds": sorted(set(frame.groupby("solver")["seed"].nunique())),
        "machines": machines.ngroups,
        "cores": next((cores for r in records if (cores := r.machine.get("cores"))), None),
        "at_once": int(machines.agg(_at_once).max()),
        "commits": commits,
        "changed": any(commit.endswith("+") for commit in commits),
        "several": [name for name, each in versions_of(records).items() if len(each) > 1],
    }


def _origins(records: Sequence[Record]) -> pd.DataFrame:
    """Return where the instances come from: those of a folder that one thing has made together."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for record in records:
        folder = "not recorded" if record.source is None else str(Path(record.source).parent)
        made = (record.suite, folder, record.generator or "not known")
        found.setdefault(made, set()).add(record.instance_sha256)
    index = pd.MultiIndex.from_tuples(found, names=["suite", "folder", "made by"])
    return pd.DataFrame({"instances": [count(len(each)) for each in found.values()]}, index=index)


def _is_ours(record: Record) -> bool:
    """Return whether the instance is known to be one of this project's families."""
    return (record.generator or "").startswith("benchmarks.families.")


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
                f"got {quote(record.started)}"
            ) from None
        if record.wall_s > 1:
            last = begin + pd.Timedelta(seconds=record.wall_s)
            changes += [(begin + pd.Timedelta(seconds=1), 1), (last, -1)]
    # An end sorts before a beginning at the same moment.
    return max(1, *accumulate(change for _, change in sorted(changes)), 1)
