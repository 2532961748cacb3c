"""Compilation of kernels by numba, which stores them; the first one takes minutes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])
_KERNELS = ("solvers/kernels", "engine/fluid")
_KEPT = 2  # versions of all kernels
# Kernels allocate nothing, and return numbers or parts of their arguments. So they need not count
# references to arrays, which took most of the time of the engine and half of that of the solvers.
_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True, "_nrt": False}


def kernel(function: F) -> F:
    """Compile a function at its first call, and store it on disk."""
    njit: Any = numba.njit
    config: Any = numba.config
    usual = config.CACHE_DIR  # NUMBA_CACHE_DIR
    config.CACHE_DIR = str(_folder(usual))
    try:
        # If the folder cannot be written, numba takes one of the user.
        compiled = njit(**_OPTIONS, cache=True)(function)
    except RuntimeError:  # nor that one
        compiled = njit(**_OPTIONS)(function)
    finally:
        config.CACHE_DIR = usual
    return compiled  # type: ignore[no-any-return]


def inner(function: F) -> F:
    """Compile a function that only kernels call, without an entry for Python.

    The arguments are tuples of many arrays, so that the entry would take longer than the function.
    """
    njit: Any = numba.njit
    return njit(**_OPTIONS, no_cpython_wrapper=True)(function)  # type: ignore[no-any-return]


@cache
def _folder(usual: str) -> Path:
    """Return the folder for kernels of the present sources and options.

    Numba compares only the file of a kernel, not the files of functions that it calls.
    """
    package = Path(__file__).parent
    sources = sorted(path for place in _KERNELS for path in (package / place).glob("*.py"))
    digest = sha256(b"".join(map(Path.read_bytes, [Path(__file__), *sources]))).hexdigest()
    parent = Path(usual or package / "__pycache__")
    folder = parent / f"kernels-{digest[:16]}"
    if not folder.exists():
        versions = sorted(parent.glob("kernels-*"), key=lambda path: path.stat().st_mtime)
        for outdated in versions[: 1 - _KEPT]:
            shutil.rmtree(outdated, ignore_errors=True)
    return folder
