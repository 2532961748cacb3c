"""Instances written for other solvers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance

FORMATS = {
    "lp": ("linear", "to_lp"),
    "mps": ("linear", "to_mps"),
    "cpsat": ("linear", "to_cpsat"),
    "mzn": ("minizinc", "to_minizinc"),
}


def export_text(instance: Instance, format_: str) -> str:
    """Return the rotation problem of `instance` in one of `FORMATS`.

    Raises
    ------
    InputError
        If the format is not known or its numbers cannot hold the instance.
    """
    if format_ not in FORMATS:
        raise InputError(f"format: {show(format_)} is not known; choose from {', '.join(FORMATS)}")
    module, function = FORMATS[format_]
    write: Callable[[Instance], str] = getattr(
        import_module(f"metronome_opt.export.{module}"), function
    )
    return write(instance)
