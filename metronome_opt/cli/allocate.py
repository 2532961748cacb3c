"""``metronome allocate``: choose placements, gated jobs, periods and offsets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.allocation.arguments import ALLOCATION_SOLVERS, ScenarioError, check_network
from metronome_opt.api import allocate as run_solver
from metronome_opt.cli import options
from metronome_opt.cli.options import read_names
from metronome_opt.cli.progress import live_line
from metronome_opt.cli.results import Outputs, show_result
from metronome_opt.errors import error_context
from metronome_opt.files.documents import check_targets
from metronome_opt.problem.objectives import SLOWDOWN
from metronome_opt.problem.result import ProgressEvent
from metronome_opt.solvers.arguments import DEFAULT_TIME_LIMIT


def allocate(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help=options.FILE)],
    solver: Annotated[str, typer.Option(help=f"One of {', '.join(ALLOCATION_SOLVERS)}.")] = "auto",
    time_limit: options.TimeLimit = DEFAULT_TIME_LIMIT,
    objectives: Annotated[
        list[str],
        typer.Option(
            metavar="NAMES",
            help="What to minimise: slowdown; lexicographic, that of higher-weight jobs first; "
            "either with ,delay after it; or completion, the time until jobs leave.",
        ),
    ] = [SLOWDOWN],  # noqa: B006 (it is only read)
    seed: options.Seed = 0,
    threads: options.Threads = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help=f"{options.NETWORKS} Of several the first counts; iteration times on the others "
            "are columns.",
            show_default="that of SCENARIO",
        ),
    ] = None,
    stretch_limit: options.StretchLimit = None,
    max_loss: options.MaxLoss = None,
    migration_cost: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            help="Jobs of a STATE may move if that saves more than these seconds.",
            show_default="no job moves",
        ),
    ] = None,
    output: options.ScheduleOutput = None,
    plot: options.PlotOutput = None,
    claims: options.ClaimsFolder = None,
    as_json: options.Json = False,
) -> int:
    """Choose where jobs run, which are gated and when they send.

    The mean slowdown of the jobs, as simulated, is minimised, after the weight of jobs that wait.
    Solvers cpsat and milp also print a bound of the cost of placements in their joint model.
    """
    networks = read_names(network or ())
    for name in networks:
        check_network(name)
    moves = None
    if migration_cost is not None:
        from metronome_opt.cli.moves import Moves

        moves = Moves.read(scenario, migration_cost)
    source = options.read_source(scenario) if moves is None else moves.source
    check_targets([scenario], [output, plot])
    options.check_outputs(plot, claims)
    named = error_context(scenario, ScenarioError)
    with live_line(f"{source.name}: {solver}", ProgressEvent.describe) as callback, named:
        result = run_solver(
            source,
            solver,
            read_names(objectives),
            network=networks[0] if networks else None,
            stretch_limit=stretch_limit,
            max_loss=max_loss,
            time_limit=time_limit,
            stop=callback or (),
            seed=seed,
            threads=threads,
        )
    if moves is not None and moves.moves:
        there = {"places": {job.name: job.nodes for job in moves.source.jobs}}
        result = replace(result, schedule=result.schedule.model_copy(update=there))
    outputs = Outputs(output, plot, claims, as_json)
    return show_result(result, source, outputs, networks[1:], moves)
