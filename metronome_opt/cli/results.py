"""Results on the terminal and in files, as `solve` and `allocate` leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from metronome_opt.cli import options
from metronome_opt.cli.options import note, print_json, wrote
from metronome_opt.cli.progress import live_line
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.problem.schedule import write_schedule
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import build_problem
from metronome_opt.scenario.placed_instance import PlacedInstance

if TYPE_CHECKING:
    from metronome_opt.cli.moves import Moves


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
    for text in problem.notes:
        note(text)
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
    return options.INTERRUPTED if result.stop_reason is StopReason.INTERRUPTED else 0


def _print_result(
    result: Result, problem: PlacedInstance, source: Scenario | Instance, networks: Sequence[str]
) -> None:
    """Print a result, and times that are expected on further networks."""
    from metronome_opt.allocation.slots.iteration_times import IterationTimes
    from metronome_opt.output.descriptions import describe_gain, describe_jobs
    from metronome_opt.output.tables import terminal

    with live_line("simulating the jobs", str):
        times = IterationTimes.of(result)
        elsewhere = {
            network: IterationTimes.expected(result.instance, result.schedule, network)
            for network in networks
        }
    console = terminal()
    parts = (
        *describe_jobs(result, times, problem.placed, elsewhere),
        *describe_gain(result, source, times),
    )
    for part in parts:
        typer.echo(part) if isinstance(part, str) else console.print(part)
    for text in result.notes:
        note(text)
