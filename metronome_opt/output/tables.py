"""Tables for the terminal. Exact numbers are rounded here and nowhere before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.allocation.slots.plan import Plan, mean_slowdown
from metronome_opt.errors import first_few, pluralise
from metronome_opt.files.records import FrozenDict
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.objectives import (
    CONTENTION,
    CUSHION,
    SLOWDOWN,
    find_objective,
    format_number,
)
from metronome_opt.problem.schedule import OBJECTIVES, Schedule
from metronome_opt.scenario.cluster import Paths

if TYPE_CHECKING:
    from metronome_opt.scenario.placed_instance import Deployment, PlacedInstance

CUSHION_LEGEND = (
    "cushion: slots by which all bursts can grow before a link without contention has some; "
    "no limit: there is no such link"
)
MAX_NODES = 3
_WIDE = 200
_MANY_JOBS, _MOST_AFFECTED = 40, 20
_BY_CHANCE = 2e-3  # of a mean slowdown: smaller differences are noise


def terminal() -> Console:
    """Return a console for standard output; one that is no terminal is wide and does not wrap."""
    # Names may look like markup or emoji; they are printed as they are.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


def plain_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[str] = ()
) -> Table:
    """Return a table: names are aligned to the left, other columns to the right.

    Parameters
    ----------
    headings
        One for each column; the first column has the names.
    rows
        Texts, one for each column.
    left
        Headings of further columns that are aligned to the left.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for position, heading in enumerate(headings):
        is_left = position == 0 or heading in left
        # On a narrow terminal words are cut before numbers are: only columns that may wrap shrink.
        justify: Literal["left", "right"] = "left" if is_left else "right"
        table.add_column(heading, justify=justify, no_wrap=heading not in left)
    for row in rows:
        cells = zip(headings, row, strict=True)
        table.add_row(*(Text(cell, no_wrap=True) if of in left else cell for of, cell in cells))
    return table


def format_nodes(nodes: Sequence[str], limit: int | None = None) -> str:
    """Return the nodes of tasks with the number of tasks there, at most some of many nodes."""
    tasks = Counter(nodes)
    named = [f"{node} x {count}" if count > 1 else node for node, count in tasks.items()]
    return first_few(named, len(named) if limit is None else limit)


def nodes_by_job(placed: Deployment | None) -> dict[str, str]:
    """Return the first nodes of each job that has tasks; nothing where nodes are not known."""
    nodes: dict[str, list[str]] = {}
    for task in placed.tasks if placed else ():
        nodes.setdefault(task.job, []).append(task.node)
    return {job: format_nodes(its, MAX_NODES) for job, its in nodes.items()}


def objectives_table(before: Evaluation | None, after: Evaluation) -> Table:
    """Return one row per objective and compatibility, unshifted (dashes if None) and scheduled.

    Rows of values that are not worth one, zeros and full compatibility, are dropped.
    """
    rows: list[tuple[str, ...]] = []
    for name in OBJECTIVES:
        objective = find_objective(name)
        values = [None if truth is None else truth.objectives[name] for truth in (before, after)]
        if any(values) or name in (CONTENTION, CUSHION):
            old, new = (objective.format(value) for value in values)
            grow = " by which all bursts can grow" * (name == CUSHION)
            rows.append((name, "-" if before is None else old, new, objective.unit + grow))
    for name in ("mean", "min"):
        key = f"score_{name}"
        scores: list[Fraction | None] = [getattr(truth, key, None) for truth in (before, after)]
        texts = [format_number(score, 3) for score in scores]
        if any(score not in (None, 1) for score in scores):
            rows.append((f"compatibility, {name}", *texts, "of 1"))
    return plain_table(("", "before", "now", "unit"), rows, left=("unit",))


def traffic_table(problem: PlacedInstance) -> Table:
    """Return one row per job of a scenario: workload, traffic and nodes.

    Iterations are exact and isolated; periods are rounded to slots.
    """
    where, slot_ms = nodes_by_job(problem.placed), problem.instance.slot_ms
    rows = [
        (
            job.name,
            str(job.weight),
            str(traffic.job.workers),
            traffic.title,
            f"{float(iteration.duration):,.1f}",
            f"{job.period * slot_ms:,}",
            str(len(job.phases)),
            f"{job.peak:,}" if job.links else "-",  # inside a node it is no link's
            where.get(job.name, "-"),
        )
        for job, traffic, iteration in zip(
            problem.instance.jobs, problem.traffic, problem.iterations, strict=True
        )
    ]
    headings = (
        *("job", "priority", "tasks", "traffic", "iteration\n(ms)", "period\n(ms)", "bursts"),
        *("peak\n(Mbit/s)", "nodes"),
    )
    return plain_table(headings, rows, left=("traffic", "nodes"))


