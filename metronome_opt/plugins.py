"""Other packages: versions, and plug-ins by entry point, imported one by one when they are used.

A plug-in that cannot be imported is one line, and only for a run that asks for it.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from metronome_opt.errors import InputError, MetronomeError, PluginError, quote, sanitize

_MAX_REASON = 200
_ALWAYS = ("metronome-opt", "numpy", "numba")


def find_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of Python, of this package and of `packages` where they are installed."""
    versions = {"python": platform.python_version()}
    for name in (*_ALWAYS, *packages):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing any."""
    return {point.name: point for point in entry_points(group=group)}


def load_plugin(point: EntryPoint, place: str) -> Any:
    """Import the object of an entry point.

    Parameters
    ----------
    point
        The entry point.
    place
        Where its name was given, to begin the message with.

    Raises
    ------
    InputError
        In one line, whatever the package does while it is imported.
    """
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{place}: {quote(point.name)}: {point.value} cannot be loaded "
            f"({describe_failure(error)}); mend or remove the package that adds it"
        ) from error


@contextmanager
def guarded(what: str, *, foreign: bool = True) -> Iterator[None]:
    """Report failures in code of another package.

    Parameters
    ----------
    what
        The plug-in, to begin the message with.
    foreign
        Whether the code is of another package; errors in our own pass.

    Raises
    ------
    PluginError
        If the code raises anything but an error of this package, or exits.
    """
    try:
        yield
    except MetronomeError:
        raise
    except (Exception, SystemExit) as error:
        if not foreign:
            raise
        raise PluginError(
            f"{what} failed ({describe_failure(error)}); mend or remove the package that adds it"
        ) from error


def describe_failure(error: BaseException) -> str:
    """Return a failure in code of another package as one short line."""
    text = sanitize(str(error), _MAX_REASON)
    if isinstance(error, MetronomeError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
