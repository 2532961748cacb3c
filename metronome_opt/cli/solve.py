"""``metronome solve``: choose offsets and gated jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from metronome_opt.allocation.arguments import ScenarioError, check_network
from metronome_opt.allocation.solving import solve as run_solver
from metronome_opt.cli import options
from metronome_opt.cli.options import note, print_json, read_names, read_pairs, wrote
from metronome_opt.cli.progress import describe_event, live_line
from metronome_opt.errors import error_context, pluralise
from metronome_opt.files.documents import check_targets
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import SLOWDOWN, find_objective
from metronome_opt.problem.result import CustomSolverError, Result, StopReason
from metronome_opt.problem.schedule import OBJECTIVES, Status, write_schedule
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import PlacedInstance, build_problem
from metronome_opt.solvers import SOLVERS
from metronome_opt.solvers.arguments import DEFAULT_TIME_LIMIT
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.cli.moves import Moves


def solve(
    file: options.Problem,
    solver: Annotated[str, typer.Option(help=f"One of {', '.join(SOLVERS)}.")] = "auto",
    time_limit: options.TimeLimit = DEFAULT_TIME_LIMIT,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    objectives: Annotated[
        list[str],
        typer.Option(
            metavar="NAMES",
            help="What to optimise: slowdown; completion, until jobs leave; or strict, heavier "
            "jobs first, with ,delay after it for the delay of all jobs alike; or, most important "
            "first and separated by commas, of "
            f"{', '.join(OBJECTIVES)}; or all, in the order of docs/model.md; or a weighted sum, "
            "contention=1/2,wait=1/2.",
        ),
    ] = [SLOWDOWN],  # noqa: B006 (it is only read)
    stretch_limit: options.StretchLimit = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help=f"{options.NETWORKS} Of several the first counts; expected times of the others "
            "are columns.",
            show_default="that of FILE",
        ),
    ] = None,
    max_loss: options.MaxLoss = None,
    tolerance: options.Tolerance = None,
    cushion_slots: options.CushionSlots = 0,
    move_cost: Annotated[
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
    sharing: Annotated[list[str] | None, typer.Option("--sharing", hidden=True)] = None,
) -> int:
    """Choose places, offsets and gated jobs; print iteration times.

    The mean slowdown of the jobs, as simulated, is minimised. Jobs of a scenario that do not say
    where they run are placed. With stretch among the objectives periods are stretched as well.
    """
    objective = _objective(objectives)
    networks = read_names(options.network_of(network, sharing) or ())
    for each in networks:
        check_network(each)
    moves = None
    if move_cost is not None:
        from metronome_opt.cli.moves import Moves

        moves = Moves.read(file, move_cost)
    source = options.read_source(file) if moves is None else moves.source
    check_targets([file], [output, plot])
    options.check_outputs(plot, claims)
    named = error_context(file, ScenarioError)
    with live_line(f"{source.name}: {solver}", describe_event) as callback, named:
        result, failure = _run(
            source,
            solver,
            objective,
            time_limit=time_limit,
            stop=callback or (),
            seed=seed,
            workers=workers,
            stretch_limit=stretch_limit,
            network=networks[0] if networks else None,
            max_loss=options.max_loss_of(max_loss, tolerance),
            cushion_slots=cushion_slots,
        )
    if moves is not None and moves.moves:
        there = {"places": {job.name: job.nodes for job in moves.source.jobs}}
        result = replace(result, schedule=result.schedule.model_copy(update=there))
    outputs = Outputs(output, plot, claims, as_json)
    status = show_result(result, source, outputs, networks[1:], moves)
    if failure is not None:
        kept = "is printed; --output writes it" if output is None else f"is kept in {output}"
        raise CustomSolverError(f"{failure}; its best schedule {kept}") from failure.__cause__
    return status


class Outputs(NamedTuple):
    """Files that are asked for, and whether JSON is printed."""

    schedule: Path | None
    plot: Path | None
    claims: Path | None
    as_json: bool


def show_result(
    result: Result,
    source: Scenario | Instance,
    outputs: Outputs,
    networks: Sequence[str] = (),
    moves: Moves | None = None,
) -> int:
    """Print and write a result, with times on further networks; return the exit status."""
    places = result.schedule.places
    problem = build_problem(source, places, result.schedule.paths)
    problem = replace(problem, places=places)
    for each in problem.notes:
        note(each)
    if outputs.schedule is not None:
        write_schedule(result.schedule, outputs.schedule)
    if outputs.plot is not None:
        from metronome_opt.plot import plot_result, save_figure

        with live_line(f"drawing {outputs.plot}", str):
            save_figure(plot_result(result), outputs.plot)
    if outputs.as_json:
        print_json({**result.schedule.to_dict(), **(moves.to_dict() if moves else {})})
    else:
        if moves is not None:
            moves.print()
        _print_result(result, problem, source, networks)
    wrote(outputs.schedule, outputs.plot)
    if outputs.claims is not None:
        from metronome_opt.cli.claims import note_missing_nodes
        from metronome_opt.kubernetes import export_claims

        with live_line(f"writing {outputs.claims}", str):
            export_claims(problem.instance, result.schedule, problem.deployment, outputs.claims)
        wrote(outputs.claims)
        note_missing_nodes(problem)
    return options.INTERRUPTED if result.stop is StopReason.INTERRUPTED else 0


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


def _print_result(
    result: Result, problem: PlacedInstance, source: Scenario | Instance, networks: Sequence[str]
) -> None:
    """Print a result, and times that are expected on further networks."""
    from metronome_opt.allocation.slots.iteration_times import IterationTimes
    from metronome_opt.output.tables import (
        CUSHION_LEGEND,
        gated_text,
        jobs_legend,
        jobs_table,
        objectives_table,
        select_jobs,
        terminal,
    )

    instance, longer = result.instance, result.schedule.cushion_slots
    by_simulation = find_objective(result.schedule.first).simulated
    console = terminal()
    with live_line("simulating the jobs", str):
        times = IterationTimes.of(result)
        elsewhere = {
            each: IterationTimes.expected(instance, result.schedule, each) for each in networks
        }
    jobs = select_jobs(instance, times)
    console.print(jobs_table(instance, result.schedule, times, problem.placed, jobs, elsewhere))
    if len(jobs) < len(instance.jobs):
        count = pluralise(len(instance.jobs), "job")
        console.print(f"{len(jobs)} of {count}, most affected; all with --output or --json")
    console.print(jobs_legend(instance, result.schedule))
    if isinstance(source, Scenario) and result.schedule.waiting:
        from metronome_opt.allocation.scenario_search import reasons

        for name, reason in reasons(source, result.schedule.places or {}).items():
            typer.echo(f"{name} waits: {reason}")
    typer.echo(gated_text(instance, result.schedule, times))
    typer.echo(result.summary())
    if not _is_stated(result):
        for number, level in enumerate(result.levels, start=1):
            typer.echo(f"{number}. {level}")
    if longer:
        typer.echo(f"all values are those of longer bursts, by {pluralise(longer, 'slot')}")
    if not by_simulation:
        # The unshifted values; unknown where jobs have to be stretched first.
        before = None
        if not instance.needs_stretch:
            before = evaluate(instance, instance.unshifted, longer=longer)
        console.print(objectives_table(before, result.evaluation))
        console.print(CUSHION_LEGEND)
    for each in result.notes:
        note(each)


def _is_stated(result: Result) -> bool:
    """Return True if the summary has the value of the one objective, and that it is proved."""
    stated = (result.schedule.first, result.status is Status.OPTIMAL)
    return [(level.name, level.proved) for level in result.levels] == [stated]
