"""Files of records: one JSON object per line, exact, appended one at a time.

A file may end in the middle of a line, if a process was killed while writing. That line is dropped;
any other line that is not a record is an error that names it.
"""

from __future__ import annotations

import fcntl
import lzma
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from metronome_opt.errors import InputError
from metronome_opt.files.documents import check_targets, read_bytes
from metronome_opt.files.records import explain

R = TypeVar("R")


def read_journal(paths: Iterable[str | Path], kind: type[R]) -> list[R]:
    """Read files of records of a class that pydantic can validate, in order.

    Those whose names end in ``.xz`` are compressed. An `InputError` if a file cannot be read or a
    whole line of it is not a record.
    """
    records: list[R] = []
    for path in map(Path, paths):
        raw = read_bytes(path)
        try:
            if path.suffix == ".xz":
                raw = lzma.decompress(raw)
        except (lzma.LZMAError, EOFError) as error:
            raise InputError(f"{path}: is not compressed by xz, or not whole ({error})") from None
        records += _parse(raw, path, kind)
    return records


def dump_line(record: object) -> str:
    """Return a record as one line, its end included."""
    return TypeAdapter(type(record)).dump_json(record).decode() + "\n"


def lock_file(stream: BinaryIO, path: Path) -> None:
    """Keep a file from other writers until it is closed; `InputError` if one has it."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(
            f"{path}: another process is writing it; let it end, or name another file"
        ) from None


class Journal(Generic[R]):
    """A file of records that this process alone appends to, until it is closed.

    A record that cannot be written whole is not written at all.

    Parameters
    ----------
    path
        Made if it does not exist.
    kind
        The class of the records, or anything else that pydantic can validate.
    resume
        Go on after the records that it holds, in the place of a torn last line. Otherwise a file
        that holds anything is refused.

    Raises
    ------
    InputError
        If the file cannot be written, is in use, or holds something it should not.
    """

    def __init__(self, path: str | Path, kind: type[R], *, resume: bool) -> None:
        path = Path(path)
        check_targets([], [path])
        if path.suffix == ".xz":
            raise InputError(f"{path}: is compressed, and is only read; unpack it, or name another")
        try:
            self._stream = path.open("a+b")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None
        try:
            lock_file(self._stream, path)
            self._stream.seek(0)
            raw = self._stream.read()
            if raw and not resume:
                raise InputError(
                    f"{path}: is not empty; go on with --resume, or name another --output"
                )
            self._records = _parse(raw, path, kind)
            self._end = raw.rfind(b"\n") + 1
        except BaseException:
            self._stream.close()
            raise

    @property
    def records(self) -> tuple[R, ...]:
        """Its records, in the order in which they were written."""
        return tuple(self._records)

    def append(self, record: R) -> None:
        """Append a record: it is on the disk, or after an `OSError` the file is as before."""
        file = self._stream.fileno()
        line = dump_line(record).encode()
        length = len(line)
        try:
            # Takes away what an interrupted append has left.
            os.ftruncate(file, self._end)
            while line:
                line = line[os.write(file, line) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, self._end)
            raise
        self._records.append(record)
        self._end += length

    def close(self) -> None:
        """Release the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _parse(raw: bytes, path: Path, kind: type[R]) -> list[R]:
    adapter = TypeAdapter(kind)
    records = []
    for number, line in enumerate(raw.split(b"\n")[:-1], start=1):
        try:
            records.append(adapter.validate_json(line))
        except ValidationError as error:
            raise InputError(f"{path}: line {number}: {explain(error)}") from None
    return records
