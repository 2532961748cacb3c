"""The tables of the paper, each a ``tabular`` for booktabs without float and caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from metronome_opt.bench.cases import SHIFT_S, Section
from metronome_opt.plot.style import in_order
from paper.instances import stored_families, workloads
from paper.measured import SEARCHES, Figures, benchmark_numbers
from paper.shown import change_with_interval, digits, latex_text, percent
from paper.solvers import FAMILIES, Campaign, solved
from paper.studies import MEAN, TAIL, StudyRuns, changed

Row = Sequence[str | None]
_RULE = r"\midrule"


def families() -> str:
    """Return the families of instances: how many, and of what size."""
    rows = [
        (
            rf"\texttt{{{each.family}}}",
            f"{each.test} + {each.tune}",
            *map(_range, (each.jobs, each.links, each.slots)),
        )
        for each in stored_families()
    ]
    headings = "family", "test + tune", "jobs", "links", "slots"
    return _tabular("Families of stored instances", headings, [rows])


def workloads_table() -> str:
    """Return the workloads: sizes, traffic in the shipped scenario, and sources."""
    rows = [
        (
            each.model,
            digits(each.parameters / 1e6),
            _giga(each.forward_flops),
            f"{each.workers}",
            f"{each.batch:,}",
            f"{each.period_ms:,}",
            ", ".join(each.sources),
        )
        for each in workloads()
    ]
    headings = "model", r"par.\ (M)", "GFLOP", "GPUs", "batch", "ms", "sources"
    about = "Workloads: parameters, forward pass of a sample; in paper-24: GPUs, batch, period"
    return _tabular(about, headings, [rows], columns="lrrrrrl", gap="3pt")


def _giga(operations: int) -> str | None:
    value = operations / 1e9
    return digits(value) if value >= 1 else f"{value:.1g}"


# ------------------------------------------------------------------ solvers

_PANELS: Mapping[str, Callable[[Section, str], str | None]] = {
    "proved": lambda section, solver: f"{solved(section, solver)}",
    f"time to a proof, shifted geometric mean (shift {SHIFT_S:g} s), s": (
        lambda section, solver: digits(section.summary["geometric_s"][solver])
    ),
    r"certified gap, mean, \%": (
        lambda section, solver: percent(section.summary["certified_gap"][solver])
    ),
    r"gap to the best known value, mean, \%": (
        lambda section, solver: percent(section.summary["primal_gap"][solver])
    ),
}
_PROOFS = tuple(_PANELS)[:3]
"""Panels of solvers alone that state bounds."""


def solvers(campaign: Campaign) -> str | None:
    """Return what each solver reached on each family."""
    parts = {family: campaign.part(family.capitalize()) for family in FAMILIES}
    together = campaign.section
    if together is None:
        return None
    count = [
        "instances",
        *("0" if part is None else f"{len(part.problems)}" for part in parts.values()),
    ]
    groups: list[list[Row]] = [[count]]
    for title, show in _PANELS.items():
        rows: list[Row] = [(_spanning(title, len(parts) + 1),)]
        for solver in together.solvers:
            if title in _PROOFS and solver not in together.bounding:
                continue
            cells = (
                None if part is None or solver not in part.solvers else show(part, solver)
                for part in parts.values()
            )
            rows.append((rf"\quad\texttt{{{solver}}}", *cells))
        groups.append(rows)
    headings = "", *(rf"\texttt{{{family}}}" for family in parts)
    return _tabular(f"Solvers: {_basis(together)}", headings, groups)


def _basis(section: Section) -> str:
    seeds = int(np.nanmax(section.seeds.to_numpy()))
    return f"{len(section.problems)} instances, {len(section.frame)} cases, seeds at most {seeds}"


# ------------------------------------------------------------------ studies


def cells(runs: StudyRuns | None) -> str | None:
    """Return the change of mean completion of each policy in all cells and in each."""
    if runs is None:
        return None
    first = [_change_row("all cells", runs, runs.policies)]
    rows = [
        (
            latex_text(title),
            *(change_with_interval(changed(part, policy, MEAN)) for policy in runs.policies),
        )
        for title, part in runs.cells.items()
    ]
    headings = "cell", *(rf"\texttt{{{policy}}}" for policy in runs.policies)
    about = f"Change of mean completion against default, percent: {_seeds(runs)}"
    return _tabular(about, headings, [first, rows])


def tails(studies: Mapping[str, StudyRuns | None]) -> str | None:
    """Return the change of mean and p99 completion over all cells of each study."""
    known = {name: runs for name, runs in studies.items() if runs is not None}
    if not known:
        return None
    policies = in_order({policy for runs in known.values() for policy in runs.policies})
    groups = [
        [
            _change_row(rf"\texttt{{{name}}}, mean", runs, policies),
            _change_row(r"\quad p99", runs, policies, TAIL),
        ]
        for name, runs in known.items()
    ]
    headings = "study", *(rf"\texttt{{{policy}}}" for policy in policies)
    seeds = "; ".join(f"{name}: {_seeds(runs)}" for name, runs in known.items())
    return _tabular(f"Change of completion against default, percent: {seeds}", headings, groups)


def _change_row(
    title: str, runs: StudyRuns, policies: Iterable[str], measure: str = MEAN
) -> tuple[str | None, ...]:
    return (
        title,
        *(change_with_interval(changed(runs.whole, policy, measure)) for policy in policies),
    )


def _seeds(runs: StudyRuns) -> str:
    return f"{len(runs.cells)} cells, {runs.seeds} seeds, {len(runs.whole.runs)} runs"


# ------------------------------------------------------------------ benchmarks


def placement(figures: Figures) -> str | None:
    """Return how far the places of each search are from the best ones."""
    if "placement-gaps" not in figures:
        return None
    numbers = benchmark_numbers(figures)
    rows = [
        (
            "least allocated" if name == "spread" else rf"\texttt{{{name}}}",
            *(numbers[f"placement{macro}{end}"] for end in ("Mean", "Tail", "Worst", "Best")),
        )
        for macro, name in SEARCHES.items()
    ]
    headings = "search", "mean", "90th", "worst", r"least contention (\%)"
    return _tabular("Gaps of placements in percent, against CP-SAT", headings, [rows])


_ENDS = {"Free": "not held", "Step": "in step", "Quiet": "without waiting"}
_MEASURES = ("pearson", "spearman", "simulated", "error")


def prediction(figures: Figures) -> str | None:
    """Return how well elongation is predicted."""
    if "prediction" not in figures:
        return None
    numbers = benchmark_numbers(figures)
    groups = []
    for sharing, title in (("Strict", "strict priority"), ("Fair", "max-min fair")):
        rows: list[Row] = [(_spanning(title, 5),)]
        for end, held in _ENDS.items():
            measures = ("pearson", "spearman", "simulated", "error")
            rows.append(
                (rf"\quad {held}", *(numbers[f"{each}{sharing}{end}"] for each in measures))
            )
        groups.append(rows)
    headings = "", "Pearson", "Spearman", r"mean (\%)", r"error (\%)"
    about = "Predicted against simulated elongation"
    return _tabular(about, headings, groups, gap="4pt")


# ------------------------------------------------------------------ parts


def _spanning(title: str, columns: int) -> str:
    return rf"\multicolumn{{{columns}}}{{@{{}}l}}{{\emph{{{title}}}}}"


def _range(ends: tuple[int, int]) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,}--{high:,}"


def _tabular(
    about: str,
    headings: Sequence[str],
    groups: Sequence[Sequence[Row]],
    columns: str | None = None,
    gap: str | None = None,
) -> str:
    """Return a ``tabular``; what it is and what it rests on stands in a comment.

    A `gap` is the half space between columns where the usual one is too wide for the paper's.
    """
    columns = columns or "l" + "r" * (len(headings) - 1)

    def line(cells: Row) -> str:
        return f"  {' & '.join('--' if cell is None else cell for cell in cells)} \\\\"

    lines = [f"% {about}", *([] if gap is None else [rf"\setlength{{\tabcolsep}}{{{gap}}}%"])]
    lines += [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"  \toprule", line(headings)]
    for rows in groups:
        lines += [f"  {_RULE}", *map(line, rows)]
    return "\n".join([*lines, r"  \bottomrule", r"\end{tabular}", ""])
