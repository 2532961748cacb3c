"""Errors as the user is told of them: one line that names place, value and remedy."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 60


class MetronomeError(Exception):
    """Base of everything this package raises on purpose; its text is one line."""

    exit_status = 1

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InputError(MetronomeError, ValueError):
    """The input cannot be used as it is: a file, an argument, a combination of them."""

    exit_status = 2


class MissingBackendError(MetronomeError, ImportError):
    """An optional package is needed and not installed; the text says what to install."""

    exit_status = 2


class RemoteError(MetronomeError):
    """A server refused, or gave no answer that can be used.

    Parameters
    ----------
    message
        The line; it is to contain no credentials.
    passing
        Asking again may bring something else.
    wait_s
        Seconds for which the server asked to be left alone; 0 where it did not say.
    """

    def __init__(self, message: str, *, passing: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.passing = passing
        self.wait_s = wait_s


class SolverError(MetronomeError, RuntimeError):
    """A back end failed or said something that is not understood."""


def quote(value: object) -> str:
    """Return `value` as it may stand in a one-line message: quoted, printable and short."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_SHOWN:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value) if not isinstance(value, (dict, list, tuple)) else _container(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def reason(error: Exception) -> str:
    """Return what an exception says; only one of memory that ran out says nothing."""
    return str(error) or "out of memory"


def format_path(path: Sequence[str | int]) -> str:
    """Return a path into a document as people write it: ``jobs[3].phases[1].rate``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step.isprintable() and 0 < len(step) <= _SHOWN
            name = step if plain else quote(step)
            text += f".{name}" if text else name
    return text


def _container(value: dict[object, object] | list[object] | tuple[object, ...]) -> str:
    kind = "a mapping" if isinstance(value, dict) else "a list"
    return f"{kind} of {len(value)}"


def sanitize(text: str, most: int) -> str:
    """Return what somebody else said as it may stand in a line: printable ASCII, at most `most`."""
    clean = " ".join(text.encode("ascii", "backslashreplace").decode().split())
    printable = "".join(letter if letter.isprintable() else "?" for letter in clean)
    return printable if len(printable) <= most else printable[: most - 3] + "..."


def counted(count: int, what: str) -> str:
    """Return ``1 link`` or ``2 links``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
