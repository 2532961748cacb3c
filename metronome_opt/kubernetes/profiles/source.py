"""Bytes of measured files and of standard input, unpacked and up to limits."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.documents import open_file

LIMITS = {"bytes": 10**9, "entries": 3 * 2**20, "events of collectives": 2**20, "members": 2**13}
"""Limits of a file, unpacked, and of all members of a tar file together."""

_MAX_TEXT, _MAX_LINES = 64 * 2**20, 2**19
_SHORTEN = "keep its last part, as tail does"
_REMEDY = "name a file, or - and pipe into standard input"
_GZIP, _TAR, _HEAD = b"\x1f\x8b", b"ustar", 4096


class Budget(Counter[str]):
    """Counts what was read of a file, by the units of `LIMITS`."""

    def take(self, unit: str, count: int = 1) -> None:
        """Count what is read, up to a limit."""
        self[unit] += count
        if self[unit] > LIMITS[unit]:
            raise InputError(f"unpacks to more than {LIMITS[unit]:,} {unit}; trace fewer steps")

    @property
    def is_spent(self) -> bool:
        """Whether a limit was reached."""
        return any(self[unit] > limit for unit, limit in LIMITS.items())


class _PeekableStream:
    """A stream whose first bytes are known before they are read."""

    def __init__(self, stream: Any) -> None:
        self.head: bytes = stream.read(_HEAD)
        self._stream, self._unread = stream, self.head

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end alone."""
        piece, self._unread = self._unread[:size], self._unread[size:]
        return b"".join((piece, self._stream.read(size - len(piece))))


class Source:
    """The bytes of a file, without gzip.

    Attributes
    ----------
    name
        The name of the file.
    head
        Its first bytes.
    """

    def __init__(self, stream: Any, name: str, budget: Budget) -> None:
        self.name, self._budget, self._count = name, budget, 0
        self._stream = _PeekableStream(stream)
        begin = self._stream.head[: len(_GZIP)]
        if begin == _GZIP:
            packed = gzip.GzipFile(fileobj=cast("Any", self._stream))
            with self._damage():
                self._stream = _PeekableStream(packed)
        elif name.endswith((".gz", ".tgz")):
            raise InputError(f"is no gzip file, it begins with {quote(begin)}; name it otherwise")
        self.head = self._stream.head
        self.is_tar: bool = self.head[257:262] == _TAR

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end alone."""
        with self._damage():
            piece = self._stream.read(size)
        self._count += len(piece)
        self._budget.take("bytes", len(piece))
        return piece

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Report gzip that is not whole."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            fault = f"cut off or damaged gzip after {self._count:,} bytes ({error})"
            raise InputError(fault) from None


@contextmanager
def open_source(path: str | Path) -> Iterator[Source]:
    """Open a file, or standard input by the name ``-``, and name it in errors of this block."""
    is_input = str(path) == "-"
    name = "standard input" if is_input else str(path)
    try:
        with (
            open(0, "rb", closefd=False) if is_input else open_file(path, _REMEDY) as stream,
            error_context(name),
        ):
            yield Source(stream, Path(path).name, Budget())
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error})") from None


def read_lines(source: Source) -> Iterator[str]:
    """Yield the lines of a text, of which there may be `_MAX_LINES`."""
    raw = source.read(_MAX_TEXT + 1)
    if len(raw) > _MAX_TEXT:
        raise InputError(f"larger than {_MAX_TEXT:,} bytes, the maximum; {_SHORTEN}")
    try:
        for count, line in enumerate(io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")):
            if count >= _MAX_LINES:
                raise InputError(f"more than {_MAX_LINES:,} lines; {_SHORTEN}")
            yield line.rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8") from None
