"""Tables for the terminal. Exact numbers are rounded here and nowhere before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from rich import box
from rich.console import Console
from rich.table import Table

from metronome_opt.result import Result
from metronome_opt.verify import Evaluation

JOBS_LEGEND = "+ ms: what an iteration is predicted to take longer, added up over the job's links"
_WIDE = 200

UNITS = {
    "contention": "weight x Mbit/s",
    "latency": "of all traffic",
    "stretch": "weight x share of period",
    "wait": "weight x slots",
    "moves": "weight",
    "cushion": "slots",
}


def terminal() -> Console:
    """Return a console for standard output; one that is no terminal is wide and does not wrap."""
    # Names may look like markup or emoji; they are printed as they are.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


def number(value: Fraction | None, digits: int = 1) -> str:
    """Return an exact number as people read it; a dash for None."""
    if value is None:
        return "-"
    # Only 0 is shown as 0: reaching it is a proof.
    small = 0 < abs(value) < Fraction(1, 2 * 10**digits)
    return f"{float(value):.1g}" if small else f"{float(value):,.{digits}f}"


def percent(value: Fraction | None, digits: int = 1) -> str:
    """Return a share in percent; a dash for None."""
    return "-" if value is None else f"{float(value):.{digits}%}"


def comparison_table(results: Sequence[Result], failures: Mapping[str, str] | None = None) -> Table:
    """Return one row per solver: contention, latency, compatibility, status, bound, gap, time.

    Parameters
    ----------
    failures
        Solvers that could not run, with the reason in a line.
    """
    table = _table("solver", "contention", "latency", "score\nmean", "score\nmin")
    table.add_column("status", no_wrap=True)
    for heading in ("lower\nbound", "gap", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        evaluation = result.evaluation
        table.add_row(
            result.schedule.solver,
            number(evaluation.contention, 0),
            percent(evaluation.objectives["latency"]),
            number(evaluation.score_mean, 3),
            number(evaluation.score_min, 3),
            str(result.status),
            number(result.lower_bound, 0),
            percent(result.gap),
            f"{result.schedule.runtime_s:.2f} s",
        )
    for solver, reason in (failures or {}).items():
        table.add_row(solver, *["-"] * 4, reason, *["-"] * 3)
    return table


def objectives_table(before: Evaluation, after: Evaluation) -> Table:
    """Return one row per objective and score, unshifted against scheduled."""
    table = _table("", "unshifted", "scheduled")
    table.add_column("unit")
    for name, unit in UNITS.items():
        show = percent if name == "latency" else number
        table.add_row(name, show(before.objectives[name]), show(after.objectives[name]), unit)
    table.add_row("score mean", number(before.score_mean, 3), number(after.score_mean, 3), "")
    table.add_row("score min", number(before.score_min, 3), number(after.score_min, 3), "")
    return table


def jobs_table(result: Result, before: Evaluation) -> Table:
    """Return one row per job: weight, period, offset, predicted growth of an iteration."""
    table = _table(
        "job", "weight", "period\n(ms)", "offset\n(ms)", "unshifted\n+ ms", "scheduled\n+ ms"
    )
    slot_ms = result.instance.slot_ms

    def milliseconds(slots: Fraction | int) -> str:
        return f"{float(slots * slot_ms):,.1f}"

    for job in result.instance.jobs:
        table.add_row(
            job.name,
            str(job.weight),
            milliseconds(job.period),
            milliseconds(result.offsets[job.name]),
            milliseconds(before.elongation[job.name]),
            milliseconds(result.evaluation.elongation[job.name]),
        )
    return table


def _table(first: str, *headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
