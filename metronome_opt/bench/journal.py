"""A file of records: one JSON object a line, exact, appended one at a time.

It may end in the middle of a line, where a campaign was killed while it wrote. Such a line has no
end and is left out; whatever else is not a record is an error that names the line.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from metronome_opt.documents import check_targets
from metronome_opt.errors import InputError
from metronome_opt.records import explain

R = TypeVar("R")


def read_journal(paths: Iterable[str | Path], kind: type[R]) -> list[R]:
    """Read files of records of one kind, in order.

    Parameters
    ----------
    kind
        The class of the records, one that pydantic can validate.

    Raises
    ------
    InputError
        If a file cannot be read or a whole line of it is not a record.
    """
    records: list[R] = []
    for path in map(Path, paths):
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        records += _parse(raw, path, kind)
    return records


def dump_line(record: object) -> str:
    """Return a record as one line, its end included."""
    return TypeAdapter(type(record)).dump_json(record).decode() + "\n"


class Journal(Generic[R]):
    """A file of records that this process alone appends to, until it is closed.

    Parameters
    ----------
    path
        Made if it does not exist.
    kind
        The class of the records.
    resume
        Go on after the records that it holds; a torn last line is cut off. Otherwise a file that
        holds anything is refused.

    Raises
    ------
    InputError
        If the file cannot be written, is in use, or holds something it should not.
    """

    def __init__(self, path: str | Path, kind: type[R], *, resume: bool) -> None:
        path = Path(path)
        check_targets([], [path])
        self._stream = path.open("a+b")
        try:
            self._lock(path)
            self._stream.seek(0)
            raw = self._stream.read()
            if raw and not resume:
                raise InputError(
                    f"{path}: is not empty; go on with --resume, or name another --output"
                )
            self._records = _parse(raw, path, kind)
            self._stream.truncate(raw.rfind(b"\n") + 1)
        except BaseException:
            self._stream.close()
            raise

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{path}: another campaign is writing it; name another --output"
            ) from None

    @property
    def records(self) -> tuple[R, ...]:
        """What it holds, in the order in which it was written."""
        return tuple(self._records)

    def append(self, record: R) -> None:
        """Append a record; when this returns it is on the disk."""
        self._stream.write(dump_line(record).encode())
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._records.append(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()


def _parse(raw: bytes, path: Path, kind: type[R]) -> list[R]:
    adapter = TypeAdapter(kind)
    records = []
    for number, line in enumerate(raw.split(b"\n")[:-1], start=1):
        try:
            records.append(adapter.validate_json(line))
        except ValidationError as error:
            raise InputError(f"{path}: line {number}: {explain(error)}") from None
    return records
