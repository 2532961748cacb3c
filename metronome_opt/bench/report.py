"""Report of a campaign of solvers: tables and figures as one HTML file.

An unknown value is a dash, never 0; only 0 is formatted as 0.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from metronome_opt.bench.cases import (
    ENDINGS,
    FLOOR_S,
    SHIFT_S,
    Section,
    measure,
    primal_gap,
    read_best_known,
    split_sections,
)
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.errors import InputError, MissingBackendError
from metronome_opt.files.documents import make_folder, write_text
from metronome_opt.output.figures.style import MISSING, three_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Curve = tuple[NDArray[np.float64], NDArray[np.float64]]

_MOMENTS = 100
_SIZE = (8.0, 4.0)
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (9, 2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)))
_OBJECTS = ["problem", "setting", "bounding", "steps", "ended", "proof_s", "states_bound"]


def percent(share: float | None) -> str:
    """Return a share in percent, with two digits after the point."""
    if share is None or not math.isfinite(share):
        return MISSING
    return "<0.01 %" if 0 < share < 0.00005 else f"{100 * share:.2f} %"


def count(value: float) -> str:
    """Return an integer; a dash for a missing one."""
    return MISSING if pd.isna(value) else f"{int(value):,}"


_Columns = Mapping[str, tuple[str, Callable[[Any], str]]]
_OUTCOMES: _Columns = {name: (name, count) for name in ("instances", "cases", *ENDINGS)}
_MEASURES: _Columns = {
    "solved": ("solved", percent),
    "geometric_s": (f"shifted geometric mean, {SHIFT_S:g} s (s)", three_digits),
    "penalised_s": ("PAR2 (s)", three_digits),
    "primal_gap": ("primal gap, mean", percent),
    "primal_gap_worst": ("primal gap, worst", percent),
    "primal_integral": ("primal integral, mean", percent),
    "certified_gap": ("certified gap, mean", percent),
    "certified_gap_worst": ("certified gap, worst", percent),
}


def write_report(
    records: Sequence[SolverRecord], folder: str | Path, *, best_known: str | Path | None = None
) -> Path:
    """Write ``report.html`` and ``records.csv``; return the path of the page.

    The same records make the same files. Other files of the folder stay as they are.

    Parameters
    ----------
    records
        Of one campaign, every case once.
    folder
        Made if it does not exist.
    best_known
        A file of format ``metronome-best-known/1``; without it, the best values of the records
        are the best known.

    Raises
    ------
    InputError
        If there are no records, a case is there twice, the file of best known values is wrong or
        something cannot be written.
    MissingBackendError
        If jinja2 or matplotlib is not installed.
    """
    for package in ("jinja2", "matplotlib"):
        if find_spec(package) is None:
            raise MissingBackendError(
                f"reports need {package}, which is not installed: "
                "pip install 'metronome-opt[bench]'"
            )
    import jinja2

    if not records:
        raise InputError("records: there are none, so there is nothing to report")
    known = None if best_known is None else read_best_known(best_known)
    frame = measure(records, known)
    instances = frame.drop_duplicates("instance_sha256")
    proved = (instances["best_value"] == 0) | (instances["best_value"] == instances["best_bound"])
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("metronome_opt.bench"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
    )
    environment.filters.update(svg=_to_svg, count=count)
    page = environment.get_template("report.html").render(
        what_ran=what_ran(records),
        sections=[_section(section) for section in split_sections(frame)],
        floor=FLOOR_S,
        machines=len({str(record.machine) for record in records}),
        known=known is not None,
        instances=len(instances),
        unproved=int((~proved).sum()),
    )
    path = Path(folder) / "report.html"
    make_folder(path.parent)
    write_text(path, page)
    write_text(path.with_name("records.csv"), _to_csv(frame))
    return path


def what_ran(records: Sequence[SolverRecord]) -> list[tuple[str, str]]:
    """Return solvers, instances and circumstances of records as rows of a table."""
    seeds = (
        f"{solver}: {_range(record.seed for record in records if record.solver == solver)}"
        for solver in dict.fromkeys(record.solver for record in records)
    )
    instances = {record.instance_sha256 for record in records}
    limits = sorted({record.time_limit_s for record in records})
    memory = {record.memory_limit_mb for record in records}
    versions = {item for record in records for item in record.versions.items()}
    starts = [record.started for record in records]
    return [
        ("objective", "contention"),
        ("cases", f"{count(len(records))} on {count(len(instances))} instances"),
        ("suites", _distinct(f"{record.suite} ({record.split})" for record in records)),
        ("generators", _distinct(record.generator or "not known" for record in records)),
        ("solvers and seeds", "; ".join(seeds)),
        ("threads", ", ".join(map(str, sorted({record.workers for record in records})))),
        ("time limits", ", ".join(f"{limit:g} s" for limit in limits)),
        ("memory limits", ", ".join(f"{mb:,} MB" if mb else "none" for mb in memory)),
        ("machine", _distinct(", ".join(map(str, record.machine.values())) for record in records)),
        ("commit", _distinct(record.commit or "unknown" for record in records)),
        ("versions", ", ".join(" ".join(item) for item in sorted(versions))),
        ("started", f"{min(starts)} to {max(starts)}"),
    ]


def _range(seeds: Iterable[int]) -> str:
    """Return seeds in words: ``0 to 9``, or a list if some are missing."""
    ordered = sorted(set(seeds))
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def _distinct(values: Iterable[str]) -> str:
    """Return distinct values, in order, separated by commas."""
    return ", ".join(dict.fromkeys(values))


def _to_csv(frame: pd.DataFrame) -> str:
    """Return the rows of `measure` as text, one line per case; unknown values are empty."""
    known = frame["value"].notna() & frame["lower_bound"].notna()
    frame = frame.assign(certified_gap=frame["certified_gap"].where(known))
    shown = frame.drop(columns=[*_OBJECTS, "best_bound"])
    return str(shown.to_csv(index=False, lineterminator="\n"))


# ------------------------------------------------------------------ sections


def _section(section: Section) -> dict[str, Any]:
    """Return title, tables and figures, the latter two with captions."""
    summary = section.summary
    marked = [name if summary["complete"][name] else f"{name} *" for name in summary.index]
    summary = summary.set_axis(pd.Index(marked, name="solver"))
    times = "Time to a proof of optimality, failures included, and gaps"
    figures = {"Mean primal gap over time.": plot_gaps(section)}
    if proving_solvers(section):
        figures["Performance profile."] = plot_profile(section)
    return {
        "title": section.title,
        "tables": {
            "How the cases ended": _formatted(summary, _OUTCOMES),
            times: _formatted(summary, _MEASURES),
        },
        "figures": figures,
    }


def _formatted(frame: pd.DataFrame, columns: _Columns) -> pd.DataFrame:
    """Return some columns of a data frame as text below headings."""
    return pd.DataFrame(
        {heading: frame[name].map(form) for name, (heading, form) in columns.items()},
        index=frame.index,
    )


def _to_svg(axes: Axes) -> str:
    """Return the figure of axes, base64-encoded; the same data make the same text."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    with rc_context({"svg.hashsalt": "metronome", "svg.fonttype": "none"}):
        figure: Any = axes.figure
        figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return base64.b64encode(stream.getvalue()).decode()


