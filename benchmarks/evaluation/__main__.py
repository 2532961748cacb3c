"""``python -m benchmarks.evaluation run | write``; ``--help`` says what each does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.evaluation.plan import (
    HOME,
    SMALL_SEEDS,
    Part,
    Race,
    read_plan,
    run_part,
    run_race,
)
from benchmarks.evaluation.recorded import (
    RECORDS,
    Entry,
    read_index,
    record_part,
    restore_part,
)
from benchmarks.evaluation.written import write_figures
from benchmarks.program import make_app, run_app
from metronome_opt.bench.simulations import FILE
from metronome_opt.bench.solver_runs import read_records
from metronome_opt.errors import InputError

app = make_app()
_ROUNDS = (1, 2, 5, 10, 15, 20)  # seeds that all parts have before any has more
_console = Console(soft_wrap=True)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Parts; all if left out.")] = None,
    small: Annotated[bool, typer.Option("--small", help="Few cells, few seeds.")] = False,
    traces: Annotated[
        Path | None,
        typer.Option(help="Folder of arrivals: sia/newtrace-1.csv, muri/trace3.csv."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Simulations at once.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="At most.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder of simulations.", show_default="below build"),
    ] = None,
) -> None:
    """Run what is not there yet, a few seeds of all parts first, and keep the records.

    What is interrupted goes on with the same command.
    """
    parts = _chosen(names, traces)
    folder = output or HOME / "build" / ("evaluation-small" if small else "evaluation")
    records = folder / "records" if small else RECORDS
    studies = {name: part for name, part in parts.items() if isinstance(part, Part)}
    most = seeds or max([SMALL_SEEDS if small else part.seeds for part in studies.values()] or [1])
    for each in sorted({most, *(count for count in _ROUNDS if count < most)}):
        before = read_index(records)
        for name, part in studies.items():
            count = min(each, part.seeds)
            restore_part(name, folder / name / FILE, records)
            found = run_part(
                name,
                part,
                folder / name,
                seeds=count,
                small=small,
                traces=traces,
                width=jobs or os.cpu_count() or 1,
            )
            entry, planned = before.parts.get(name), part.planned(small=small)
            last = max(record.started for record in found)
            if entry is None or (entry.last, entry.left) != (last, planned - len(found)):
                command = f"python -m benchmarks.evaluation run {name}" + " --small" * small
                _tell(name, record_part(name, found, [command], planned, records))
        if read_index(records) != before:
            write_figures(records)
    for name, race in parts.items():
        if isinstance(race, Race):
            path = folder / f"{name}.jsonl"
            lines = run_race(race, path, small=small)
            cases = read_records([path])
            _tell(name, record_part(name, cases, lines, len(cases), records))
    write_figures(records)
    _console.print(f"kept in {records}")


def _tell(name: str, entry: Entry) -> None:
    _console.print(
        f"{name}: {entry.records:,} records in {entry.seconds / 3600:.2f} h, {entry.left:,} left"
    )


@app.command()
def write() -> None:
    """Write figures, tables and the numbers in documents anew, from the records."""
    for path in write_figures(RECORDS):
        _console.print(str(path.relative_to(HOME)))


@app.command("left")
def left_() -> None:
    """Say what is recorded, what is left, and how long that takes."""
    index = read_index().parts
    total = 0.0
    for name, part in read_plan().items():
        entry = index.get(name)
        if entry is not None:
            done, left = entry.records, entry.left
            hours = left * entry.seconds / entry.records / 3600
        elif isinstance(part, Part):
            done, left, hours = 0, part.planned(), part.estimated_s() / 3600
        else:
            done, left, hours = 0, part.planned(), part.planned() * part.time_limit / 2 / 3600
        total += hours
        _console.print(f"{name}: {done:,} recorded, {left:,} left, {hours:.2f} h of one core")
    _console.print(f"together {total:.1f} h of one core")


def _chosen(names: list[str] | None, traces: Path | None) -> Mapping[str, Part | Race]:
    parts = read_plan()
    for name in names or ():
        if name not in parts:
            raise InputError(f"{name}: is no part; choose from {', '.join(parts)}")
    chosen = {name: part for name, part in parts.items() if not names or name in names}
    for name, part in list(chosen.items()):
        if (
            isinstance(part, Part)
            and part.trace
            and (traces is None or not (traces / part.trace).is_file())
        ):
            _console.print(f"{name}: left out; --traces names no folder that has {part.trace}")
            del chosen[name]
    return chosen


if __name__ == "__main__":
    run_app(app)
