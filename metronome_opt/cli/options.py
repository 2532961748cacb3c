"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.instance import HYPERPERIOD_LIMIT
from metronome_opt.solvers import DEFAULT_TIME_LIMIT

Problem = Annotated[
    Path, typer.Argument(metavar="FILE", help="An instance or a scenario, JSON or YAML.")
]
InstanceFile = Annotated[
    Path, typer.Argument(metavar="INSTANCE", help="An instance or a scenario, JSON or YAML.")
]
ScheduleFile = Annotated[Path, typer.Argument(metavar="SCHEDULE", help="A schedule file.")]
TimeLimit = Annotated[
    float, typer.Option(min=0, help="Seconds for each solver, model building included.")
]
Seed = Annotated[int, typer.Option(min=0, help="For everything that is random.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Threads of the back end.", show_default="one per core")
]
Limit = Annotated[
    int,
    typer.Option(
        "--hyperperiod-limit", min=1, help="Refuse links whose pattern repeats after more slots."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print for programs.")]
Group = Annotated[str, typer.Option(help="API group of the claims.")]
Namespace = Annotated[str, typer.Option(help="Namespace of the claims.")]

TIME_LIMIT = DEFAULT_TIME_LIMIT
LIMIT = HYPERPERIOD_LIMIT
GROUP = "metronome.x-k8s.io"
NAMESPACE = "default"
