"""Data sets of others: what each is, where it is from, and how its files become instances."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance

_MAX_MEMBER = 8 * 2**20
_MAX_ARCHIVE = 2**30  # bytes in all, unpacked
_BROKEN = (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error)


class Case(NamedTuple):
    """One instance and where it stands in its data set."""

    group: str
    file: str
    instance: Instance


class DataSet(ABC):
    """Instances of one origin. Files are read where they lie, and none is part of this project."""

    name: ClassVar[str]
    home_page: ClassVar[str]
    citation: ClassVar[str]
    licence: ClassVar[str]
    default_path: ClassVar[str]

    @abstractmethod
    def read(self, path: str | Path) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each file; an `InputError` says what is wrong."""

    @abstractmethod
    def convert(self, name: str, text: str) -> Iterator[Case]:
        """Yield the instances of a file."""

    def cases(self, path: str | Path) -> Iterator[Case]:
        """Yield all instances."""
        for name, text in self.read(path):
            yield from self.convert(name, text)


def read_archive(path: str | Path, suffix: str) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files in a tar archive whose names end with a suffix.

    One after the other, so that no more than one file is in memory.

    Raises
    ------
    InputError
        If it is no archive, is cut off, or unpacks to more than there should be.
    """
    total, number = 0, 0
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                total += member.size
                if member.size > _MAX_MEMBER or total > _MAX_ARCHIVE:
                    raise InputError(f"{path}: {quote(member.name)}: unpacks to too many bytes")
                wanted = member.isfile() and member.name.endswith(suffix)
                file = archive.extractfile(member) if wanted else None
                if file is not None:
                    number += 1
                    yield member.name, file.read().decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: file {number}: is no text") from None
    except _BROKEN as error:
        raise InputError(f"{path}: no whole archive: {error or type(error).__name__}") from None
    if not number:
        raise InputError(f"{path}: has no file {suffix}")
