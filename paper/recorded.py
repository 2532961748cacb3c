"""Records of the paper: compressed files, and an index of their origins."""

from __future__ import annotations

import hashlib
import lzma
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from metronome_opt.bench.simulations import SimulationRecord, latest
from metronome_opt.bench.solver_runs import SolverRecord, read_records
from metronome_opt.documents import make_folder, read_document, staged, write_text
from metronome_opt.errors import InputError, counted
from metronome_opt.journal import dump_line, read_journal
from metronome_opt.records import Record, build, dump_document, read_as
from paper.subsample import (
    CASES_KEEP,
    FIGURES_KEEP,
    SIMULATIONS_KEEP,
    subsample_case,
    subsample_simulation,
)

RESULTS = Path(__file__).parent / "results"
INDEX = "index.json"
INDEX_FORMAT = "metronome-recorded/1"
SOLVERS = "solvers/records.jsonl.xz"
TEXTBOOK = {"cpsat-textbook": "benchmarks/textbook.py:cpsat"}
"""Functions that are solvers, by their names in records."""
STUDIES, BENCHMARKS = "studies", "benchmarks"

Words = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


class Entry(Record):
    """Where a recorded file comes from.

    Parameters
    ----------
    file
        Below the folder of the index.
    commands
        What made the records.
    commits, machines
        All that the records name.
    first, last
        When the first and the last of them began (UTC).
    records, seconds
        How many there are, and how long they took together; None where that is not known.
    kept
        What was left out of them, and by what rule.
    sha256
        Checksum of the file.
    """

    file: str
    commands: Words
    commits: Words
    machines: Words
    first: str
    last: str
    records: Annotated[int, Field(ge=1)]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    kept: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Index(Record):
    """The index of the recorded files, a document of format ``metronome-recorded/1``."""

    format: Literal["metronome-recorded/1"]
    files: Annotated[tuple[Entry, ...], Field(strict=False)] = ()


