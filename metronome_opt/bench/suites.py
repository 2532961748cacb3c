"""Suites: folders of stored instances with an index, kept apart for tuning and for testing."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance, read_instance
from metronome_opt.records import Name, NonNegative, Record, build, read_as

SUITE_FORMAT = "metronome-suite/1"
INDEX = "index.json"
SUITES = Path("benchmarks") / "suites"

Split = Literal["tune", "test"]


class Entry(Record):
    """One stored instance: its file, what it may be used for, and how it was made."""

    name: Name
    file: Name
    split: Split
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    generator: str
    version: int
    parameters: Mapping[str, Any]
    seed: NonNegative | None


class _Index(Record):
    """The index of a suite, a document of format ``metronome-suite/1``.

    Parameters
    ----------
    family
        Its name.
    about
        One line.
    time_limit_s
        The usual limit, in seconds.
    instances
        ``tune``: solvers may be tuned on it; ``test``: results are published on it.
    """

    format: Literal["metronome-suite/1"]
    family: Name
    about: str
    time_limit_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    instances: Annotated[tuple[Entry, ...], Field(strict=False)]


@dataclass(frozen=True)
class Member:
    """An instance of a suite, read and checked; `suite` is the family, `entry` is of the index."""

    suite: str
    time_limit_s: float
    entry: Entry
    instance: Instance


@dataclass(frozen=True)
class Suite:
    """A folder and its index."""

    folder: Path
    index: _Index

    def members(
        self, split: str | None = None, names: Collection[str] | None = None
    ) -> Iterator[Member]:
        """Read the instances, in the order of the index.

        Parameters
        ----------
        split
            ``tune`` or ``test``; None for both.
        names
            Only these; None for all.

        Raises
        ------
        InputError
            If a file is missing, is not an instance, or is not the one that was stored.
        """
        for entry in self.index.instances:
            if split in (None, entry.split) and (names is None or entry.name in names):
                yield self._read(entry)

    def count(self, split: Split) -> int:
        """Return how many instances of a split there are."""
        return sum(entry.split == split for entry in self.index.instances)

    def _read(self, entry: Entry) -> Member:
        path = self.folder / entry.file
        instance = read_instance(path)
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != entry.sha256:
            raise InputError(
                f"{path}: its checksum is {found[:12]}..., the index says {entry.sha256[:12]}...; "
                "restore the stored file or generate the suite anew"
            )
        return Member(self.index.family, self.index.time_limit_s, entry, instance)


def read_suite(folder: str | Path) -> Suite:
    """Read the index of a suite.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    folder = Path(folder)
    index = read_as(folder / INDEX, lambda document: build(_Index, document, SUITE_FORMAT))
    return Suite(folder, index)


def find_suites(wanted: str, start: str | Path = ".") -> list[Suite]:
    """Return the suites that a user names.

    Parameters
    ----------
    wanted
        Names or folders, separated by commas, or ``all``. A name is that of a folder in
        ``benchmarks/suites`` of `start` or of the nearest folder above it that has one.
    start
        Where to look from.

    Raises
    ------
    InputError
        If one is not there; the text says what was tried.
    """
    home = _home(Path(start).resolve())
    stored = sorted(path.parent for path in home.glob(f"*/{INDEX}")) if home else []
    found: list[Path] = []
    for name in filter(None, (part.strip() for part in wanted.split(","))):
        if name == "all":
            found += stored
        elif home and home / name in stored:
            found.append(home / name)
        elif (Path(start) / name / INDEX).is_file():
            found.append(Path(start) / name)
        else:
            raise InputError(_unknown(name, home, stored))
    if not found:
        raise InputError(_unknown(wanted, home, stored))
    return [read_suite(folder) for folder in dict.fromkeys(found)]


def _home(start: Path) -> Path | None:
    candidates = (folder / SUITES for folder in (start, *start.parents))
    return next((path for path in candidates if path.is_dir()), None)


def _unknown(name: str, home: Path | None, stored: list[Path]) -> str:
    tried = f"{home} has {', '.join(path.name for path in stored) or 'none'}"
    if home is None:
        tried = f"there is no {SUITES} here or in a folder above"
    return f"suite: {show(name)} is not known: {tried}, and it is not a folder with {INDEX}"
