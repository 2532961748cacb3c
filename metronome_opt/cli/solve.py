"""``metronome solve``: choose offsets at given placements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from metronome_opt.allocation.arguments import ScenarioError
from metronome_opt.api import solve as run_solver
from metronome_opt.cli import options
from metronome_opt.cli.options import read_names, read_pairs
from metronome_opt.cli.progress import live_line
from metronome_opt.cli.results import Outputs, show_result
from metronome_opt.errors import InputError, error_context
from metronome_opt.files.documents import check_targets
from metronome_opt.problem.objectives import CONTENTION
from metronome_opt.problem.result import CustomSolverError, ProgressEvent, Result
from metronome_opt.problem.schedule import OBJECTIVES
from metronome_opt.solvers import SOLVERS
from metronome_opt.solvers.arguments import DEFAULT_TIME_LIMIT


def solve(
    file: options.Problem,
    solver: Annotated[str, typer.Option(help=f"One of {', '.join(SOLVERS)}.")] = "auto",
    time_limit: options.TimeLimit = DEFAULT_TIME_LIMIT,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    objectives: Annotated[
        list[str],
        typer.Option(
            metavar="NAMES",
            help="What to optimise, most important first and separated by commas, of "
            f"{', '.join(OBJECTIVES)}; or all, in the order of docs/model.md; or a weighted sum, "
            "contention=1/2,wait=1/2.",
        ),
    ] = [CONTENTION],  # noqa: B006 (it is only read)
    cushion_slots: options.CushionSlots = 0,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of processes of this machine that search subtrees of proofs.",
            show_default="this one",
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Search them on this Dask cluster: tcp://HOST:PORT."),
    ] = None,
    output: options.ScheduleOutput = None,
    plot: options.PlotOutput = None,
    claims: options.ClaimsFolder = None,
    as_json: options.Json = False,
) -> int:
    """Choose offsets at given placements: an exact problem with value, bound and gap.

    Contention is minimised unless objectives are named. Jobs of a scenario that do not state nodes
    are placed at the nearest ones. With stretch among the objectives periods are stretched as well.
    """
    if processes is not None and dask is not None:
        raise InputError("--processes: are of this machine; omit it, or --dask")
    source = options.read_source(file)
    check_targets([file], [output, plot])
    options.check_outputs(plot, claims)
    named = error_context(file, ScenarioError)
    with live_line(f"{source.name}: {solver}", ProgressEvent.describe) as callback, named:
        result, failure = _run(
            source,
            solver,
            _objective(objectives),
            time_limit=time_limit,
            stop=callback or (),
            seed=seed,
            threads=threads,
            cushion_slots=cushion_slots,
            executor=dask or processes,
        )
    status = show_result(result, source, Outputs(output, plot, claims, as_json))
    if failure is not None:
        kept = "is printed; --output writes it" if output is None else f"is kept in {output}"
        raise CustomSolverError(f"{failure}; its best schedule {kept}") from failure.__cause__
    return status


def _run(*arguments: Any, **options: Any) -> tuple[Result, CustomSolverError | None]:
    """Return what `solve` returns, and the error after which a solver of the user's left it."""
    try:
        return run_solver(*arguments, **options), None
    except CustomSolverError as error:
        if error.result is None:
            raise
        return error.result, error


def _objective(typed: Sequence[str]) -> str | list[str] | dict[str, str]:
    """Return one objective, several in order, or the weights of a sum."""
    if any("=" in text for text in typed):
        return dict(read_pairs("--objectives", typed))
    names = read_names(typed)
    return names[0] if len(names) == 1 else names