def read_index(folder: Path = RESULTS) -> Index:
    """Read the index; where there is none yet, nothing is recorded.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    if not (folder / INDEX).exists():
        return Index(format="metronome-recorded/1")
    return read_as(folder / INDEX, lambda document: build(Index, document, INDEX_FORMAT))


def solver_records(folder: Path = RESULTS) -> list[SolverRecord]:
    """Return the records of the campaign of solvers, none if it is not recorded.

    Raises
    ------
    InputError
        If the file cannot be read or is not the one that the index names.
    """
    return [
        record
        for path in _listed(folder, lambda file: file == SOLVERS)
        for record in read_journal([path], SolverRecord)
    ]


def simulation_records(study: str, folder: Path = RESULTS) -> list[SimulationRecord]:
    """Return the records of a study, none if it is not recorded; raises as `solver_records`."""
    return [
        record
        for path in _listed(folder, lambda file: file == study_file(study))
        for record in read_journal([path], SimulationRecord)
    ]


def benchmark_figures(folder: Path = RESULTS) -> dict[str, dict[str, float]]:
    """Return the figures of each recorded benchmark by name; raises as `solver_records`."""
    found: dict[str, dict[str, float]] = {}
    for path in _listed(folder, lambda file: file.startswith(f"{BENCHMARKS}/")):
        for name, figures in read_document(path)["figures"].items():
            found[name] = {figure["name"]: float(figure["value"]) for figure in figures}
    return found


def study_file(study: str) -> str:
    """Return the name of the file of a study, below the folder of the index."""
    return f"{STUDIES}/{study}.jsonl.xz"


def name_of(file: str) -> str:
    """Return the name of a recorded file without folder and suffixes: that of its study, say."""
    return Path(file).name.partition(".")[0]


# ------------------------------------------------------------------ recording


def record_solvers(paths: Iterable[Path], commands: Sequence[str], folder: Path = RESULTS) -> Entry:
    """Take over a campaign of solvers, in the place of what was recorded of it.

    Parameters
    ----------
    paths
        Files of ``metronome bench run``.
    commands
        Those that made them.

    Raises
    ------
    InputError
        If there are no records, a file is not one of records, or something cannot be written.
    """
    names = {solver: name for name, solver in TEXTBOOK.items()}
    records = [
        subsample_case(replace(record, solver=names.get(record.solver, record.solver)))
        for record in read_records(paths)
    ]
    return _take_over(folder, SOLVERS, commands, records, map(dump_line, records), CASES_KEEP)


def record_study(
    study: str, paths: Iterable[Path], commands: Sequence[str], folder: Path = RESULTS
) -> Entry:
    """Take over the simulations of a study; of a run that is there twice the last counts.

    Raises as `record_solvers`, and if a record is of another study.
    """
    records = [subsample_simulation(each) for each in latest(read_journal(paths, SimulationRecord))]
    strangers = {record.study for record in records} - {study}
    if strangers:
        raise InputError(f"records: are of the study {min(strangers)}, not of {study}")
    lines = map(dump_line, records)
    return _take_over(folder, study_file(study), commands, records, lines, SIMULATIONS_KEEP)


def record_benchmarks(path: Path, folder: Path = RESULTS) -> list[Entry]:
    """Take over what ``python -m benchmarks run`` kept, a file for each benchmark.

    Raises
    ------
    InputError
        If the file is not one of those, or something cannot be written.
    """
    document = read_document(path)
    try:
        figures, machine = document["figures"], document["machine"]
        commit, command = document["commit"], document["command"]
    except KeyError as error:
        raise InputError(f"{path}: has no {error}; is it of `python -m benchmarks run`?") from None
    started = _moment(path)
    make_folder(folder / BENCHMARKS)
    entries = []
    for name in figures:
        file = f"{BENCHMARKS}/{name}.json"
        write_text(folder / file, dump_document({**document, "figures": {name: figures[name]}}))
        entry = Entry(
            file=file,
            commands=(command,),
            commits=(commit or "unknown",),
            machines=(_in_words(machine),),
            first=started,
            last=started,
            records=len(figures[name]),
            seconds=None,
            kept=FIGURES_KEEP,
            sha256=_sha256(folder / file),
        )
        _index(folder, entry)
        entries.append(entry)
    return entries


def _take_over(
    folder: Path,
    file: str,
    commands: Sequence[str],
    records: Sequence[SolverRecord] | Sequence[SimulationRecord],
    lines: Iterable[str],
    kept: str,
) -> Entry:
    if not records:
        raise InputError(f"{file}: there are no records to take over")
    make_folder((folder / file).parent)
    with staged(folder / file) as temporary:
        temporary.write_bytes(lzma.compress("".join(lines).encode(), preset=9))
    entry = Entry(
        file=file,
        commands=tuple(commands),
        commits=_distinct(record.commit or "unknown" for record in records),
        machines=_distinct(_in_words(record.machine) for record in records),
        first=min(record.started for record in records),
        last=max(record.started for record in records),
        records=len(records),
        seconds=round(math.fsum(record.wall_s for record in records), 1),
        kept=kept,
        sha256=_sha256(folder / file),
    )
    _index(folder, entry)
    return entry


def _index(folder: Path, entry: Entry) -> None:
    others = [each for each in read_index(folder).files if each.file != entry.file]
    files = sorted([*others, entry], key=lambda each: each.file)
    document: dict[str, Any] = {
        "format": INDEX_FORMAT,
        "files": [each.model_dump(mode="json") for each in files],
    }
    write_text(folder / INDEX, dump_document(document, spread=("files",)))


# ------------------------------------------------------------------ parts


def _listed(folder: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Yield the files of the index that are wanted, each checked."""
    for entry in read_index(folder).files:
        if not wanted(entry.file):
            continue
        path = folder / entry.file
        try:
            found = _sha256(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        if found != entry.sha256:
            raise InputError(
                f"{path}: its checksum is {found[:12]}..., the index says {entry.sha256[:12]}...; "
                "restore the file or record it anew"
            )
        yield path


def _moment(path: Path) -> str:
    """Return when a benchmark was kept, which the name of its file tells."""
    try:
        moment = datetime.strptime(path.stem[-15:], "%Y%m%d-%H%M%S")
    except ValueError:
        raise InputError(
            f"{path}: its name does not end in a time such as 20260131-120000; leave it the name "
            "that `python -m benchmarks run` gave it"
        ) from None
    return moment.replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _in_words(machine: Mapping[str, Any]) -> str:
    cores = machine.get("cores")
    parts = (machine.get("processor"), None if cores is None else counted(cores, "core"))
    return ", ".join(part for part in parts if part) or "unknown machine"
