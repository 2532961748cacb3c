"""``python -m benchmarks.testbed run``: jobs on real networks; ``--help`` has the rest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.progress import Progress

from benchmarks.testbed.cases import STORED, read_cases
from benchmarks.testbed.network import check_machine
from benchmarks.testbed.run import BedError, BedRun, Mode, plan, run_case
from metronome_opt.errors import InputError, MetronomeError
from metronome_opt.journal import Journal

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def testbed() -> None:
    """Jobs on real networks, all of them on this machine."""


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; all if none is named.")] = None,
    cases: Annotated[Path, typer.Option(metavar="FILE", help="Where they stand.")] = STORED,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Records, JSON lines.")] = Path(
        "testbed.jsonl"
    ),
    modes: Annotated[str, typer.Option(help="Comma separated.")] = ",".join(get_args(Mode)),
    repeats: Annotated[int, typer.Option(min=1, help="How often each is run.")] = 3,
    side_by_side: Annotated[
        int, typer.Option(min=1, help="Networks at a time; too many disturb one another.")
    ] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where records end.")] = False,
) -> None:
    """Let the jobs of cases run, free and gated, and keep what happened.

    Runs that something else on this machine disturbed are marked as busy. What is already in the
    records is not run again, unless it was busy.
    """
    check_machine()
    chosen = read_cases(cases, names)
    wanted = _modes(modes)
    with Progress() as progress:
        journal = Journal(output, BedRun, resume=resume)
        done = {(each.case, each.mode, each.repeat) for each in journal.records if not each.busy}
        todo = [
            (case, mode, repeat)
            for repeat, case, mode in product(range(repeats), chosen, wanted)
            if (case.name, mode, repeat) not in done
        ]
        pairs = sorted({(case.name, mode) for case, mode, _ in todo})
        by_name = {case.name: case for case in chosen}
        offsets = {
            (name, mode): plan(by_name[name], mode)
            for name, mode in progress.track(pairs, description="offsets")
        }
        line = progress.add_task("runs", total=len(todo))
        with ThreadPoolExecutor(side_by_side) as pool:
            runs = {
                pool.submit(run_case, case, mode, repeat, offsets[case.name, mode]): (
                    f"{case.name}, {mode}, {repeat}"
                )
                for case, mode, repeat in todo
            }
            try:
                for future in as_completed(runs):
                    try:
                        journal.append(future.result())
                    except BedError as error:
                        progress.console.print(f"{runs[future]}: {error}", markup=False)
                    progress.advance(line)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    busy = sum(each.busy for each in journal.records)
    typer.echo(f"{output}: {len(journal.records)} runs, {busy} of them on a busy machine")


def _modes(text: str) -> list[Mode]:
    known: dict[str, Mode] = {mode: mode for mode in get_args(Mode)}
    for name in text.split(","):
        if name not in known:
            raise InputError(f"--modes: {name}: choose from {', '.join(known)}")
    return [known[name] for name in text.split(",")]


def main() -> int:
    """Run a command; a user's mistake is one line and status 2."""
    try:
        app(standalone_mode=False)
    except MetronomeError as error:
        typer.echo(str(error), err=True)
        return error.exit_status
    except typer.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