# ------------------------------------------------------------------ figures


def solver_styles(solvers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return line properties of solvers or policies by name; they depend on the position."""
    return {
        solver: {"color": f"C{position % 10}", "linestyle": _DASHES[position % len(_DASHES)]}
        for position, solver in enumerate(solvers)
    }


def proving_solvers(section: Section) -> tuple[str, ...]:
    """Return the solvers that ran on all instances and solved at least one."""
    times = section.proof_times
    return tuple(
        solver
        for solver in section.solvers
        if times[solver].notna().all() and np.isfinite(times[solver]).any()
    )


def performance_profile(times: pd.DataFrame, floor: float = 0.0) -> dict[str, Curve]:
    """Return for each solver the share of problems that it solves within a ratio of the best time.

    Times are seconds, a column for each solver and a row for each problem, infinite for a failure;
    problems that no solver solves count. Those below the floor count as the floor, since their
    ratios would be noise. A curve has ratios, ascending, and the shares from there on.

    References
    ----------
    E. D. Dolan, J. J. More, "Benchmarking optimization software with performance profiles",
    Mathematical Programming 91, 2002.
    """
    floored = times.clip(lower=floor)
    ratios = floored.div(floored.min(axis=1), axis=0).where(np.isfinite(times), math.inf)
    return {str(solver): distribution(column) for solver, column in ratios.items()}


def distribution(values: Iterable[float]) -> Curve:
    """Return the empirical distribution of values, infinite ones in the denominator only."""
    ordered = np.sort(np.asarray(list(values), dtype=np.float64))
    shares = np.arange(1, len(ordered) + 1) / len(ordered)
    reached = np.isfinite(ordered)
    return ordered[reached], shares[reached]


def _gaps_over_time(section: Section, solver: str, moments: Iterable[float]) -> list[float]:
    """Return the mean primal gap of the incumbents that a solver has at some moments."""
    runs = section.frame[section.frame["solver"] == solver]
    curves = []
    for steps, best in zip(runs["steps"], runs["best_value"], strict=True):
        values = [None, *(value for _, value in steps)]
        gaps = [float(primal_gap(value, best)) for value in values]
        at = np.searchsorted([elapsed for elapsed, _ in steps], list(moments), side="right")
        curves.append([gaps[index] for index in at])
    means: list[float] = np.mean(curves, axis=0).tolist()
    return means


def plot_profile(section: Section, ax: Axes | None = None) -> Axes:
    """Draw the Dolan-More performance profile of the times to a proof."""
    solvers = list(proving_solvers(section))
    curves = performance_profile(section.proof_times[solvers], FLOOR_S)
    # Where all are as fast, there is still an axis.
    right = 1.1 * max(2.0, *(ratios.max() for ratios, _ in curves.values()))
    lines = {
        solver: ([1.0, *ratios, right], [0.0, *shares, shares[-1]])
        for solver, (ratios, shares) in curves.items()
    }
    ax = _draw(section, lines, f"Performance profile, {section.title}", ax)
    ax.set(xlim=(1.0, right))
    ax.set(xlabel="ratio to the fastest solver's time", ylabel="share of instances solved")
    return ax


def plot_gaps(section: Section, ax: Axes | None = None) -> Axes:
    """Draw the mean primal gap over time."""
    limit = max(2 * FLOOR_S, section.frame["time_limit_s"].max())
    moments = list(np.geomspace(FLOOR_S, limit, _MOMENTS))
    lines = {
        solver: (moments, _gaps_over_time(section, solver, moments)) for solver in section.solvers
    }
    ax = _draw(section, lines, f"Primal gap over time, {section.title}", ax)
    ax.set(xlabel="seconds", ylabel="mean primal gap")
    return ax


def _draw(
    section: Section,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str,
    ax: Axes | None,
) -> Axes:
    """Draw a step function for each solver on a logarithmic axis, new axes if there are none."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=_SIZE, layout="constrained").add_subplot()
    styles = solver_styles(section.solvers)
    for solver, (xs, ys) in lines.items():
        ax.plot(xs, ys, drawstyle="steps-post", label=solver, **styles[solver])
    ax.set_title(title, parse_math=False)
    ax.set(xscale="log", ylim=(-0.02, 1.02))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax
