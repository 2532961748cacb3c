"""Arguments and options that several commands share, with functions that read and print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metronome_opt.errors import InputError, error_context, quote

if TYPE_CHECKING:
    from metronome_opt.problem.instance import Instance
    from metronome_opt.problem.schedule import Schedule
    from metronome_opt.scenario import Scenario
    from metronome_opt.scenario.placed_instance import PlacedInstance

FILE = (
    "An instance or a scenario, JSON or YAML, the name of a shipped scenario, or the file of a "
    "cluster's state."
)
Problem = Annotated[Path, typer.Argument(metavar="FILE", help=FILE)]
InstanceFile = Annotated[Path, typer.Argument(metavar="INSTANCE", help=FILE)]
ScheduleFile = Annotated[Path, typer.Argument(metavar="SCHEDULE", help="A schedule file.")]
State = Annotated[
    Path, typer.Argument(metavar="STATE", help="File that holds the state of a cluster.")
]
ScheduleOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the schedule here (JSON).")
]
TextOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write here.", show_default="standard output"),
]
ResultsFolder = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
]
ClaimsFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write claims to this folder, as manifests.")
]
MemoryLimit = Annotated[
    int,
    typer.Option(min=1, metavar="MB", help="Limit of a process of a case or simulation."),
]
TimeLimit = Annotated[float, typer.Option(min=0, help="Seconds, model building included.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads of the back end.", show_default="one per core"),
]
CushionSlots = Annotated[
    int,
    typer.Option(min=0, metavar="G", help="Slots added to every burst."),
]
NETWORKS = (
    "Sharing of links: fair (RoCE, short queues), tcp (deep queues), weighted or "
    "strict by priority, or gated jobs first."
)
Network = Annotated[str | None, typer.Option(help=NETWORKS, show_default="that of FILE")]
MaxLoss = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Largest loss of a job against all jobs ungated: 5%.",
        show_default="2%",
    ),
]
StretchLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Largest stretch of a gated job, as a share of its period: 20%; 0 for none.",
        show_default="as far as it pays",
    ),
]
PlotOutput = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw before and after here (.svg, .png or .pdf)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
GpuResources = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A resource or a device class that counts as GPUs; may be repeated.",
        show_default="accelerators that are known",
    ),
]
Namespace = Annotated[str, typer.Option(help="Namespace of the claims.")]

NAMESPACE = "default"

INTERRUPTED = 130
"""The exit status after Ctrl-C."""


# ------------------------------------------------------------------ what is typed


def read_names(typed: Sequence[str]) -> list[str]:
    """Return the names in ``a,b,c`` of all occurrences of an option, without empty ones."""
    return [name.strip() for text in typed for name in text.split(",") if name.strip()]


def read_pairs(option: str, typed: Sequence[str] | None) -> dict[str, str]:
    """Return the values by name in ``a=1,b=2`` of all occurrences of an option, as text.

    An `InputError` if a piece is not ``name=value``, or a name is given two values.
    """
    pairs: dict[str, str] = {}
    for piece in ",".join(typed).split(",") if typed else ():
        name, _, value = (part.strip() for part in piece.partition("="))
        if not name or not value:
            raise InputError(f"{option}: {quote(piece)} is not name=value; write name=value,...")
        if pairs.setdefault(name, value) != value:
            raise InputError(
                f"{option}: {quote(name)} is given as {quote(pairs[name])} and as {quote(value)}; "
                "give one of the two"
            )
    return pairs


def read_source(path: Path, schedule: Schedule | None = None) -> Scenario | Instance:
    """Read an instance or a scenario, or the state of a cluster as a scenario.

    Jobs of a state are where a schedule moves them.
    """
    from metronome_opt.files.documents import is_database

    if is_database(path):
        from metronome_opt.kubernetes.state.scenario import read_state

        return read_state(path, None if schedule is None else schedule.places)
    from metronome_opt.scenario.scenario_file import read_source

    return read_source(path)


def read_problem(path: Path) -> PlacedInstance:
    """Read a problem, with jobs at their nearest placements, and print the notes on it."""
    from metronome_opt.allocation.arguments import ScenarioError
    from metronome_opt.api import load

    with error_context(path, ScenarioError):
        problem = load(read_source(path))
    for remark in problem.notes:
        note(remark)
    return problem


def check_outputs(plot: Path | None = None, claims: Path | None = None) -> None:
    """Refuse a figure of an unknown format, and a folder that holds no claims."""
    if plot is not None:
        from metronome_opt.plot import check_suffix

        check_suffix(plot)
    if claims is not None:
        from metronome_opt.kubernetes import check_folder

        check_folder(claims)


# ------------------------------------------------------------------ what is printed


def print_json(document: Any) -> None:
    """Print a document as JSON."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def print_or_write(text: str, output: Path | None) -> None:
    """Write text to a file, or to standard output if there is none."""
    if output is None:
        typer.echo(text, nl=False)
    else:
        from metronome_opt.files.documents import write_text

        write_text(output, text)
        wrote(output)


def note(text: str) -> None:
    """Print a note to standard error."""
    typer.echo(f"note: {text}", err=True)


def wrote(*paths: Path | None) -> None:
    """Print to standard error the paths that were written; None stands for no output."""
    for path in paths:
        if path is not None:
            typer.echo(f"wrote {path}", err=True)
