"""``metronome demo``: the shipped scenarios through the whole package."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import typer

from metronome_opt.cli import options
from metronome_opt.cli.allocate import allocate
from metronome_opt.cli.options import wrote
from metronome_opt.cli.verify import verify
from metronome_opt.files.documents import make_folder

SMALL, LARGE = Path("eight-nodes"), Path("paper-24")

Times = Mapping[str, Mapping[str, Fraction]]
"""Iteration times in ms, by placement and job."""


def demo(
    output: options.ResultsFolder = Path("demo-output"),
    time_limit: options.TimeLimit = 10.0,
    seed: options.Seed = 0,
) -> int:
    """Place and schedule the shipped scenarios: tables, figure, claims.

    First eight nodes and six jobs, spread, nearest and as `allocate` places them; then 24 nodes on
    which 13 jobs have their places. Files of an earlier demo are replaced.
    """
    from metronome_opt.plot import plot_placements, save_figure

    make_folder(output)
    schedule, figure = output / "schedule.json", output / "placements.svg"
    status = allocate(
        SMALL, time_limit=time_limit, seed=seed, output=schedule, claims=output / "claims"
    )
    times = _times(schedule)
    _print_times(times)
    drawn = {name: {job: float(ms) for job, ms in by.items()} for name, by in times.items()}
    save_figure(plot_placements(drawn), figure)
    wrote(figure)
    checked = verify(SMALL, schedule)
    typer.echo(
        f"\n{LARGE}: at the given places of its 13 jobs not all bursts can be kept apart, "
        "so few jobs are gated"
    )
    return checked or status or allocate(LARGE, time_limit=time_limit, seed=seed)


def _times(schedule: Path) -> Times:
    """Return iteration times spread, nearest, and under a schedule."""
    from metronome_opt.allocation.scenario_search import nearest
    from metronome_opt.allocation.slots.iteration_times import iteration_times
    from metronome_opt.allocation.slots.plan import Plan
    from metronome_opt.problem.schedule import read_schedule
    from metronome_opt.scenario import build_scenario, locate, read_scenario, spread

    stated = read_schedule(schedule).expected_ms
    asked = read_scenario(locate(SMALL))
    plain = {"spread": build_scenario(spread(asked)), "nearest": nearest(asked)}
    times = {
        name: iteration_times(problem.instance, Plan(problem.instance.unshifted))
        for name, problem in plain.items()
    }
    return times if stated is None else {**times, "allocated": stated}  # None: no time to simulate


def _print_times(times: Times) -> None:
    from metronome_opt.output.tables import plain_table, terminal
    from metronome_opt.problem.objectives import format_number

    rows = [
        [job, *(format_number(by[job]) if job in by else "waits" for by in times.values())]
        for job in times["spread"]
    ]
    typer.echo("\niterations in ms, simulated, by placement")
    terminal().print(plain_table(["job", *times], rows))
