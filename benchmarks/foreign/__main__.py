"""``python -m benchmarks.foreign [ARCHIVE] [--output FILE]``: decide a data set, and say how."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from benchmarks.foreign.decide import DATA_SETS, decide, table
from metronome_opt.bench.process import find_commit
from metronome_opt.errors import InputError

_PSCP = DATA_SETS["pscp"]


def main(
    archive: Annotated[str, typer.Argument(help="Where the data set lies.")] = _PSCP.default_path,
    output: Annotated[Path | None, typer.Option(help="A CSV line for each instance.")] = None,
) -> None:
    """Decide which resources of PSCP fit."""
    try:
        outcomes = list(decide(_PSCP.cases(archive)))
    except InputError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(error.exit_status) from None
    if output is not None:
        pd.DataFrame(asdict(each) for each in outcomes).to_csv(output, index=False)
    typer.echo(f"{_PSCP.home_page} ({_PSCP.licence}), commit {find_commit()}")
    typer.echo(pd.DataFrame(table(outcomes)).T.round(3).to_string())
    for each in outcomes:
        if each.outcome == "open":
            typer.echo(f"open: {each.group}, {each.instance}, {each.jobs} jobs, {each.load:.2f}")


if __name__ == "__main__":
    typer.run(main)
