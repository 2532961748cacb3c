"""What is known of the instances: the values that runs are measured against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from immutabledict import immutabledict
from pydantic import ConfigDict

from metronome_opt.bench.records import Record
from metronome_opt.records import FrozenMap, build, read_as
from metronome_opt.records import Record as Document
from metronome_opt.schedule import Exact

BEST_KNOWN_FORMAT = "metronome-best-known/1"


class KnownInstance(Document):
    """What the report needs of one instance of a file of best known values."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    sha256: str
    value: Exact | None
    lower_bound: Exact | None


class BestKnown(Document):
    """A file of best known values, by the names of the instances."""

    format: Literal["metronome-best-known/1"]
    instances: FrozenMap[str, KnownInstance]


def read_best_known(path: str | Path) -> BestKnown:
    """Read a file of format ``metronome-best-known/1``.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_as(path, lambda document: build(BestKnown, document, BEST_KNOWN_FORMAT))


@dataclass(frozen=True)
class References:
    """The best value and the best lower bound of each instance, by its checksum.

    Attributes
    ----------
    values, bounds
        The best of the records and, if there is one, of the file of best known values.
    known_values, known_bounds
        Those of the file alone.
    jobs
        The number of jobs of each instance of which a schedule was found.
    outdated
        Names that the file gives another checksum than the records do; they are not used.
    """

    values: Mapping[str, Fraction]
    bounds: Mapping[str, Fraction]
    known_values: Mapping[str, Fraction]
    known_bounds: Mapping[str, Fraction]
    jobs: Mapping[str, int]
    outdated: tuple[str, ...]


def gather(records: Iterable[Record], known: BestKnown | None = None) -> References:
    """Return the best that is known of the instances of `records`.

    Schedules and bounds of runs that the judge refused are not believed.
    """
    names: dict[str, str] = {}
    values: dict[str, Fraction] = {}
    bounds: dict[str, Fraction] = {}
    jobs: dict[str, int] = {}
    for record in records:
        checksum = record.instance_sha256
        names[checksum] = record.instance
        if record.kind == "invalid":
            continue
        if record.kind == "schedule":
            _keep(values, checksum, record.objective, min)
            if record.offsets is not None:
                jobs[checksum] = len(record.offsets)
        _keep(bounds, checksum, record.lower_bound, max)
    entries = {} if known is None else known.instances
    by_checksum = {entry.sha256: entry for entry in entries.values()}
    used = {checksum: by_checksum[checksum] for checksum in names if checksum in by_checksum}
    for checksum, entry in used.items():
        _keep(values, checksum, entry.value, min)
        _keep(bounds, checksum, entry.lower_bound, max)
    return References(
        values=immutabledict(values),
        bounds=immutabledict(bounds),
        known_values=immutabledict(
            {checksum: entry.value for checksum, entry in used.items() if entry.value is not None}
        ),
        known_bounds=immutabledict(
            {
                checksum: entry.lower_bound
                for checksum, entry in used.items()
                if entry.lower_bound is not None
            }
        ),
        jobs=immutabledict(jobs),
        outdated=tuple(
            sorted(
                name
                for checksum, name in names.items()
                if name in entries and checksum not in by_checksum
            )
        ),
    )


def _keep(
    best: dict[str, Fraction],
    checksum: str,
    value: Fraction | None,
    better: Callable[[Fraction, Fraction], Fraction],
) -> None:
    if value is not None:
        best[checksum] = better(best.get(checksum, value), value)
