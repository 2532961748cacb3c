"""Tables for the terminal. Exact numbers are rounded here and nowhere before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from rich import box
from rich.console import Console
from rich.table import Table

from metronome_opt.compatible import Kept
from metronome_opt.errors import counted
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.front import Front
from metronome_opt.report.classes import priority_classes
from metronome_opt.result import Result
from metronome_opt.slowdown.plan import mean_slowdown
from metronome_opt.verify import Evaluation

JOBS_LEGEND = (
    "+ ms: what an iteration would take longer if others kept their slots, added up over its links"
)
SLOWDOWN_LEGEND = (
    "slots: from one to the next, of jobs that are gated; the others begin at first and run freely"
)
CUSHION_LEGEND = (
    "cushion: by how much all bursts may grow before a link without contention has some; "
    "0: by no whole slot, no limit: there is no such link"
)
CLASSES_LEGEND = (
    "iteration: predicted length, mean share of the period; unserved: Mbit/s, all links"
)
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


def stated(name: str, value: Fraction | None, digits: int = 1) -> str:
    """Return a value of an objective as people read it: latency in percent, others as numbers.

    None is a cushion without limit.
    """
    if value is None:
        return "no limit"
    return percent(value, digits) if name == "latency" else number(value, digits)


def plain_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[str] = ()
) -> Table:
    """Return a table: names to the left, numbers and what else there is to the right.

    Parameters
    ----------
    headings
        That of the first column, the names, and those of the others.
    rows
        A text for each column.
    left
        Headings of further columns that are aligned to the left.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for position, heading in enumerate(headings):
        is_left = position == 0 or heading in left
        table.add_column(heading, justify="left" if is_left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def comparison_table(
    results: Mapping[str, Result],
    played: Mapping[str, Mapping[str, float]],
    failures: Mapping[str, str] | None = None,
) -> Table:
    """Return one row per result: contention, latency, compatibility, slowdown, status, gap, time.

    Bound and gap are those of contention. Where slowdown was minimised instead, the status says how
    many jobs are gated.

    Parameters
    ----------
    results
        By the name of the row.
    played
        Slowdowns of each, as simulated, by how links are shared.
    failures
        Solvers that could not run, with the reason in a line.
    """
    rows = []
    for name, result in results.items():
        evaluation, gated = result.evaluation, result.schedule.gated
        rows.append(
            (
                name,
                number(evaluation.contention, 0),
                percent(evaluation.objectives["latency"]),
                number(evaluation.score_mean, 3),
                number(evaluation.score_min, 3),
                *(f"{played[name][sharing]:.3f}" for sharing in ("fair", "tcp")),
                str(result.status) if gated is None else f"{sum(gated.values())} gated",
                number(result.lower_bound if gated is None else None, 0),
                percent(result.gap if gated is None else None),
                f"{result.schedule.runtime_s:.2f} s",
            )
        )
    for solver, reason in (failures or {}).items():
        rows.append((solver, *["-"] * 6, reason, *["-"] * 3))
    headings = (
        *("solver", "contention", "latency", "score\nmean", "score\nmin", "fair", "tcp"),
        *("status", "lower\nbound", "gap", "time"),
    )
    return plain_table(headings, rows, left=("status",))


def objectives_table(before: Evaluation | None, after: Evaluation) -> Table:
    """Return one row per objective and score, unshifted against scheduled.

    Parameters
    ----------
    before, after
        What the judge says of two schedules; what is not known before is shown as a dash.
    """
    rows = []
    for name, unit in UNITS.items():
        old = "-" if before is None else stated(name, before.objectives[name])
        rows.append((name, old, stated(name, after.objectives[name]), unit))
    for name in ("mean", "min"):
        old, new = (
            "-" if each is None else number(getattr(each, f"score_{name}"), 3)
            for each in (before, after)
        )
        rows.append((f"score {name}", old, new, ""))
    return plain_table(("", "unshifted", "scheduled", "unit"), rows, left=("unit",))


def jobs_table(result: Result, before: Evaluation | None) -> Table:
    """Return one row per job: weight, period, offset, predicted growth of an iteration.

    Idle time has a column where some job is stretched.

    Parameters
    ----------
    before
        What the judge says of the jobs if nobody shifts them; None, shown as dashes, where that is
        not known.
    """
    is_stretched = any(result.stretch.values())
    slot_ms = result.instance.slot_ms

    def milliseconds(slots: Fraction | int) -> str:
        return f"{float(slots * slot_ms):,.1f}"

    rows = [
        (
            job.name,
            str(job.weight),
            milliseconds(job.period),
            *([milliseconds(result.stretch.get(job.name, 0))] if is_stretched else []),
            milliseconds(result.offsets[job.name]),
            "-" if before is None else milliseconds(before.elongation[job.name]),
            milliseconds(result.evaluation.elongation[job.name]),
        )
        for job in result.instance.jobs
    ]
    headings = (
        *("job", "weight", "period\n(ms)"),
        *(["stretch\n(ms)"] if is_stretched else []),
        *("offset\n(ms)", "unshifted\n+ ms", "scheduled\n+ ms"),
    )
    return plain_table(headings, rows)


def slowdown_table(result: Result) -> Table:
    """Return one row per job of a kept schedule: its slots, and the iteration time to expect."""
    schedule, slot_ms = result.schedule, result.instance.slot_ms
    rows = []
    for job in result.instance.jobs:
        gated = (schedule.gated or {}).get(job.name)
        slots = (job.period + result.stretch.get(job.name, 0)) * slot_ms
        before = (result.unshifted_ms or {}).get(job.name)
        after = (schedule.expected_ms or {}).get(job.name)
        waits = sorted((result.waits or {}).get(job.name, {}).items(), key=lambda item: -item[1])
        rows.append(
            (
                job.name,
                str(job.weight),
                f"{job.period * slot_ms:,}",
                f"{slots:,}" if gated else "free",
                f"{result.offsets[job.name] * slot_ms:,}",
                "-" if before is None else f"{before:,.1f}",
                "-" if after is None else f"{float(after):,.1f}",
                f"{float(after) / before - 1:+.1%}" if before and after else "-",
                ", ".join(f"{name} {share:.0%}" for name, share in waits[:2]) or "nobody",
            )
        )
    headings = (
        *("job", "weight", "period\n(ms)", "slots\n(ms)", "first\n(ms)"),
        *("unshifted\n(ms)", "expected\n(ms)", "change", "held up by"),
    )
    return plain_table(headings, rows)


def gated_text(result: Result) -> str:
    """Return a line: how many jobs are gated, and what slowdown would be if none were."""
    times = {name: Fraction(time) for name, time in (result.unshifted_ms or {}).items()}
    gated = sum((result.schedule.gated or {}).values())
    return (
        f"{gated} of {counted(len(times), 'job')} gated; if nobody were shifted or gated, "
        f"slowdown would be {float(mean_slowdown(result.instance, times)):.4f}"
    )


def fit_table(instance: Instance, kept: Kept) -> Table:
    """Return one row per job: its period, that of its slots, and its first slot."""
    rows = []
    for job in instance.jobs:
        slots = kept.periods.get(job.name)
        rows.append(
            (
                job.name,
                str(job.weight),
                f"{job.period * instance.slot_ms:,}",
                "free" if slots is None else f"{slots * instance.slot_ms:,}",
                "-" if slots is None else f"{kept.offsets[job.name] * instance.slot_ms:,}",
            )
        )
    headings = ("job", "weight", "period\n(ms)", "slots\n(ms)", "first\n(ms)")
    return plain_table(headings, rows)


def classes_table(instance: Instance, before: Evaluation | None, after: Evaluation) -> Table:
    """Return one row per priority class, heaviest first, and one for all: who pays, who gains.

    Parameters
    ----------
    before, after
        What the judge says of two schedules of it; what is not known before is shown as a dash.
    """
    rows = [
        (
            "all" if each.weight is None else str(each.weight),
            *(
                "-" if count is None else f"{count:,}"
                for count in (each.jobs, each.faster, each.slower)
            ),
            *(percent(share) for share in (each.iteration_before, each.iteration_after)),
            *(number(bandwidth) for bandwidth in (each.unserved_before, each.unserved_after)),
        )
        for each in priority_classes(instance, before, after)
    ]
    headings = (
        *("weight", "jobs", "\nfaster", "\nslower"),
        *("iteration\nbefore", "\nafter", "unserved\nbefore", "\nafter"),
    )
    return plain_table(headings, rows)


def front_table(front: Front, files: Sequence[str]) -> Table:
    """Return one row per point of a front: its number, its values on the axes, its file.

    As many digits are shown as it takes to tell the values of an objective apart, up to six.

    Parameters
    ----------
    files
        Where the points are written, in their order.
    """
    columns = [
        _apart(name, [point.objectives[name] for point in front.points])
        for name in front.objectives
    ]
    numbers = map(str, range(1, len(files) + 1))
    headings = (
        *("point", *(f"{name}\n({UNITS[name]})" for name in front.objectives)),
        "schedule",
    )
    return plain_table(headings, zip(numbers, *columns, files, strict=True), left=("schedule",))


def _apart(name: str, values: Sequence[Fraction | None]) -> list[str]:
    """Return values as people read them, with digits enough that different ones look different."""
    for digits in range(1, 7):
        texts = [stated(name, value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts
