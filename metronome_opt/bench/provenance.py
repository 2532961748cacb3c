"""Where and with what a case ran: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import metronome_opt

_ALWAYS = ("metronome-opt", "numpy", "numba")
_PACKAGE = Path(metronome_opt.__file__).parent


def describe_machine() -> dict[str, str | int | None]:
    """Return processor, cores that may be used, memory in MB (2**20 bytes) and system."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "system": platform.platform(),
    }


def find_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of Python, of this package and of `packages` where they are installed."""
    versions = {"python": platform.python_version()}
    for name in (*_ALWAYS, *packages):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def find_commit(package: Path = _PACKAGE) -> str | None:
    """Return the commit that `package` is checked out from, None if it is not in a checkout.

    ``+`` is appended if a file of the package differs from the commit or is new. A package that
    git does not track, an installed one inside somebody's checkout, say, has no commit.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = _git(package, "rev-parse", "--short", "HEAD")
    changed = _git(package, "status", "--porcelain", "--", ".")
    return f"{commit}+" if commit and changed else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints, None if it fails or is not there."""
    try:
        told = subprocess.run(  # noqa: S603 (arguments are ours)
            ["git", "-C", str(folder), *arguments],  # noqa: S607 (whichever git the user has)
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)
