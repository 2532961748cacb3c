"""``python -m benchmarks.testbed run``: jobs on real networks; ``--help`` has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import pandas as pd
import typer
from rich.progress import Progress, track

from benchmarks.testbed import agreement
from benchmarks.testbed.agreement import come_apart, figures, slowdowns, usable
from benchmarks.testbed.cases import STORED, Case, read_cases
from benchmarks.testbed.network import check_machine
from benchmarks.testbed.pictures import Bursts, draw_agreement, draw_bursts
from benchmarks.testbed.run import BedError, BedRun, Mode, plan, run_case
from benchmarks.testbed.simulated import play_case
from metronome_opt.documents import make_folder
from metronome_opt.errors import InputError, MetronomeError, show
from metronome_opt.journal import Journal, read_journal
from metronome_opt.plot.save import save_figure
from metronome_opt.simulate.conditions import Sharing

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture

RECORDS = Path(__file__).parent / "records.jsonl.xz"

_SHARING: tuple[Sharing, ...] = ("fair", "tcp")
_WORST = 8
_TABLE = ("pair-80-36-38", "three-80-24", "mixed-60-60-120", "over-60-60-120-120")
_TABLE_MODES: tuple[Mode, ...] = ("free", "gated")

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
    records is not run again, unless it was busy or a job ended before its time.
    """
    chosen = read_cases(cases, names)
    wanted = _modes(modes)
    check_machine()
    journal = Journal(output, BedRun, resume=resume)
    with Progress() as progress:
        done = {(each.case, each.mode, each.repeat) for each in usable(journal.records)}
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


@app.command()
def compare(
    records: Annotated[Path, typer.Argument(help="Of `run`; may be compressed (.xz).")] = RECORDS,
    cases: Annotated[Path, typer.Option(metavar="FILE", help="Where the cases stand.")] = STORED,
    split: Annotated[Literal["test", "tuning"], typer.Option(help="Which cases.")] = "test",
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Put tables and pictures here.")
    ] = None,
) -> None:
    """Hold the simulator against what was recorded, under both ways of sharing."""
    chosen = [case for case in read_cases(cases) if case.split == split]
    runs = _usable_runs(records, chosen, get_args(Mode))
    tables: dict[str, pd.DataFrame] = {
        sharing: agreement.compare(chosen, runs, sharing) for sharing in _SHARING
    }
    for sharing, table in tables.items():
        typer.echo(f"sharing {sharing}: how far mean iteration times are off ({split} cases)")
        typer.echo(figures(table, ["mode"]).round(4).to_string())
        typer.echo(figures(table, ["congestion"]).round(4).to_string())
        typer.echo(figures(table.assign(all=""), ["all"]).round(4).to_string() + "\n")
    tcp = tables["tcp"]
    worst = tcp.loc[tcp["error"].abs().sort_values(ascending=False).index[:_WORST]]
    typer.echo("the worst:\n" + worst.round(3).to_string(index=False) + "\n")
    apart = come_apart(chosen, runs)
    if not apart.empty:
        typer.echo("iterations until jobs that fit have come apart:")
        typer.echo(apart.round(2).to_string(index=False))
    if output is not None:
        make_folder(output)
        for sharing, table in tables.items():
            table.to_csv(output / f"{sharing}.csv", index=False, float_format="%.4f")
        apart.to_csv(output / "apart.csv", index=False, float_format="%.2f")
        title = f"Mean iteration times of {split} cases"
        save_figure(draw_agreement(tables, title=title), output / "agreement.svg")
        for name, mode in dict.fromkeys(zip(worst["case"], worst["mode"], strict=True)):
            figure = _draw_case(chosen, runs, name, [mode])
            save_figure(figure, output / f"{name}-{mode}.svg")
        typer.echo(f"wrote {output}")


@app.command()
def table(
    records: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of `run`; otherwise the cases are run.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the bursts of one case.")
    ] = None,
) -> None:
    """Show what gates bring on a network and what the simulator says, for four cases."""
    chosen = read_cases(STORED, list(_TABLE))
    if records is None:
        check_machine()
        runs = [
            run_case(case, mode, 0, plan(case, mode))
            for case, mode in track([*product(chosen, _TABLE_MODES)], description="runs")
        ]
    else:
        runs = _usable_runs(records, chosen, _TABLE_MODES)
    shown = slowdowns(chosen, runs)
    typer.echo(shown.map(lambda value: f"{value:+.1%}").to_string())
    if picture is not None:
        save_figure(_draw_case(chosen, runs, _TABLE[1], _TABLE_MODES), picture)
        typer.echo(f"wrote {picture}")


def _usable_runs(records: Path, cases: Sequence[Case], modes: Sequence[Mode]) -> list[BedRun]:
    """Read the undisturbed runs of some cases in some modes."""
    jobs = {case.name: case.job_names for case in cases}
    runs = [
        run
        for run in usable(read_journal([records], BedRun))
        if run.case in jobs and run.mode in modes
    ]
    if not runs:
        raise InputError(f"{records}: has no undisturbed run of any of the {len(cases)} cases")
    for run in runs:
        if sorted(run.jobs) != jobs[run.case]:
            raise InputError(f"{records}: {show(run.case)} is another case there, with other jobs")
    return runs


def _draw_case(
    cases: Sequence[Case], runs: Sequence[BedRun], name: str, modes: Sequence[Mode]
) -> Picture:
    """Draw the bursts of one run of a case in each mode, as sent and as simulated."""
    case = next(case for case in cases if case.name == name)
    panels: dict[str, Bursts] = {}
    for mode in modes:
        run = next((run for run in runs if (run.case, run.mode) == (name, mode)), None)
        if run is None:
            raise InputError(f"there is no undisturbed run of {show(name)}, {mode}, to draw")
        panels[f"{mode}, on the network"] = {
            job: [(begin, end) for _, begin, end in seen.bursts_ms]
            for job, seen in run.jobs.items()
        }
        played = play_case(case, mode, run.offsets, "tcp", 0, bursts=True)
        panels[f"{mode}, simulated"] = {job: seen.bursts_ms for job, seen in played.items()}
    until = 12 * max(job.period for job in case.jobs)
    return draw_bursts(panels, title=f"{name}, {case.congestion}", until_ms=until)


def _modes(text: str) -> list[Mode]:
    known: dict[str, Mode] = {mode: mode for mode in get_args(Mode)}
    for name in text.split(","):
        if name not in known:
            raise InputError(f"--modes: {name}: choose from {', '.join(known)}")
    return [known[name] for name in text.split(",")]


def main() -> int:
    """Run a command; a user's mistake is one line and status 2."""
    usage_error: Any = typer.BadParameter.__base__
    try:
        return int(app(standalone_mode=False) or 0)
    except usage_error as error:
        typer.echo(" ".join(error.format_message().split()), err=True)
        return 2
    except MetronomeError as error:
        typer.echo(str(error), err=True)
        return error.exit_status
    except (typer.Abort, KeyboardInterrupt):
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
