"""Errors of one line that names location, value and remedy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import UnionType

MAX_FAULTS = 100
"""Faults of a document, after which it is not read further."""
_MAX_QUOTED = 60


class MetronomeError(Exception):
    """Base of all errors of this package; its text is one line.

    Parameters
    ----------
    message
        The line.
    others
        Further errors of the input, in lines; the text only counts them.

    Attributes
    ----------
    lines
        All errors.
    """

    exit_status = 1

    def __init__(self, message: str, others: Sequence[str] = ()) -> None:
        self.lines = tuple(" ".join(line.split()) for line in (message, *others))
        super().__init__(self.lines[0] + (f" ({self.count_after(1)})" if others else ""))

    def count_after(self, count: int) -> str:
        """Return in words the number of the errors after the first ones."""
        is_all = len(self.lines) < MAX_FAULTS
        return f"and {'' if is_all else 'at least '}{len(self.lines) - count} more"


class InputError(MetronomeError, ValueError):
    """The input is invalid: a file, an argument, a combination of them."""

    exit_status = 2

    def within(self, location: str | Path) -> InputError:
        """Return the error with a location before all of its lines."""
        first, *others = (f"{location}: {line}" for line in self.lines)
        return InputError(first, others)


@contextmanager
def error_context(location: str | Path, kind: type[InputError] = InputError) -> Iterator[None]:
    """Put a location before errors of a kind in this block."""
    try:
        yield
    except kind as error:
        raise error.within(location) from None


class MissingBackendError(MetronomeError, ImportError):
    """An optional package is not installed; the text names it."""

    exit_status = 2


class RemoteError(MetronomeError):
    """A server refused a request, or gave no usable answer; the message has no credentials.

    If it is transient, another request may succeed.
    """

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.is_transient = is_transient


class SolverError(MetronomeError, RuntimeError):
    """A back end failed, or returned an unexpected result."""


class PluginError(MetronomeError, RuntimeError):
    """A function of the user or code of another package raised ``__cause__``."""


def check_type(name: str, value: object, kind: type | UnionType) -> None:
    """Refuse an argument that is of another type."""
    if not isinstance(value, kind):
        expected = kind.__name__ if isinstance(kind, type) else str(kind)
        raise InputError(f"{name}: must be of type {expected}, got {quote(value)}")


def check_path(path: object) -> Path:
    """Return the path of a file; refuse what can be none."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputError(f"path: must be the name of a file, got {quote(path)}")
    name = str(os.fspath(path))
    try:
        is_valid = "\0" not in name and os.fsencode(name) is not None
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise InputError(f"path: {quote(name)} is no name of a file")
    return Path(name)


def quote(value: object) -> str:
    """Return `value` quoted, printable and short, for a one-line message."""
    if isinstance(value, int) and abs(value) >= 10**_MAX_QUOTED:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (dict, list, tuple)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} of {len(value)}"
    text = ascii(value)
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 3] + "..."


def describe_error(error: Exception) -> str:
    """Return the text of an exception; that of a `MemoryError` is empty."""
    return str(error) or "out of memory"


def format_path(path: Sequence[str | int]) -> str:
    """Return a path into a document, such as ``jobs[3].phases[1].rate``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            is_plain = step.isprintable() and 0 < len(step) <= _MAX_QUOTED
            name = step if is_plain else quote(step)
            text += f".{name}" if text else name
    return text


def sanitize(text: str, length: int) -> str:
    """Return external text as printable ASCII of at most `length` characters."""
    clean = " ".join(text.encode("ascii", "backslashreplace").decode().split())
    printable = "".join(letter if letter.isprintable() else "?" for letter in clean)
    return printable if len(printable) <= length else printable[: length - 3] + "..."


def first_few(names: Sequence[str], max_names: int = 3) -> str:
    """Return the first names as text, and the number of further ones."""
    more = len(names) - max_names
    return ", ".join(names[:max_names]) + (f" and {more} more" if more > 0 else "")


def pluralise(count: int, what: str) -> str:
    """Return ``1 link`` or ``2 links``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
