"""``metronome pareto``: the front of two or three objectives, as files, a table and a picture."""

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

from metronome_opt.cli import options
from metronome_opt.cli.options import note, print_json, read_names, read_pairs, wrote
from metronome_opt.cli.progress import live_line
from metronome_opt.documents import check_targets, make_folder, write_text
from metronome_opt.errors import InputError, MetronomeError, MissingBackendError, counted
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.front import Front, FrontEvent, FrontMemory
from metronome_opt.multiobjective.goals import exact
from metronome_opt.multiobjective.pareto import DEFAULT_TIME_LIMIT
from metronome_opt.multiobjective.pareto import pareto as find_front
from metronome_opt.objectives import BY_NAME, CUSHION, check_names
from metronome_opt.report.tables import CUSHION_LEGEND, front_table, terminal
from metronome_opt.result import Stop
from metronome_opt.schedule import OBJECTIVES, read_schedule, write_schedule
from metronome_opt.solving import solve

Values = Mapping[str, Fraction | None]

BASELINES = ("greedy", "cassini", "unshifted")
_REFERENCE = "unshifted"
_TABLE, _PICTURE, _MEMORY = "front.csv", "front.svg", "front.json"
_POINT = re.compile(r"point-[0-9]{3,}\.json")


def pareto(
    file: options.Problem,
    objectives: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"What to optimise, separated by commas: of {', '.join(OBJECTIVES)}.",
        ),
    ] = "contention,latency",
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = Path("front"),
    plot: Annotated[
        Path | None, typer.Option(help="Draw the front here as well (.svg, .png or .pdf).")
    ] = None,
    time_limit: options.TimeLimit = DEFAULT_TIME_LIMIT,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    epsilon: options.Epsilon = None,
    cushion_slots: options.CushionSlots = 0,
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate", help="Of three objectives, take what is found in time, however large."
        ),
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="As bad as matters, for the hypervolume.",
            show_default="what is so if nobody is shifted",
        ),
    ] = None,
    hyperperiod_limit: options.Limit = options.LIMIT,
    as_json: options.Json = False,
) -> int:
    """Find the schedules of FILE of which none is as good as another in every objective.

    Writes a schedule for each, front.csv and front.svg to DIR; where periods are kept, also
    front.json, by which the same command goes on where it was interrupted.
    """
    names = read_names(objectives)
    limits = read_pairs("--epsilon", epsilon)
    given = _read_reference(reference, names)
    if plot is not None:
        from metronome_opt.plot import check_suffix

        check_suffix(plot)
    instance = options.read_problem(file, hyperperiod_limit).instance
    with _results_folder(output):
        written = [output / name for name in (_TABLE, _PICTURE, _MEMORY)]
        points = [output / file.name] if _POINT.fullmatch(file.name) else []
        check_targets([file], [*written, *points, plot])
        memory = FrontMemory(output / _MEMORY, instance, names, cushion_slots)
        with live_line(f"{instance.name}: front of {', '.join(names)}", _describe) as callback:
            front = find_front(
                instance,
                names,
                time_limit=time_limit,
                seed=seed,
                workers=workers,
                epsilon=limits,
                cushion_slots=cushion_slots,
                approximate=approximate,
                memory=memory,
                callback=callback,
            )
    notes = [*memory.notes, *front.notes]
    files = _write_points(front, output)
    others, left_out = _baselines(instance, cushion_slots, seed)
    at, share, missing = _hypervolume(front, given, others)
    notes += [*left_out, *missing]
    with live_line("drawing", str):
        pictures = _draw(front, others, at, [output / _PICTURE, *([] if plot is None else [plot])])
    if as_json:
        print_json(_document(front, files, others, at, share, notes))
    else:
        _print(front, files)
        if at is not None and share is not None:
            point = ", ".join(f"{name} {BY_NAME[name].format(value)}" for name, value in at.items())
            source = "" if given else f" ({_REFERENCE})"
            typer.echo(f"hypervolume {share:.4f} of the box from 0 to {point}{source}")
    memorised = output / _MEMORY
    wrote(output / _TABLE, *pictures, memorised if memorised.exists() else None)
    if not as_json:
        for each in notes:
            note(each)
    if front.stop is Stop.INTERRUPTED:
        return options.INTERRUPTED
    return 0 if front.points else 1


def _describe(event: FrontEvent) -> str:
    return f"{event.done} of {event.parts} parts, {event.points} points"


def _read_reference(text: str | None, names: Sequence[str]) -> dict[str, Fraction]:
    """Return the reference point as far as it is given."""
    given = read_pairs("--reference", text)
    if given:
        check_names(list(given), "--reference")
    for name in given:
        if name not in names:
            raise InputError(
                f"--reference: {name} is not on the axes; the objectives are {', '.join(names)}"
            )
    values = {name: exact(f"--reference {name}", value) for name, value in given.items()}
    for name, value in values.items():
        if value <= 0:
            raise InputError(f"--reference {name}: must be positive, got {given[name]}")
    return values


