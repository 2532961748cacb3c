"""Records of the evaluation: compressed files, and an index of their origins."""

from __future__ import annotations

import hashlib
import lzma
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from metronome_opt.bench.simulations import SimulationRecord, Value
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.errors import InputError, pluralise
from metronome_opt.files.documents import make_folder, staged, write_text
from metronome_opt.files.journal import dump_line, read_journal
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    Record,
    dump_document,
    parse_record,
    read_document_as,
)

RECORDS = Path(__file__).parent / "records"
INDEX = "index.json"
INDEX_FORMAT = "metronome-evaluation/1"

DIGITS = 7
_JOBS = (
    *("job", "priority", "finished", "queueing_s", "completion_s", "iterations"),
    *("ideal_ms", "iteration_mean_ms", "gpus", "early_gbit"),
)
_ALSO = {"published-mltcp": ("iteration_p99_ms",)}
"""Columns of jobs that are kept of single parts."""
KEPT = (
    f"of simulations: of jobs {', '.join(_JOBS)}, of links their sums; numbers to {DIGITS} digits"
)

_Words = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


class Entry(Record):
    """Where the records of a part come from.

    Parameters
    ----------
    commands
        What made the records.
    commits, machines
        All that the records name.
    first, last
        When the first and the last of them began (UTC).
    records, seconds
        How many there are, and how long they took together.
    left
        How many the plan asks for besides.
    sha256
        Checksum of the file.
    """

    commands: _Words
    commits: _Words
    machines: _Words
    first: str
    last: str
    records: Annotated[int, Field(ge=1)]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    left: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Index(Record):
    """The index of the recorded parts, a document of format ``metronome-evaluation/1``."""

    format: Literal["metronome-evaluation/1"] = "metronome-evaluation/1"
    kept: str = KEPT
    parts: FrozenMap[Name, Entry] = FrozenDict()


def read_index(folder: Path = RECORDS) -> Index:
    """Read the index; where there is none yet, nothing is recorded."""
    if not (folder / INDEX).exists():
        return Index()
    return read_document_as(
        folder / INDEX, lambda document: parse_record(Index, document, INDEX_FORMAT)
    )


K = TypeVar("K", SimulationRecord, SolverRecord)


def read_part(name: str, kind: type[K], folder: Path = RECORDS) -> list[K]:
    """Return the records of a part, which are of one kind.

    Raises
    ------
    InputError
        If the file is not the one that the index names.
    """
    path = _file(folder, name)
    if _sha256(path) != read_index(folder).parts[name].sha256:
        raise InputError(f"{path}: is not the file of the index; restore it or record it anew")
    return read_journal([path], kind)


def restore_part(name: str, path: Path, folder: Path = RECORDS) -> None:
    """Write the records of a part where simulations go on, if they are not there."""
    if not path.exists() and name in read_index(folder).parts:
        make_folder(path.parent)
        with staged(path) as temporary:
            temporary.write_bytes(lzma.decompress(_file(folder, name).read_bytes()))


def record_part(
    name: str,
    records: Sequence[SimulationRecord] | Sequence[SolverRecord],
    commands: Sequence[str],
    planned: int,
    folder: Path = RECORDS,
) -> Entry:
    """Take over the records of a part, in the place of what was recorded of it."""
    if not records:
        raise InputError(f"{name}: there are no records to take over")
    make_folder(folder)
    lines = "".join(dump_line(_smaller(name, record)) for record in records)
    with staged(_file(folder, name)) as temporary:
        temporary.write_bytes(lzma.compress(lines.encode(), preset=9))
    entry = Entry(
        commands=tuple(commands),
        commits=_distinct(record.commit or "unknown" for record in records),
        machines=_distinct(machine_in_words(record.machine) for record in records),
        first=min(record.started for record in records),
        last=max(record.started for record in records),
        records=len(records),
        seconds=round(math.fsum(record.wall_s for record in records), 1),
        left=planned - len(records),
        sha256=_sha256(_file(folder, name)),
    )
    index = Index(parts=FrozenDict({**read_index(folder).parts, name: entry}))
    write_text(folder / INDEX, dump_document(index.model_dump(mode="json")))
    return entry


def _smaller(part: str, record: SimulationRecord | SolverRecord) -> SimulationRecord | SolverRecord:
    if isinstance(record, SolverRecord):
        return record
    names = (*_JOBS, *_ALSO.get(part, ()))
    jobs = record.jobs and {name: tuple(map(_rounded, record.jobs[name])) for name in names}
    return replace(record, jobs=jobs, links=record.links and _together(record.links))


def _together(links: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Value, ...]]:
    """Return all links as one: what it carries, and could while in use, is what they do."""
    capacity = sum(links["capacity_mbps"])
    carried = links["carried_gbit"]  # None where jobs do not contend
    could = sum(map(operator.mul, links["capacity_mbps"], links["used_s"]))
    return {
        "link": ("all",),
        "capacity_mbps": (capacity,),
        "carried_gbit": (None if None in carried else _rounded(math.fsum(carried)),),
        "used_s": (_rounded(could / capacity),),
    }


def _rounded(value: Value) -> Value:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.jsonl.xz"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def machine_in_words(machine: Mapping[str, Any]) -> str:
    """Return the processor of a machine and the number of its cores."""
    cores = machine.get("cores")
    parts = (machine.get("processor"), None if cores is None else pluralise(cores, "core"))
    return ", ".join(part for part in parts if part) or "unknown machine"
