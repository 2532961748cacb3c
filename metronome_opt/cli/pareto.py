"""``metronome pareto``: a front of two objectives as schedule files, a table and a figure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from metronome_opt.allocation.arguments import ScenarioError
from metronome_opt.api import DEFAULT_FRONT_LIMIT
from metronome_opt.api import pareto as find_front
from metronome_opt.cli import options
from metronome_opt.cli.options import note, print_json, read_names, wrote
from metronome_opt.cli.progress import live_line
from metronome_opt.errors import InputError, error_context
from metronome_opt.files.documents import check_targets, make_folder, write_text
from metronome_opt.output.descriptions import describe_front
from metronome_opt.output.tables import terminal
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import OBJECTIVES, read_schedule, write_schedule
from metronome_opt.solvers.multiobjective.front import Front, FrontEvent

_TABLE, _PICTURE = "front.csv", "front.svg"
_POINT = re.compile(r"point-[0-9]{3,}\.json")


def pareto(
    file: options.Problem,
    objectives: Annotated[
        list[str],
        typer.Option(
            metavar="NAMES",
            help="Two, separated by a comma: slowdown,delay; or of contention, latency, stretch, "
            "stretch.",
        ),
    ] = ["contention,latency"],  # noqa: B006 (it is only read)
    output: options.ResultsFolder = Path("front"),
    time_limit: options.TimeLimit = DEFAULT_FRONT_LIMIT,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    network: options.Network = None,
    max_loss: options.MaxLoss = None,
    cushion_slots: options.CushionSlots = 0,
    as_json: options.Json = False,
) -> int:
    """Find the Pareto front of FILE for two objectives.

    Writes a schedule for each point, front.csv and front.svg to DIR.
    """
    from metronome_opt.plot import plot_front, save_figure

    names = read_names(objectives)
    problem = options.read_source(file)
    with _results_folder(output):
        points = [output / file.name] if _POINT.fullmatch(file.name) else []
        check_targets([file], [output / _TABLE, output / _PICTURE, *points])
        named = error_context(file, ScenarioError)
        proved = 0

        def describe(event: FrontEvent) -> str:
            nonlocal proved
            proved += len(event.proved)
            return f"{event.describe()}, {proved:,} proved"

        with live_line(f"{problem.name}: front", describe) as callback, named:
            if callback is not None:
                callback(FrontEvent(0.0, 0, 1, 0))
            front = find_front(
                problem,
                names,
                time_limit=time_limit,
                seed=seed,
                threads=threads,
                network=network,
                max_loss=max_loss,
                cushion_slots=cushion_slots,
                callback=callback,
            )
    files = _write_points(front, output)
    with live_line("drawing", str):
        save_figure(plot_front(front), output / _PICTURE)
    if as_json:
        print_json(_document(front, files))
    else:
        console = terminal()
        for part in describe_front(front, files):
            typer.echo(part) if isinstance(part, str) else console.print(part)
    wrote(output / _TABLE, output / _PICTURE)
    if not as_json:
        for text in front.notes:
            note(text)
    return options.INTERRUPTED if front.stop is StopReason.INTERRUPTED else 0


# ------------------------------------------------------------------ files


@contextmanager
def _results_folder(folder: Path) -> Iterator[None]:
    """Make a folder; a new one is removed again after an error."""
    is_new = not folder.exists()
    make_folder(folder)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise


def _write_points(front: Front, folder: Path) -> list[Path]:
    """Write the points and their table; remove points of an earlier front."""
    files = [folder / f"point-{number:03}.json" for number in range(1, len(front.points) + 1)]
    for point, file in zip(front.points, files, strict=True):
        write_schedule(point, file)
    write_text(folder / _TABLE, _csv(front, files))
    for path in sorted(folder.iterdir()):
        if _POINT.fullmatch(path.name) and path not in files:
            with suppress(InputError):  # of a file that is no schedule
                read_schedule(path)
                path.unlink()
    return files


def _csv(front: Front, files: Sequence[Path]) -> str:
    """Return one row per point: number, file, and its objectives exactly and as floats."""
    stated = (
        name for name in OBJECTIVES if all(name in point.objectives for point in front.points)
    )
    names = dict.fromkeys((*front.objectives, *stated))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    headings = [heading for name in names for heading in (name, f"{name}_float")]
    writer.writerow(["point", "schedule", *headings])
    for number, (point, file) in enumerate(zip(front.points, files, strict=True), start=1):
        values = [point.objectives[name] for name in names]
        cells = [cell for value in values for cell in _cells(value)]
        writer.writerow([number, file.name, *cells])
    return text.getvalue()


def _cells(value: Fraction | None) -> tuple[str, str]:
    return ("no limit", "inf") if value is None else (str(value), repr(float(value)))


# ------------------------------------------------------------------ output


def _document(front: Front, files: Sequence[Path]) -> dict[str, Any]:
    """Return the front as JSON; exact numbers are text."""
    return {
        "instance": front.instance.name,
        "objectives": list(front.objectives),
        "complete": front.complete,
        "open_intervals": [
            {"low": _text(interval.low), "high": _text(interval.high)}
            for interval in front.open_intervals
        ],
        "stop": str(front.stop),
        "runtime_s": round(front.runtime_s, 6),
        "points": [
            {"schedule": str(file), "objectives": _texts(point.objectives)}
            for point, file in zip(front.points, files, strict=True)
        ],
        "notes": list(front.notes),
    }


def _texts(values: Mapping[str, Fraction | None]) -> dict[str, str | None]:
    return {name: _text(value) for name, value in values.items()}


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)
