"""``python -m paper generate | list | results | record``; ``--help`` says what each does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from metronome_opt.errors import InputError
from paper.campaigns import SEEDS, plan, run_all
from paper.catalogue import FIGURES, TABLES, Recorded
from paper.generate import FOLDER, differences, generate_home, write_generated
from paper.prose import HOME
from paper.recorded import (
    Entry,
    read_index,
    record_benchmarks,
    record_solvers,
    record_study,
)

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
Commands = Annotated[
    list[str], typer.Option("--command", help="What made them; say it again for several.")
]
Files = Annotated[list[Path], typer.Argument(help="Files of records.")]


@app.command("generate")
def generate_(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if a file is not up to date.")
    ] = False,
) -> None:
    """Make macros, tables and figures that the text uses of what is recorded."""
    found, recorded = generate_home()
    if check:
        faults = list(differences(found, HOME / FOLDER))
        for fault in faults:
            _console().print(f"{FOLDER}/{fault}", style="red", markup=False)
        raise typer.Exit(bool(faults))
    write_generated(found, recorded, HOME / FOLDER)
    for each in found.missing:
        _console().print(f"nothing is recorded of {each}", style="red", markup=False)
    counts = f"{len(found.texts) - 1} tables, {len(found.figures)} figures"
    _console().print(f"written to {HOME / FOLDER}: macros, {counts}", markup=False)


@app.command("list")
def list_() -> None:
    """Print all macros with their values, tables and figures."""
    recorded = Recorded()
    for name, text in sorted(recorded.numbers.items()):
        _console().print(f"\\{name} {'not recorded' if text is None else text}", markup=False)
    for kind, names in (("table", TABLES), ("figure", FIGURES)):
        for name in names:
            _console().print(f"{kind} {name}", markup=False)


@app.command()
def results(
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Only say what runs and how long it takes.")
    ] = False,
) -> None:
    """Make all recorded results anew, after saying how long it takes.

    What is interrupted goes on with the same command.
    """
    for line in plan(read_index()):
        _console().print(line, markup=False)
    if not plan_only:
        run_all(HOME.parent)


record = typer.Typer(no_args_is_help=True, help="Take over records that were made elsewhere.")
app.add_typer(record, name="record")


@record.command("solvers")
def _solvers(files: Files, command: Commands) -> None:
    """Take over files of `metronome bench run`."""
    _tell(record_solvers(files, command))


@record.command("study")
def _study(
    name: Annotated[str, typer.Argument(help=f"Of the study, such as {next(iter(SEEDS))}.")],
    files: Files,
    command: Commands,
) -> None:
    """Take over files of `metronome simulate`."""
    _tell(record_study(name, files, command))


@record.command("benchmarks")
def _benchmarks(files: Files) -> None:
    """Take over files of `python -m benchmarks run`."""
    for path in files:
        for entry in record_benchmarks(path):
            _tell(entry)


def _tell(entry: Entry) -> None:
    _console().print(f"{entry.file}: {entry.records:,} records of {', '.join(entry.commits)}")


def _console() -> Console:
    return Console(soft_wrap=True)


if __name__ == "__main__":
    try:
        app()
    except InputError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), style="red", markup=False)
        raise SystemExit(error.exit_status) from None
