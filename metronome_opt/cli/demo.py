"""``metronome demo``: what placement brings, and what windows bring, on two shipped scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from metronome_opt.cli import options
from metronome_opt.cli.progress import live_line
from metronome_opt.files.documents import make_folder
from metronome_opt.problem.result import ProgressEvent

if TYPE_CHECKING:
    from metronome_opt.problem.instance import Instance
    from metronome_opt.problem.result import Result
    from metronome_opt.scenario import Scenario

Times = Mapping[str, Mapping[str, Fraction]]
"""Iteration times in ms, by column and job."""

_NEXT = """next: metronome init mine.yaml; metronome allocate mine.yaml    a cluster of your own
      metronome report {} --output page.html    offsets to turn by hand"""


def demo(
    output: options.ResultsFolder = Path("demo-output"),
    time_limit: options.TimeLimit = 10.0,
    seed: options.Seed = 0,
) -> int:
    """Allocate two shipped scenarios: tables, figures, claims.

    Six jobs on eight nodes gain by placement: spread, on the nearest nodes, and as `allocate`
    places them. Four equal jobs on shared uplinks gain by windows. Files of an earlier demo are
    replaced.
    """
    from metronome_opt.kubernetes import export_claims
    from metronome_opt.plot import plot_change, plot_placements, save_figure
    from metronome_opt.scenario import build_scenario, locate, read_scenario, spread
    from metronome_opt.scenario.build import build_problem

    make_folder(output)
    small, fleet = (read_scenario(locate(Path(name))) for name in ("eight-nodes", "fleet"))
    files = [output / name for name in ("schedule.json", "fleet.json")]
    placed, gated = (
        _allocate(source, file, time_limit, seed)
        for source, file in zip((small, fleet), files, strict=True)
    )
    near = _times(placed)
    times = {"spread": _ungated(build_scenario(spread(small)).instance), **near}
    _print_times("eight-nodes: six jobs on eight nodes, by placement", times, placed.instance)
    gain = _times(gated)
    columns = {"without windows": gain["nearest"], "with windows": gain["allocated"]}
    _print_times("\nfleet: four equal jobs, two on each uplink", columns, gated.instance)
    drawn = {name: {job: float(ms) for job, ms in by.items()} for name, by in times.items()}
    save_figure(plot_placements(drawn), output / "placements.svg")
    save_figure(plot_change(gated), output / "windows.svg")
    problem = build_problem(fleet, None, gated.schedule.paths)
    export_claims(problem.instance, gated.schedule, problem.deployment, output / "claims")
    pictures = "pictures placements.svg, windows.svg"
    typer.echo(f"wrote {output}: {pictures}; schedule.json, fleet.json, claims", err=True)
    typer.echo(_NEXT.format(files[1]))
    return 0


def _allocate(source: Scenario, file: Path, time_limit: float, seed: int) -> Result:
    """Allocate a scenario and write its schedule, once every number in it is verified."""
    from metronome_opt.api import allocate
    from metronome_opt.errors import SolverError
    from metronome_opt.problem.schedule import write_schedule
    from metronome_opt.scenario.verification import verify_placed

    title = f"{source.name}: placing jobs and choosing windows"
    with live_line(title, ProgressEvent.describe) as callback:
        result = allocate(source, time_limit=time_limit, seed=seed, stop=callback or ())
    if violations := verify_placed(source, result.schedule)[1]:
        raise SolverError(f"{source.name}: the schedule is false: {violations[0]}")
    write_schedule(result.schedule, file)
    return result


def _times(result: Result) -> Times:
    """Return iteration times on the nearest nodes without windows, and under the schedule."""
    from metronome_opt.allocation.slots.iteration_times import IterationTimes

    times = IterationTimes.of(result)
    return {"nearest": times.first, "allocated": times.after}


def _ungated(instance: Instance) -> Mapping[str, Fraction]:
    from metronome_opt.allocation.slots.iteration_times import iteration_times
    from metronome_opt.allocation.slots.plan import Plan

    return iteration_times(instance, Plan(instance.unshifted))


def _print_times(title: str, times: Times, instance: Instance) -> None:
    """Print iteration times by job, and the mean slowdown below them."""
    from metronome_opt.allocation.slots.plan import mean_slowdown
    from metronome_opt.output.tables import plain_table, terminal
    from metronome_opt.problem.objectives import format_number

    rows = [
        [job.name, *(format_number(by.get(job.name)) for by in times.values())]
        for job in instance.jobs
    ]
    means = (mean_slowdown(instance, by) for by in times.values())
    rows.append(["mean slowdown", *(format_number(mean, 3) for mean in means)])
    typer.echo(f"{title}; ms per iteration, simulated")
    terminal().print(plain_table(["job", *times], rows))
