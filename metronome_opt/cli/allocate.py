"""``metronome allocate``: choose places, gated jobs, periods and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.allocation.api import allocate as run_solver
from metronome_opt.allocation.arguments import ScenarioError
from metronome_opt.allocation.solvers import ALLOCATION_SOLVERS
from metronome_opt.cli import options
from metronome_opt.cli.progress import describe_event, live_line
from metronome_opt.cli.solve import Outputs, show_result
from metronome_opt.errors import error_context
from metronome_opt.files.documents import check_targets
from metronome_opt.problem.objectives import SLOWDOWN
from metronome_opt.solvers.arguments import DEFAULT_TIME_LIMIT


def allocate(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help=options.FILE)],
    solver: Annotated[str, typer.Option(help=f"One of {', '.join(ALLOCATION_SOLVERS)}.")] = "auto",
    time_limit: options.TimeLimit = DEFAULT_TIME_LIMIT,
    objective: Annotated[
        str, typer.Option(help="What to minimise: slowdown, strict, or completion.")
    ] = SLOWDOWN,
    seed: options.Seed = 0,
    threads: options.Workers = None,
    network: options.Network = None,
    stretch_limit: options.StretchLimit = None,
    max_loss: options.MaxLoss = None,
    output: options.ScheduleOutput = None,
    plot: options.PlotOutput = None,
    claims: options.ClaimsFolder = None,
    as_json: options.Json = False,
) -> int:
    """Choose where jobs run, which are gated and when they send.

    The mean slowdown of the jobs, as simulated, is minimised, after the weight of those that wait.
    Solvers cpsat and milp also print a bound of the cost of places in their joint model.
    """
    source = options.read_source(scenario)
    check_targets([scenario], [output, plot])
    options.check_outputs(plot, claims)
    named = error_context(scenario, ScenarioError)
    with live_line(f"{source.name}: {solver}", describe_event) as callback, named:
        result = run_solver(
            source,
            solver,
            objective,
            network=network,
            stretch_limit=stretch_limit,
            max_loss=max_loss,
            time_limit=time_limit,
            stop=callback or (),
            seed=seed,
            threads=threads,
        )
    return show_result(result, source, Outputs(output, plot, claims, as_json))
