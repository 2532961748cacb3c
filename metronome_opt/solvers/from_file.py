"""Solvers in files of the user: ``file.py:function``, a function of one `Search`."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from metronome_opt.errors import InputError, quote


def load_from_file(name: str) -> Any:
    """Return the function that ``file.py:function`` names.

    Raises
    ------
    InputError
        If the file cannot be run, or has no such function.
    """
    path, _, function = name.rpartition(":")
    spec = spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise InputError(f"solver: {quote(name)}: there is no file {quote(path)}")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"solver: {quote(name)}: the file fails ({quote(reason)})") from None
    found = getattr(module, function, None)
    if not callable(found):
        raise InputError(f"solver: {quote(name)}: {path} has no function {quote(function)}")
    return found
