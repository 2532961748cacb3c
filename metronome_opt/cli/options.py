"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.instance import HYPERPERIOD_LIMIT
from metronome_opt.schedule import OBJECTIVES
from metronome_opt.solvers import DEFAULT_TIME_LIMIT, MAX_WORKERS

_FILE = "An instance or a scenario, JSON or YAML, or the name of a shipped scenario."
Problem = Annotated[Path, typer.Argument(metavar="FILE", help=_FILE)]
InstanceFile = Annotated[Path, typer.Argument(metavar="INSTANCE", help=_FILE)]
ScheduleFile = Annotated[Path, typer.Argument(metavar="SCHEDULE", help="A schedule file.")]
TimeLimit = Annotated[float, typer.Option(min=0, help="Seconds, model building included.")]
Seed = Annotated[int, typer.Option(min=0, help="For everything that is random.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, max=MAX_WORKERS, help="Threads of the back end.", show_default="one per core"
    ),
]
Limit = Annotated[
    int,
    typer.Option(
        "--hyperperiod-limit", min=1, help="Refuse links whose pattern repeats after more slots."
    ),
]
Objectives = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help=f"What to optimise, separated by commas: of {', '.join(OBJECTIVES)}.",
    ),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=VALUE,...",
        help="The most that objectives may come to; of a cushion the least.",
        show_default="none",
    ),
]
CushionSlots = Annotated[
    int,
    typer.Option(min=0, metavar="G", help="Reserve: solve with every burst longer by G slots."),
]
Json = Annotated[bool, typer.Option("--json", help="Print for programs.")]
Group = Annotated[str, typer.Option(help="API group of the claims.")]
Namespace = Annotated[str, typer.Option(help="Namespace of the claims.")]

TIME_LIMIT = DEFAULT_TIME_LIMIT
LIMIT = HYPERPERIOD_LIMIT
GROUP = "metronome.x-k8s.io"
NAMESPACE = "default"
