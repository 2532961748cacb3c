"""Importing the back ends: on demand, in the one order that works, with the remedy if it fails.

OR-Tools and highspy each bring a shared library called libhighs, of different versions; whichever
is loaded second in a process cannot find its symbols. PuLP imports highspy by itself, and takes a
failure for its absence, which does no harm here: HiGHS runs in a process of its own. OR-Tools
would be lost. So OR-Tools always comes first.
"""

from __future__ import annotations

import contextlib
from typing import Any

from metronome_opt.errors import MissingBackendError


def import_cp_model() -> Any:
    """Return OR-Tools' `cp_model`."""
    try:
        from ortools.sat.python import cp_model
    except ModuleNotFoundError:
        raise MissingBackendError(
            "solver cpsat needs OR-Tools, which is not installed: pip install ortools"
        ) from None
    except ImportError as error:
        raise MissingBackendError(
            f"solver cpsat needs OR-Tools, which does not load ({error}); if highspy or pulp were "
            "imported in this process, import ortools.sat.python.cp_model before them"
        ) from None
    return cp_model


def import_pulp() -> Any:
    """Return PuLP."""
    with contextlib.suppress(MissingBackendError):
        import_cp_model()
    try:
        import pulp
    except ImportError:
        raise MissingBackendError(
            "solver milp needs PuLP, which is not installed: pip install pulp"
        ) from None
    return pulp
