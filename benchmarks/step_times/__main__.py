"""``python -m benchmarks.step_times [DATA] [--output FOLDER]``: predicted and measured steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.program import run_program
from benchmarks.step_times.compare import (
    forms_table,
    outliers_table,
    placements_table,
    predict,
)
from benchmarks.step_times.measurements import read_steps
from benchmarks.step_times.prediction import TESTBEDS
from metronome_opt.bench.process import find_commit
from metronome_opt.files.documents import make_folder

_DATA = Path("../shared/data")


def main(
    data: Annotated[Path, typer.Argument(help="Folder with sia/ and muri/.")] = _DATA,
    output: Annotated[Path | None, typer.Option(help="A CSV file for each table.")] = None,
) -> None:
    """Compare the steps of Sia and Muri with predictions from the step on one GPU."""
    steps = read_steps(data)
    typer.echo(f"commit {find_commit()}")
    for testbed in TESTBEDS.values():
        typer.echo(f"{testbed.name}: {testbed.source}")
    predictions = predict(steps)
    tables = {
        "overlap": forms_table(steps),
        "placements": placements_table(predictions),
        "outliers": outliers_table(predictions),
    }
    for name, table in tables.items():
        typer.echo(f"\n{name}\n{table.round(3).to_string(index=False)}")
        if output is not None:
            make_folder(output)
            table.to_csv(output / f"step-times-{name}.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    run_program(main)
