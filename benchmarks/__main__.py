"""``python -m benchmarks list | run | generate | best-known``; ``--help`` says what each does."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import benchmarks.jitter
import benchmarks.measured
import benchmarks.placement
import benchmarks.simulation  # noqa: F401 (they register themselves)
from benchmarks.best_known import read_best_known, take_over, write_update
from benchmarks.families import FAMILIES
from benchmarks.program import make_app, run_app
from benchmarks.registry import BENCHMARKS, RESULTS, Figure
from benchmarks.stored import SUITES, differences, write_suite
from metronome_opt.bench.process import describe_machine, find_commit
from metronome_opt.bench.solver_runs import read_records
from metronome_opt.bench.suites import read_suite
from metronome_opt.errors import pluralise
from metronome_opt.plugins import find_versions

app = make_app()


@app.command("list")
def list_() -> None:
    """Show the benchmarks and what each one answers."""
    table = Table("name", "question", box=None)
    for name, entry in BENCHMARKS.items():
        table.add_row(name, entry.question)
    Console().print(table)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help="All of them if none is named.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Little data, once: does it still work?")
    ] = False,
) -> None:
    """Run benchmarks, print their figures and keep them in benchmarks/results."""
    unknown = set(names or ()) - set(BENCHMARKS)
    if unknown:
        raise typer.BadParameter(f"{sorted(unknown)[0]}; choose from {', '.join(BENCHMARKS)}")
    console = Console()
    result: dict[str, list[Figure]] = {}
    for name in names or BENCHMARKS:
        console.print(f"[bold]{name}[/bold]: {BENCHMARKS[name].question}")
        table = Table("figure", "value", "unit", "bar", "", box=None, padding=(0, 2))
        result[name] = list(BENCHMARKS[name].run(once))
        for figure in result[name]:
            verdict = {None: "", True: "holds", False: "MISSED"}[figure.holds]
            shown = f"{figure.value:,.2f}" if figure.value < 1000 else f"{figure.value:,.0f}"
            table.add_row(figure.name, shown, figure.unit, figure.bar, verdict)
        console.print(table)
    if not once:
        console.print(f"kept in {_keep(result)}")


@app.command()
def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if a stored file differs.")
    ] = False,
) -> None:
    """Write all stored instances anew, from their generators and seeds."""
    console = Console()
    faults = []
    for family in FAMILIES.values():
        if check:
            faults += differences(family)
        else:
            write_suite(family)
        console.print(f"{family.name}: {pluralise(len(family.cases), 'instance')}")
    for fault in faults:
        console.print(fault, style="red")
    if faults:
        raise typer.Exit(1)
    console.print("all as generated" if check else f"written to {SUITES}")


@app.command("best-known")
def best_known(
    records: Annotated[list[Path], typer.Argument(help="Files of records, JSON lines.")],
    update: Annotated[
        bool, typer.Option("--update", help="Store the better values; else only print them.")
    ] = False,
) -> None:
    """Compare campaigns with the best known values and bounds; exit 1 if one cannot be right."""
    console = Console(soft_wrap=True)
    suites = [read_suite(SUITES / name) for name in FAMILIES]
    result = take_over(read_best_known(), read_records(records), suites)
    if update:
        write_update(result)
    for line in result.better:
        console.print(line, markup=False)
    for line in result.refused:
        console.print(f"refused: {line}", style="red", markup=False)
    outcome = "stored" if update else "better; --update stores them"
    console.print(
        f"{pluralise(len(result.better), 'instance')} {outcome}, "
        f"{pluralise(len(result.refused), 'record')} refused"
    )
    if result.refused:
        raise typer.Exit(1)


def _keep(result: dict[str, list[Figure]]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"figures-{time.strftime('%Y%m%d-%H%M%S')}.json"
    record = {
        "command": "python -m benchmarks " + " ".join(sys.argv[1:]),
        "commit": find_commit(),
        "machine": describe_machine(),
        "versions": find_versions(["llvmlite"]),
        "figures": {
            name: [figure._asdict() for figure in figures] for name, figures in result.items()
        },
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


if __name__ == "__main__":
    run_app(app)
