"""What goes wrong with an API server, as one line without credentials."""

from __future__ import annotations

from metronome_opt import errors
from metronome_opt.errors import MetronomeError

_SHOWN = 300


class ClusterError(MetronomeError):
    """The API server refused, or gave no answer that can be used.

    Parameters
    ----------
    message
        The line; it is to contain no credentials.
    passing
        Asking again may bring something else.
    wait_s
        Seconds for which the server asked to be left alone; None where it did not say.
    """

    exit_status = 1

    def __init__(self, message: str, *, passing: bool = False, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.passing = passing
        self.wait_s = wait_s


class ForbiddenError(ClusterError):
    """The user lacks a right; the text names verb, resource and namespace."""


class UnknownKindError(ClusterError):
    """The cluster knows no such resource."""


class MissingDefinitionError(ClusterError):
    """The cluster lacks the definitions of claims and capacities."""


class MissingObjectError(ClusterError):
    """There is no such object."""


class RefusedError(ClusterError):
    """The server refuses this object as it is."""


class FieldConflictError(RefusedError):
    """Other managers own fields that were to be changed.

    Parameters
    ----------
    message
        The line.
    fields
        For each field in the way, its path and who manages it.
    """

    def __init__(self, message: str, fields: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message)
        self.fields = fields


def told(text: str, secret: str = "") -> str:
    """Return what somebody else said as it may stand in a line: printable, short, no `secret`."""
    if secret:
        text = text.replace(secret, "***")
    return errors.told(text, _SHOWN)