# ------------------------------------------------------------------ files


@contextmanager
def _results_folder(folder: Path) -> Iterator[None]:
    """Make a folder; one that was made for nothing is taken away again."""
    is_new = not folder.exists()
    make_folder(folder)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):  # it holds what an interrupted search begins with
                folder.rmdir()
        raise


def _write_points(front: Front, folder: Path) -> list[Path]:
    """Write the points and their table; points of an earlier front are removed."""
    files = [folder / f"point-{number:03}.json" for number in range(1, len(front.points) + 1)]
    for point, file in zip(front.points, files, strict=True):
        write_schedule(point, file)
    write_text(folder / _TABLE, _csv(front, files))
    for path in sorted(folder.iterdir()):
        if _POINT.fullmatch(path.name) and path not in files and _is_schedule(path):
            path.unlink()
    return files


def _is_schedule(path: Path) -> bool:
    try:
        read_schedule(path)
    except InputError:
        return False
    return True


def _csv(front: Front, files: Sequence[Path]) -> str:
    """Return one row per point: number, file, every objective exactly and as a float."""
    names = dict.fromkeys((*front.objectives, *OBJECTIVES))
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


def _draw(
    front: Front,
    others: Mapping[str, Values],
    reference: Mapping[str, Fraction] | None,
    paths: Sequence[Path],
) -> list[Path]:
    """Draw the front; return where. Without a point there is nothing to draw."""
    from metronome_opt.plot import plot_front, save_figure

    if not front.points:
        return []
    figure = plot_front(front, others=others, reference=reference)
    for path in paths:
        save_figure(figure, path)
    return list(paths)


# ------------------------------------------------------------------ comparison


def _baselines(
    instance: Instance, cushion_slots: int, seed: int
) -> tuple[dict[str, Values], list[str]]:
    """Return what other solvers come to, and why some are left out."""
    if instance.needs_stretch:
        return {}, [f"{', '.join(BASELINES)} are left out: they do not stretch jobs"]
    found: dict[str, Values] = {}
    notes = []
    for name in BASELINES:
        try:
            result = solve(instance, name, "contention", seed=seed, cushion_slots=cushion_slots)
            found[name] = result.schedule.objectives
        except MetronomeError as error:
            notes.append(f"{name} is left out: {error}")
    return found, notes


def _hypervolume(
    front: Front, given: Mapping[str, Fraction], others: Mapping[str, Values]
) -> tuple[dict[str, Fraction] | None, float | None, list[str]]:
    """Return the reference point, the hypervolume, and why there is none."""
    at: dict[str, Fraction] = {}
    unshifted = others.get(_REFERENCE, {})
    for name in front.objectives:
        # Nobody is left unshifted for the sake of a cushion: it is not what would be enough.
        value = given.get(name) or (None if BY_NAME[name].maximised else unshifted.get(name))
        if value:
            at[name] = value
            continue
        if BY_NAME[name].maximised:
            why = f"how much {name} matters is not known"
        else:
            so = "0" if _REFERENCE in others else "not known"
            why = f"the {name} of the {_REFERENCE} schedule is {so}"
        return None, None, [f"no hypervolume: {why}; say --reference {name}=VALUE"]
    try:
        return at, front.hypervolume(at), []
    except MissingBackendError as error:
        return at, None, [str(error)]


# ------------------------------------------------------------------ print-out


def _print(front: Front, files: Sequence[Path]) -> None:
    kind = "complete" if front.complete else "not proved complete"
    typer.echo(
        f"{front.instance.name}: front of {', '.join(front.objectives)}: "
        f"{counted(len(front.points), 'point')}, {kind}, "
        f"{front.runtime_s:.2f} s ({front.stop})"
    )
    if front.points:
        if slots := front.points[0].cushion_slots:
            typer.echo(f"all values are those of longer bursts, by {counted(slots, 'slot')}")
        terminal().print(front_table(front, [str(file) for file in files]))
        if CUSHION in front.objectives:
            terminal().print(CUSHION_LEGEND)


def _document(
    front: Front,
    files: Sequence[Path],
    others: Mapping[str, Values],
    reference: Mapping[str, Fraction] | None,
    share: float | None,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return everything for programs; exact numbers are text."""
    return {
        "instance": front.instance.name,
        "objectives": list(front.objectives),
        "complete": front.complete,
        "stop": str(front.stop),
        "runtime_s": round(front.runtime_s, 6),
        "points": [
            {"schedule": str(file), "objectives": _texts(point.objectives)}
            for point, file in zip(front.points, files, strict=True)
        ],
        "hypervolume": share,
        "reference": None if reference is None else _texts(reference),
        "others": {name: _texts(values) for name, values in others.items()},
        "notes": list(notes),
    }


def _texts(values: Mapping[str, Fraction | None]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in values.items()}
