"""Suites: folders of instances and scenarios, or a file of one.

An index states the origin of each instance, and reserves some for tuning. A folder needs none.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.documents import find_documents, read_document
from metronome_opt.files.records import Name, NonNegative, Record, dump_document, read_record
from metronome_opt.problem.instance import INSTANCE_FORMAT, Instance
from metronome_opt.scenario.build import build_problem
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT, read_source
from metronome_opt.scenario.workload import find_files
from metronome_opt.simulation.study import shipped_folder
from metronome_opt.solvers.arguments import DEFAULT_TIME_LIMIT

INDEX = "index.json"

UNSPLIT: Final = "none"
Split = Literal["tune", "test", "none"]


class Entry(Record):
    """An instance of a suite: file, permitted use and origin; None for unknown."""

    name: Name
    file: Name
    split: Split
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    generator: str | None
    version: int | None
    parameters: Mapping[str, Any]
    seed: NonNegative | None

    @property
    def maker(self) -> str | None:
        """The generator with its version; None if it is not known."""
        return None if self.generator is None else f"{self.generator}, version {self.version}"


class _Index(Record):
    """The index of a suite.

    Parameters
    ----------
    family
        The name of the suite.
    about
        One line.
    time_limit_s
        The usual limit, in seconds.
    instances
        Split ``tune``: solvers may be tuned on it; ``test``: results are published on it; ``none``:
        the suite is not split.
    """

    format: Literal["metronome-suite/1"] = "metronome-suite/1"
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
    path: Path


@dataclass(frozen=True)
class Suite:
    """A folder and its index."""

    folder: Path
    index: _Index

    def members(
        self, split: str | None = None, names: Collection[str] | None = None
    ) -> Iterator[Member]:
        """Read the instances of a split, ``tune`` or ``test``, in the order of the index.

        Where there are no splits, ``test`` is everything. An `InputError` if a file is missing, is
        not an instance, or is not the one that was stored.
        """
        for entry in self.entries(split):
            if names is None or entry.name in names:
                yield self._read(entry)

    def entries(self, split: str | None = None) -> list[Entry]:
        """Return the entries of a split, as in `members`."""
        fits = {None: ("tune", "test", UNSPLIT), "test": ("test", UNSPLIT)}.get(split, (split,))
        return [entry for entry in self.index.instances if entry.split in fits]

    def _read(self, entry: Entry) -> Member:
        path = self.folder / entry.file
        instance, checksum = _read_file(path)
        if checksum != entry.sha256:
            raise InputError(
                f"{path}: its checksum is {checksum[:12]}..., the index says "
                f"{entry.sha256[:12]}...; restore the stored file or generate the suite again"
            )
        return Member(self.index.family, self.index.time_limit_s, entry, instance, path)


def _read_file(path: Path) -> tuple[Instance, str]:
    """Return the instance of a file and its checksum; of a scenario that of its instance.

    A scenario file does not determine its instance: models are described in other files. Jobs
    without nodes are spread, so that many of them share links.
    """
    with error_context(path):
        problem = build_problem(read_source(path))
    raw = path.read_bytes()
    if problem.placed is not None:
        raw = dump_document(problem.instance.to_dict(), one_per_line=("links", "jobs")).encode()
    return problem.instance, hashlib.sha256(raw).hexdigest()


def read_suite(path: str | Path) -> Suite:
    """Read the index of a suite, or the instances and scenarios of a folder that has none.

    A file of an instance or a scenario is a suite of one. Errors name file, location and value.
    """
    path = Path(path)
    if path.is_file():
        return Suite(path.parent, _index_of_files(path.stem, path, [path]))
    index = path / INDEX
    return Suite(path, read_record(_Index, index) if index.exists() else _index_of_folder(path))


def _index_of_folder(folder: Path) -> _Index:
    """Return an index of the instances and scenarios in a folder; other documents are ignored."""
    formats = INSTANCE_FORMAT, SCENARIO_FORMAT
    found = find_documents(folder, *formats)
    files = [path for path in found if read_document(path).get("format") in formats]
    if not files:
        raise InputError(
            f"{folder}: has neither {INDEX} nor a JSON or YAML file of format "
            f"{' or '.join(formats)}; name a folder of instances or scenarios"
        )
    return _index_of_files(folder.resolve().name, folder, files)


def _index_of_files(family: str, source: Path, files: Sequence[Path]) -> _Index:
    """Return an index of files of instances and scenarios.

    An instance is called like its file, with the suffix where two files differ only by it.
    """
    stems = Counter(path.stem for path in files)
    unknown: Any = {"generator": None, "version": None, "parameters": {}, "seed": None}
    entries = tuple(
        Entry(
            name=path.stem if stems[path.stem] == 1 else path.name,
            file=path.name,
            split=UNSPLIT,
            sha256=_read_file(path)[1],
            **unknown,
        )
        for path in files
    )
    return _Index(
        family=family,
        about=f"files of {source}",
        time_limit_s=DEFAULT_TIME_LIMIT,
        instances=entries,
    )


def find_suites(wanted: str) -> list[Suite]:
    """Return suites by name, folder or file, separated by commas; ``all`` are those of the package.

    In this order, without repetition. A stored instance or a shipped scenario is a suite of one. An
    unknown name is an `InputError` that lists the suites.
    """
    folder = shipped_folder("suites")
    shipped = {index.parent.name: index.parent for index in sorted(folder.glob(f"*/{INDEX}"))}
    stored = {path.stem: path for path in folder.glob("*/*.json") if path.name != INDEX}
    stored |= find_files("scenarios")
    chosen: list[Path] = []
    for name in filter(None, map(str.strip, wanted.split(","))):
        if name == "all":
            chosen += shipped.values()
        elif name in shipped or Path(name).exists():
            chosen.append(shipped.get(name, Path(name)))
        elif name in stored:
            chosen.append(stored[name])
        else:
            chosen = []
            break
    if not chosen:
        raise InputError(
            f"suite: {quote(wanted)} is not known: it is no file, folder, stored instance or "
            f"scenario; choose from {', '.join(shipped)}"
        )
    return [read_suite(path) for path in dict.fromkeys(chosen)]
