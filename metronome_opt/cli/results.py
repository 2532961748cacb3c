"""Results on the terminal and in files, as `solve` and `allocate` leave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from metronome_opt.cli import options
from metronome_opt.cli.options import note, print_json, wrote
from metronome_opt.cli.progress import live_line
from metronome_opt.errors import pluralise
from metronome_opt.files.records import FrozenDict
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import find_objective
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.problem.schedule import Status, write_schedule
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import build_problem
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from metronome_opt.allocation.slots.iteration_times import IterationTimes
    from metronome_opt.cli.moves import Moves
    from metronome_opt.scenario.placed_instance import Deployment


_ENDS = {
    StopReason.FINISHED: ": {} has nothing left to try",
    StopReason.TIME_LIMIT: ": a longer --time-limit may find more",
}


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
        from metronome_opt.plot import save_figure

        with live_line(f"drawing {outputs.plot}", str):
            save_figure(draw_result(result), outputs.plot)
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


def draw_result(result: Result) -> Figure:
    """Draw what a result changes: iteration times where it states them, or the demand on links."""
    from metronome_opt.plot import plot_change, plot_overview

    is_simulated = find_objective(result.schedule.primary_objective).simulated
    return (plot_change if is_simulated else plot_overview)(result)


def _print_result(
    result: Result, problem: PlacedInstance, source: Scenario | Instance, networks: Sequence[str]
) -> None:
    """Print a result, and times that are expected on further networks."""
    from metronome_opt.allocation.slots.iteration_times import IterationTimes
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


def describe_jobs(
    result: Result,
    times: IterationTimes,
    placed: Deployment | None = None,
    elsewhere: Mapping[str, Mapping[str, Fraction]] = FrozenDict(),
) -> Iterator[Table | str]:
    """Yield the table of jobs and its legend."""
    from metronome_opt.output.tables import jobs_legend, jobs_table, select_jobs

    instance, jobs = result.instance, select_jobs(result.instance, times)
    yield jobs_table(instance, result.schedule, times, placed, jobs, elsewhere)
    if len(jobs) < len(instance.jobs):
        count = pluralise(len(instance.jobs), "job")
        yield f"{len(jobs)} of {count}, most affected; all with --output or --json"
    yield jobs_legend(instance, result.schedule, times)


def describe_gain(
    result: Result, source: Scenario | Instance, times: IterationTimes
) -> Iterator[Table | str]:
    """Yield what was gained and why not more, and what is proved."""
    from metronome_opt.output.tables import gain_text, objectives_table

    instance, cushion_slots = result.instance, result.schedule.cushion_slots
    yield gain_text(instance, result.schedule, times)
    yield from _obstacles(result, source, times)
    yield result.summary() + _ENDS.get(result.stop_reason, "").format(result.schedule.solver)
    if not _is_stated(result):
        for number, level in enumerate(result.levels, start=1):
            yield f"{number}. {level}"
    if cushion_slots:
        yield f"all values are those of longer bursts, by {pluralise(cushion_slots, 'slot')}"
    by_simulation = find_objective(result.schedule.primary_objective).simulated
    if not by_simulation and result.evaluation is not None:
        # The unshifted values; unknown where jobs have to be stretched first.
        before = None
        if not instance.needs_stretch:
            before = evaluate(instance, instance.unshifted, cushion_slots=cushion_slots)
        yield objectives_table(before, result.evaluation)


def _obstacles(result: Result, source: Scenario | Instance, times: IterationTimes) -> Iterator[str]:
    """Yield why jobs wait, or are slower than alone, and what to try."""
    from metronome_opt.allocation.scenario_search import reasons
    from metronome_opt.allocation.slots.obstacles import explain_obstacles

    schedule, stated = result.schedule, False
    if isinstance(source, Scenario):
        stated = schedule.places is None
        waiting = reasons(source, schedule.places or {}) if schedule.waiting else {}
        for name, reason in waiting.items():
            yield f"{name} waits: {reason}"
    yield from explain_obstacles(result.instance, schedule, times.after, stated_nodes=stated)


def _is_stated(result: Result) -> bool:
    """Return True if the summary has the value of the one objective, and that it is proved."""
    stated = (result.schedule.primary_objective, result.status is Status.OPTIMAL)
    return [(level.name, level.proved) for level in result.levels] == [stated]
