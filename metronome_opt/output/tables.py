"""Tables for the terminal. Exact numbers are rounded here and nowhere before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.allocation.slots.plan import Plan, mean_slowdown
from metronome_opt.engine.jobs import isolated_iteration
from metronome_opt.errors import first_few, pluralise
from metronome_opt.files.records import FrozenDict
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.objectives import SLOWDOWN, find_objective, format_number
from metronome_opt.problem.schedule import OBJECTIVES, Schedule
from metronome_opt.scenario.cluster import Paths

if TYPE_CHECKING:
    from metronome_opt.scenario.placed_instance import Deployment, PlacedInstance

CUSHION_LEGEND = (
    "cushion: by how much all bursts may grow before a link without contention has some; "
    "0: by no whole slot, no limit: there is no such link"
)
MAX_NODES = 3
_WIDE = 200
_MANY_JOBS, _MOST_AFFECTED = 40, 20
_BY_CHANCE = 2e-3  # of a mean slowdown: so much do simulations differ


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
        That of the first column, the names, and those of the others.
    rows
        A text for each column.
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


def on_nodes(nodes: Sequence[str], limit: int | None = None) -> str:
    """Return where the tasks of a job run, each node once, and of many the first ones only.

    Parameters
    ----------
    nodes
        The node of each task.
    limit
        How many nodes are named; None for all.
    """
    tasks = Counter(nodes)
    named = [f"{node} x {count}" if count > 1 else node for node, count in tasks.items()]
    return first_few(named, len(named) if limit is None else limit)


def where_jobs_run(placed: Deployment | None) -> dict[str, str]:
    """Return the first nodes of each job that has tasks; nothing where places are unknown."""
    nodes: dict[str, list[str]] = {}
    for task in placed.tasks if placed else ():
        nodes.setdefault(task.job, []).append(task.node)
    return {job: on_nodes(its, MAX_NODES) for job, its in nodes.items()}


def objectives_table(before: Evaluation | None, after: Evaluation) -> Table:
    """Return one row per objective and score, unshifted against scheduled.

    Parameters
    ----------
    before, after
        Evaluations of two schedules; values that are not known before are dashes.
    """
    rows = []
    for name in OBJECTIVES:
        objective = find_objective(name)
        old = "-" if before is None else objective.format(before.objectives[name])
        rows.append((name, old, objective.format(after.objectives[name]), objective.unit))
    for name in ("mean", "min"):
        old, new = (
            "-" if each is None else format_number(getattr(each, f"score_{name}"), 3)
            for each in (before, after)
        )
        rows.append((f"score {name}", old, new, ""))
    return plain_table(("", "unshifted", "scheduled", "unit"), rows, left=("unit",))


def traffic_table(problem: PlacedInstance) -> Table:
    """Return one row per job of a scenario: workload, traffic and nodes.

    Iterations are as they would be alone, exactly; periods as they are in slots.
    """
    where, slot_ms = where_jobs_run(problem.placed), problem.instance.slot_ms
    rows = [
        (
            job.name,
            str(job.weight),
            str(traffic.job.workers),
            traffic.title,
            f"{float(iteration.duration):,.1f}",
            f"{job.period * slot_ms:,}",
            str(len(job.phases)),
            f"{job.peak:,}",
            where.get(job.name, "-"),
        )
        for job, traffic, iteration in zip(
            problem.instance.jobs, problem.traffic, problem.iterations, strict=True
        )
    ]
    headings = (
        *("job", "weight", "workers", "traffic", "iteration\n(ms)", "period\n(ms)", "bursts"),
        *("fastest\n(Mbit/s)", "where"),
    )
    return plain_table(headings, rows, left=("traffic", "where"))


def jobs_table(
    instance: Instance,
    schedule: Schedule,
    times: IterationTimes,
    placed: Deployment | None = None,
    jobs: Sequence[Job] | None = None,
    elsewhere: Mapping[str, Mapping[str, Fraction]] = FrozenDict(),
) -> Table:
    """Return one row per job: how long an iteration takes, where it runs, and its slots.

    Parameters
    ----------
    times
        Iteration times unshifted, and under the schedule.
    placed
        Where tasks run; None, and no column, where that is not known.
    jobs
        Jobs to write rows of; all if None.
    elsewhere
        Expected times by job on further networks, by network.
    """
    where, paths = where_jobs_run(placed), schedule.paths
    gated = Plan.of(instance, schedule).periods
    slot_ms = instance.slot_ms
    rows = []
    for job in instance.jobs if jobs is None else jobs:
        before, after = times.before[job.name], times.after[job.name]
        rows.append(
            (
                *(job.name, str(job.weight), f"{job.period * slot_ms:,}"),
                *(
                    format_number(instance.best_ms(job)),
                    format_number(isolated_iteration(instance, job).duration),
                ),
                *(
                    format_number(before),
                    format_number(after),
                    f"{float(after / before - 1):+z.1%}",
                ),
                *(format_number(by[job.name]) for by in elsewhere.values()),
                *([where.get(job.name, "-")] if where else []),
                *([] if paths is None else [spines_text(paths.get(job.name, ()))]),
                f"{gated[job.name] * slot_ms:,}" if job.name in gated else "free",
                f"{schedule.offsets[job.name] * slot_ms:,}",
                *([] if schedule.classes is None else [str(schedule.classes[job.name])]),
            )
        )
    headings = (
        *("job", "weight", "period\n(ms)", "best\n(ms)", "alone\n(ms)", "unshifted\n(ms)"),
        *("expected\n(ms)", "change", *(f"{each}\n(ms)" for each in elsewhere)),
        *(["where"] if where else []),
        *([] if paths is None else ["spines"]),
        *("slots\n(ms)", "first\n(ms)"),
        *([] if schedule.classes is None else ["traffic\nclass"]),
    )
    return plain_table(headings, rows, left=("where", "spines"))


def spines_text(paths: Paths) -> str:
    """Return the spines by which what each task sends leaves its rack."""
    return ", ".join("+".join(map(str, its)) or "-" for its in paths) or "-"


def jobs_legend(instance: Instance, schedule: Schedule) -> str:
    """Return what the columns of the table of jobs are, and for which network."""
    return (
        "best: the shortest iteration in the empty cluster, of which slowdowns are multiples\n"
        "alone: at its places, without other jobs on its links; unshifted, expected: as simulated, "
        f"network {schedule.network or instance.network}\n"
        "slots: from one to the next, of jobs that are gated; the others begin at first and run "
        "freely"
        + ("" if schedule.paths is None else "\nspines: of each task, by which it leaves its rack")
    )


def select_jobs(instance: Instance, times: IterationTimes) -> Sequence[Job]:
    """Return the jobs of the table: all, or of many those with the largest changes."""
    jobs = instance.jobs
    if len(jobs) <= _MANY_JOBS:
        return jobs
    change = {job.name: abs(times.after[job.name] / times.before[job.name] - 1) for job in jobs}
    return sorted(jobs, key=lambda job: -change[job.name])[:_MOST_AFFECTED]


def gated_text(instance: Instance, schedule: Schedule, times: IterationTimes) -> str:
    """Return a line: how many jobs are gated, and the mean slowdown with that and without.

    And one more where slots make the jobs slower, as those of minimum contention may.
    """
    alone = {job.name: isolated_iteration(instance, job).duration for job in instance.jobs}
    each, before, after = (float(mean_slowdown(instance, by)) for by in (alone, *times))
    gated = sum((schedule.gated or dict.fromkeys(alone, True)).values())
    text = (
        f"{gated:,} of {pluralise(len(instance.jobs), 'job')} gated: slowdown {after:.4f}; "
        f"unshifted and not gated, {before:.4f}; alone at these places, {each:.4f}"
    )
    if schedule.objectives.get(SLOWDOWN, 0) is None:
        text += "\n(simulated for this table, when the time was over)"
    if gated and after > before + _BY_CHANCE:
        text += (
            f"\nslower than no slots: {after:.4f} instead of {before:.4f}; "
            "solve without --objectives minimises it"
        )
    return text
