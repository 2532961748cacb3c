"""``python -m benchmarks.testbed run``: jobs on real networks; ``--help`` has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Annotated, get_args

import pandas as pd
import typer
from rich.progress import Progress, track

from benchmarks.program import make_app, run_app
from benchmarks.testbed import agreement
from benchmarks.testbed.agreement import come_apart, figures, quality, slowdowns, steady, usable
from benchmarks.testbed.cases import JITTER, QUEUES, STORED, TABLE, Case, Congestion, read_cases
from benchmarks.testbed.lasting import cell_of, cells, compare_gated
from benchmarks.testbed.meeting import meetings, refitted
from benchmarks.testbed.modes import USUAL, Mode, plan
from benchmarks.testbed.network import check_machine
from benchmarks.testbed.pictures import draw_agreement, draw_apart, draw_case
from benchmarks.testbed.placed import summary
from benchmarks.testbed.run import BedError, BedRun, one_processor, run_case
from metronome_opt.engine.conditions import TcpShares
from metronome_opt.errors import InputError, quote
from metronome_opt.files.documents import make_folder
from metronome_opt.files.journal import Journal, read_journal
from metronome_opt.output.figures.picture import save_figure
from metronome_opt.problem.instance import Sharing

RECORDS = Path(__file__).parent / "records.jsonl.xz"
QUEUE_RECORDS = Path(__file__).parent / "queues.jsonl.xz"

_SHARING: tuple[Sharing, ...] = ("fair", "tcp")
_WORST = 8
_SPREADS = (0.1, 0.2, 0.3, 0.4)
_NEWCOMERS = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0)
_TABLE_MODES: tuple[Mode, ...] = ("free", "gated")

_USUAL: list[str] = [*USUAL]
_MODES: list[str] = [*get_args(Mode)]
app = make_app()


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
    modes: Annotated[list[str], typer.Option(help="Comma separated.")] = _USUAL,
    repeats: Annotated[int, typer.Option(min=1, help="How often each is run.")] = 3,
    side_by_side: Annotated[
        int, typer.Option(min=1, help="Networks at a time; too many disturb one another.")
    ] = 1,
    jitter: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Of computing times.", show_default="that of each case"),
    ] = None,
    seconds: Annotated[
        int | None, typer.Option(min=1, help="Length of runs.", show_default="that of each case")
    ] = None,
    congestion: Annotated[
        Congestion | None, typer.Option(help="Of TCP.", show_default="that of each case")
    ] = None,
    uplink_mbps: Annotated[
        int | None, typer.Option(min=1, help="Rate of uplinks.", show_default="that of each case")
    ] = None,
    queue_ms: Annotated[
        int | None, typer.Option(min=1, help="Queue of uplinks.", show_default="that of each case")
    ] = None,
    processor: Annotated[
        int | None, typer.Option(help="Keep to it; clocks stand still while it is stopped.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where records end.")] = False,
) -> None:
    """Let the jobs of cases run, free and gated, and keep what happened.

    Runs that something else on this machine disturbed are marked as busy. What is already in the
    records is not run again, unless it was busy or a job ended before its time.
    """
    changes = {
        "jitter": jitter,
        "seconds": seconds,
        "congestion": congestion,
        "uplink_mbps": uplink_mbps,
        "queue_ms": queue_ms,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    stated = read_cases(cases, names)
    chosen = [case.model_copy(update=changes) for case in stated]
    wanted = _modes(modes)
    check_machine()
    journal = Journal(output, BedRun, resume=resume)
    with Progress() as progress:
        before = cells(stated, usable(journal.records))
        done = {(cell, run.mode, run.repeat) for cell, runs in before.items() for run in runs}
        todo = [
            (case, mode, repeat)
            for repeat, case, mode in product(range(repeats), chosen, wanted)
            if (cell_of(case), mode, repeat) not in done
        ]
        pairs = sorted({(case.name, mode) for case, mode, _ in todo})
        by_name = {case.name: case for case in chosen}
        plans = {
            (name, mode): plan(by_name[name], mode)
            for name, mode in progress.track(pairs, description="offsets")
        }
        line = progress.add_task("runs", total=len(todo))
        keep = nullcontext() if processor is None else one_processor(processor)
        with keep, ThreadPoolExecutor(side_by_side) as pool:
            runs = {
                pool.submit(run_case, case, mode, repeat, plans[case.name, mode]): (
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
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Put tables and pictures here.")
    ] = None,
) -> None:
    """Hold the simulator against what was recorded of test cases, under both ways of sharing."""
    chosen = [case for case in read_cases(cases) if case.split == "test"]
    runs = _usable_runs(records, chosen)
    tables: dict[str, pd.DataFrame] = {
        sharing: agreement.compare(chosen, runs, sharing) for sharing in _SHARING
    }
    for sharing, table in tables.items():
        typer.echo(f"sharing {sharing}: how far mean iteration times are off")
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
        title = "Mean iteration times of test cases"
        save_figure(draw_agreement(tables, title=title), output / "agreement.svg")
        for name, mode in dict.fromkeys(zip(worst["case"], worst["mode"], strict=True)):
            case = next(case for case in chosen if case.name == name)
            save_figure(draw_case(case, runs, [mode]), output / f"{name}-{mode}.svg")
        typer.echo(f"wrote {output}")


@app.command()
def table() -> None:
    """Run four cases free and gated; show what gates bring, and what the simulator says."""
    check_machine()
    chosen = read_cases(STORED, list(TABLE))
    runs = []
    for case, mode in track([*product(chosen, _TABLE_MODES)], description="runs"):
        planned = plan(case, mode)
        run = run_case(case, mode, 0, planned)
        runs.append(run_case(case, mode, 1, planned) if run.busy else run)
        if runs[-1].busy:
            typer.echo(f"note: {case.name}, {mode}: disturbed by something else", err=True)
    kept = [run for run in runs if run.complete]
    if not kept:
        raise BedError("no run went to its end")
    typer.echo(slowdowns(chosen, kept).map("{:+.1%}".format).to_string())


@app.command()
def places(
    records: Annotated[Path, typer.Argument(help="Of `run` on placed.yaml; may be compressed.")],
) -> None:
    """Show the slowdown of clusters whose jobs are spread, at the nearest nodes, and solved."""
    runs = usable(read_journal([records], BedRun))
    for sharing in (None, *_SHARING):
        typer.echo("on the network" if sharing is None else f"simulated, {sharing}")
        typer.echo(summary(runs, sharing).round(3).to_string())


@app.command()
def lasting(
    records: Annotated[Path, typer.Argument(help="Of `run`; may be compressed (.xz).")],
    cases: Annotated[Path, typer.Option(metavar="FILE", help="Where the cases stand.")] = JITTER,
    modes: Annotated[list[str], typer.Option(help="Comma separated.")] = _MODES,
) -> None:
    """Show free and gated jobs in the course of a run, and means by whether bursts fit."""
    chosen, wanted = read_cases(cases), _modes(modes)
    runs = [run for run in steady(read_journal([records], BedRun)) if run.mode in wanted]
    for sharing in (None, *_SHARING):
        typer.echo("on the network" if sharing is None else f"simulated, {sharing}")
        shown = compare_gated(chosen, runs, sharing)
        typer.echo(shown.round(3).to_string())
        both = shown[shown["free"].notna() & shown["gated"].notna()].groupby("fits")
        parts = [f"{mode}{end}" for mode in ("free", "gated") for end in ("", ", first", ", last")]
        typer.echo(both[parts].mean().assign(cases=both.size()).round(3).to_string())


@app.command()
def queues(
    records: Annotated[
        Path, typer.Argument(help="Of `run` on queues.yaml; may be compressed (.xz).")
    ] = QUEUE_RECORDS,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw when jobs come apart.")
    ] = None,
) -> None:
    """Show how jobs come apart on links with other queues, and the shares of bursts that meet."""
    chosen = read_cases(QUEUES)
    read = read_journal([records], BedRun)
    runs = steady(read)
    typer.echo(f"{len(runs)} of {len(read)} runs; on the network")
    order = ["case", "congestion", "uplink_mbps", "queue_ms"]
    typer.echo(compare_gated(chosen, runs, None).sort_values(order).round(3).to_string())
    cubic = [run for run in runs if run.congestion == "cubic"]
    anywhere = {"uplink_mbps": None, "queue_ms": None}
    once = {(run.case, run.mode): run.model_copy(update=anywhere) for run in cubic}.values()
    tables = {sharing: compare_gated(chosen, once, sharing) for sharing in _SHARING}
    for sharing, table in tables.items():
        typer.echo(f"simulated, {sharing}, whatever the queue")
        typer.echo(table.drop(columns=order[1:]).round(3).to_string())
    met = meetings(chosen, runs).sort_values(order)
    typer.echo("bursts that meet\n" + met.round(2).to_string())
    slow = met[(met["congestion"] == "cubic") & (met["uplink_mbps"] == 200)]
    chance, delay = refitted(slow)
    typer.echo(f"cubic, 200 Mbit/s: chance {chance:.2f}, delay {delay:.1f}")
    if picture is not None:
        simulated = dict(zip(tables["tcp"]["case"], tables["tcp"]["apart"], strict=True))
        save_figure(draw_apart(chosen, runs, met, simulated), picture)
        typer.echo(f"wrote {picture}")


@app.command()
def fit(
    records: Annotated[Path, typer.Argument(help="Of `run`; may be compressed (.xz).")] = RECORDS,
    cases: Annotated[Path, typer.Option(metavar="FILE", help="Where the cases stand.")] = STORED,
) -> None:
    """Show how near `tcp` sharing comes on the tuning cases for a grid of its two numbers."""
    chosen = [case for case in read_cases(cases) if case.split == "tuning"]
    runs = _usable_runs(records, chosen)
    grid = [TcpShares(*pair) for pair in product(_SPREADS, _NEWCOMERS)]
    rows = [quality(chosen, runs, tcp) for tcp in track(grid, description="grid")]
    typer.echo(pd.DataFrame(rows).round(4).to_string(index=False))


def _usable_runs(records: Path, cases: Sequence[Case]) -> list[BedRun]:
    """Read the undisturbed runs of some cases."""
    jobs = {case.name: case.job_names for case in cases}
    runs = [run for run in usable(read_journal([records], BedRun)) if run.case in jobs]
    if not runs:
        raise InputError(f"{records}: has no undisturbed run of any of the {len(cases)} cases")
    for run in runs:
        if sorted(run.jobs) != jobs[run.case]:
            raise InputError(f"{records}: {quote(run.case)} is another case there, with other jobs")
    return runs


def _modes(typed: Sequence[str]) -> list[Mode]:
    known: dict[str, Mode] = {mode: mode for mode in get_args(Mode)}
    names = ",".join(typed).split(",")
    for name in names:
        if name not in known:
            raise InputError(f"--modes: {name}: choose from {', '.join(known)}")
    return [known[name] for name in names]


if __name__ == "__main__":
    run_app(app)