def jobs_table(
    instance: Instance,
    schedule: Schedule,
    times: IterationTimes,
    placed: Deployment | None = None,
    jobs: Sequence[Job] | None = None,
    elsewhere: Mapping[str, Mapping[str, Fraction]] = FrozenDict(),
) -> Table:
    """Return one row per job: nodes, iteration times in ms, and windows.

    Parameters
    ----------
    instance, schedule
        The jobs, and their windows and paths.
    times
        Iteration times before, and under the schedule.
    placed
        The nodes of tasks; None for those that the schedule states, if any.
    jobs
        Jobs to write rows of; all if None.
    elsewhere
        Iteration times by job on further networks, by network.

    Returns
    -------
    Table
        Its columns are those of `jobs_legend`.
    """
    paths, classes = schedule.paths, schedule.classes
    chosen = (schedule.places or {}).items()
    where = nodes_by_job(placed) or {name: format_nodes(at, MAX_NODES) for name, at in chosen}
    gated, slot_ms = Plan.of(instance, schedule).periods, instance.slot_ms

    def number(by_job: Mapping[str, Fraction]) -> Callable[[Job], str]:
        return lambda job: format_number(by_job[job.name]) if job.name in by_job else "unknown"

    def window(job: Job) -> str:
        if job.name not in gated:
            return "-"
        offset, period = schedule.offsets[job.name], gated[job.name]
        return f"from {offset * slot_ms:,} every {period * slot_ms:,}"

    columns: dict[str, Callable[[Job], str]] = {
        "job": lambda job: job.name,
        "priority": lambda job: str(job.weight),
    }
    if where:
        columns["nodes"] = lambda job: where.get(job.name, "-")
    columns |= {
        "alone": lambda job: format_number(instance.best_ms(job)),
        "before": number(times.first),
        "now": number(times.after),
        **{f"now, {network}": number(by_job) for network, by_job in elsewhere.items()},
        "windows": window,
    }
    if paths is not None:
        columns["spines"] = lambda job: spines_text(paths.get(job.name, ()))
    if classes is not None:
        columns["class"] = lambda job: str(classes[job.name])
    rows = (
        [text(job) for text in columns.values()]
        for job in (instance.jobs if jobs is None else jobs)
    )
    return plain_table(list(columns), rows, left=("nodes", "spines"))


def spines_text(paths: Paths) -> str:
    """Return the spines by which the traffic of each task leaves its rack."""
    return ", ".join("+".join(map(str, its)) or "-" for its in paths) or "-"


def jobs_legend(instance: Instance, schedule: Schedule, times: IterationTimes) -> str:
    """Return a legend of the columns of `jobs_table`."""
    nodes = "on the same nodes" if times.nearest is None else "on the nearest nodes"
    lines = [
        f"ms per iteration, simulated on network {schedule.network or instance.network}",
        f"alone: without other jobs, on its best nodes; before: {nodes}, without windows",
    ]
    if any((schedule.gated or schedule.offsets).values()):
        lines.append("windows: when a gated job begins an iteration, and how often; -: when ready")
    if schedule.paths is not None:
        lines.append("spines: by which a task's traffic leaves its rack")
    return "\n".join(lines)


def select_jobs(instance: Instance, times: IterationTimes) -> Sequence[Job]:
    """Return the jobs of the table: all, or of many those with the largest changes."""
    jobs = instance.jobs
    if len(jobs) <= _MANY_JOBS:
        return jobs
    change = {job.name: abs(float(_change(times, job) or 0)) for job in jobs}
    return sorted(jobs, key=lambda job: -change[job.name])[:_MOST_AFFECTED]


def _change(times: IterationTimes, job: Job) -> Fraction | None:
    before, after = times.first.get(job.name), times.after.get(job.name)
    return None if before is None or after is None else after / before - 1


def gain_text(instance: Instance, schedule: Schedule, times: IterationTimes) -> str:
    """Return a line: the mean slowdown now and before, and what nodes and windows bring of it.

    A further line says that gating makes the jobs slower, as that of minimum contention may.

    Parameters
    ----------
    instance, schedule
        The jobs, and which of them are gated.
    times
        Iteration times before, and under the schedule.
    """
    first, before, after = (
        mean_slowdown(instance, by) for by in (times.first, times.before, times.after)
    )
    gated = sum((schedule.gated or dict.fromkeys(schedule.offsets, True)).values())
    text = f"mean slowdown {_mean(after)}"
    if first is not None and before is not None and after is not None:
        parts = "" if times.nearest is None else f"nodes {_percent(before / first)}, "
        text += f", before {_mean(first)}: {parts}windows {_percent(after / before)}"
    have = "has" if len(instance.jobs) == 1 else "have"
    text += f"; {gated:,} of {pluralise(len(instance.jobs), 'job')} {have} windows"
    if schedule.objectives.get(SLOWDOWN, 0) is None and after is not None:
        text += "\n(simulated for this table, after the time limit)"
    if gated and after is not None and before is not None and after > before + _BY_CHANCE:
        text += "\nthese windows make iterations longer; allocate minimises the slowdown"
    return text


def _percent(ratio: Fraction) -> str:
    return f"{float(ratio - 1):+z.1%}"


def _mean(slowdown: Fraction | None) -> str:
    return "unknown" if slowdown is None else f"{float(slowdown):.4f}"
