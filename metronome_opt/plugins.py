"""Versions of other packages, and their plug-ins by entry points, imported when they are used.

A plug-in that cannot be imported is an error of one line, only for runs that use it.
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
    """Return the versions of Python, of this package and of installed `packages`."""
    versions = {"python": platform.python_version()}
    for name in (*_ALWAYS, *packages):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing any."""
    return {point.name: point for point in entry_points(group=group)}


def load_plugin(point: EntryPoint, location: str) -> Any:
    """Import the object of an entry point that was named at a location.

    An `InputError` of one line, whatever the package does while it is imported.
    """
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{location}: {quote(point.name)}: {point.value} cannot be loaded "
            f"({describe_failure(error)}); mend or remove the package that adds it"
        ) from error


@contextmanager
def guarded(what: str, *, foreign: bool = True) -> Iterator[None]:
    """Raise a `PluginError` if code of another package exits, or raises an error of its own.

    The message begins with the plug-in. Where the code is not foreign, errors pass.
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
    """Return a failure in code of another package as a short line."""
    text = sanitize(str(error), _MAX_REASON)
    if isinstance(error, MetronomeError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
