"""``python -m benchmarks.foreign [ARCHIVE] [--output FILE]``: decide a data set, and say how."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from benchmarks.foreign.decide import Outcome, decide, table
from benchmarks.foreign.pscp import ARCHIVE, HOME_PAGE, read_cases
from benchmarks.program import run_program
from metronome_opt.bench.process import find_commit


def main(
    archive: Annotated[str, typer.Argument(help="Where the data set lies.")] = ARCHIVE,
    output: Annotated[
        Path | None, typer.Option(help="A line of JSON for each instance; goes on from there.")
    ] = None,
) -> None:
    """Decide which resources of PSCP fit."""
    known: list[Outcome] = []
    if output is not None and output.exists():
        known = [Outcome(**json.loads(line)) for line in output.read_text().splitlines()]
    outcomes = list(known)
    for each in decide(read_cases(archive), known):
        outcomes.append(each)
        if output is not None:
            with output.open("a") as file:
                file.write(f"{json.dumps(asdict(each))}\n")
    typer.echo(f"{HOME_PAGE}, commit {find_commit()}")
    typer.echo(pd.DataFrame(table(outcomes)).T.round(3).to_string())
    for each in outcomes:
        if each.outcome == "open":
            typer.echo(f"open: {each.group}, {each.instance}, {each.jobs} jobs, {each.load:.2f}")


if __name__ == "__main__":
    run_program(main)
