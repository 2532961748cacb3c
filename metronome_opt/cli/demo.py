"""``metronome demo``: the shipped scenario through the whole package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.cli.options import wrote
from metronome_opt.cli.solve import solve
from metronome_opt.cli.verify import verify
from metronome_opt.documents import make_folder, write_text
from metronome_opt.instance import write_instance
from metronome_opt.scenario import load

SCENARIO = Path("paper-24")


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = Path("demo-output"),
    time_limit: options.TimeLimit = 10.0,
    seed: options.Seed = 0,
) -> int:
    """Schedule the shipped scenario of 24 nodes: tables, figure, claims.

    Contention is minimised: all jobs have slots. Files of an earlier demo are replaced.
    """
    problem = load(SCENARIO)
    make_folder(output)
    instance, schedule = output / "instance.json", output / "schedule.json"
    status = solve(
        SCENARIO,
        objectives="contention",
        time_limit=time_limit,
        seed=seed,
        output=schedule,
        plot=output / "overview.svg",
        claims=output / "claims",
    )
    write_instance(problem.instance, instance)
    write_text(output / "traffic.csv", problem.traffic_frame().to_csv(float_format="%.6g"))
    wrote(instance, output / "traffic.csv")
    return verify(instance, schedule) or status
