"""``metronome bench``: run campaigns over suites, report results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from metronome_opt.cli import options
from metronome_opt.cli.app import App, Group
from metronome_opt.errors import InputError, error_context, pluralise, quote
from metronome_opt.solvers.arguments import MAX_THREADS
from metronome_opt.solvers.registry import SOLVERS, find_solver

if TYPE_CHECKING:
    from metronome_opt.bench.suites import Member

app = App(cls=Group, help="Compare solvers on stored instances or on files of your own.")


_Split = Literal["test", "tune", "all"]
_Suites = Annotated[
    list[str],
    typer.Option(
        "--suite",
        metavar="NAMES",
        help="Names of stored suites, instances or scenarios, or files or folders of such, "
        "separated by commas, or all.",
    ),
]


@app.command()
def run(
    suite: _Suites,
    solvers: Annotated[
        list[str],
        typer.Option(
            metavar="NAMES",
            help=f"Separated by commas, out of {', '.join(SOLVERS)}; or file.py:function of your "
            "own, a function of one SolverRun.",
        ),
    ] = ["auto"],  # noqa: B006 (it is only read)
    replications: Annotated[
        int, typer.Option(min=1, help="Number of seeds, 0, 1, ...; solvers without one run once.")
    ] = 1,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds for each case.",
            show_default="that of the suite; 60 without an index",
        ),
    ] = None,
    split: Annotated[_Split, typer.Option(help="Tune on tune, publish test.")] = "test",
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_THREADS,
            help="Threads for each case.",
            show_default="one per core if cases run one by one on this machine, else 1",
        ),
    ] = None,
    memory_limit: options.MemoryLimit = 4096,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cases at once; more than one disturb each other's times.",
            show_default="1; with --dask one per thread of the cluster",
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on this Dask cluster: tcp://HOST:PORT."),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Append the records here, as JSON lines."),
    ] = Path("campaign.jsonl"),
    resume: Annotated[bool, typer.Option("--resume", help="Skip recorded cases.")] = False,
) -> int:
    """Minimise contention on the instances of suites, a process for each case.

    A case that does not stop at its time limit is killed a tenth of the limit and 10 s later, and
    its last schedule counts; a case that needs too much memory ends. Imports and compilation are
    not timed. Every schedule is verified before it is recorded. A killed campaign loses at most the
    cases that were running.
    """
    from metronome_opt.bench.campaign import dask_pool, local_pool
    from metronome_opt.bench.process import Limits
    from metronome_opt.bench.solver_runs import SolverRecord, plan
    from metronome_opt.cli.campaigns import LOST, run_remaining
    from metronome_opt.files.journal import Journal

    chosen = [find_solver(name) for name in _names(solvers)]
    members = _members(",".join(suite), split)
    if threads is None:
        one_by_one = dask is None and processes in (None, 1)
        threads = (os.cpu_count() or 1) if one_by_one else 1

    def limits(member: Member) -> Limits:
        limit = member.time_limit_s if time_limit is None else time_limit
        return Limits(limit, memory_limit)

    cases = plan(members, chosen, seeds=replications, limits=limits, workers=threads)
    with Journal(output, SolverRecord, resume=resume) as file:
        pool = local_pool(processes or 1) if dask is None else dask_pool(dask, processes)
        held = len(file.records)
        counts = run_remaining(cases, file, pool, output)
        added = file.records[held:]
    if counts is None:
        return options.INTERRUPTED
    lost = counts.pop(LOST, 0)
    kinds = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in counts.most_common())
    # A killed task states no time of its own.
    solving = sum(
        record.wall_s if record.runtime_s is None else record.runtime_s for record in added
    )
    starting = sum(record.wall_s for record in added) - solving
    times = f"{solving:.0f} s solving, {starting:.0f} s starting processes"
    typer.echo(pluralise(len(added), "case") + (f" ({kinds}): {times}" if kinds else ""))
    options.wrote(output)
    if lost:
        typer.echo(
            f"{pluralise(lost, 'case')} could not be run; the same command with --resume tries "
            "again"
        )
    return 1 if lost else 0


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of records.")],
    output: options.ResultsFolder,
    best_known: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Best known values.", show_default="the best of the records"
        ),
    ] = None,
) -> int:
    """Write a report of campaigns to a folder: a page, figures, and the records as a table."""
    from metronome_opt.bench.report import write_report
    from metronome_opt.bench.solver_runs import read_records

    options.wrote(write_report(read_records(files), output, best_known=best_known))
    return 0


def _names(typed: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(options.read_names(typed)))
    if not names:
        raise InputError(f"--solvers: {quote(','.join(typed))} names none")
    return names


def _members(suite: str, split: _Split) -> list[Member]:
    from metronome_opt.bench.suites import find_suites

    part = None if split == "all" else split
    members = [member for found in find_suites(suite) for member in found.members(part)]
    for member in members:
        with error_context(member.path):
            member.instance.check_hyperperiods()  # here jobs keep their periods
    if not members:
        raise InputError(f"--split: {suite} has no instances to {split}")
    return members
