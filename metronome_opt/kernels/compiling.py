"""Compilation of kernels by numba, which keeps them on disk.

All of them take a minute or two, once. `python -m metronome_opt.kernels` compiles them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function when it is called first, and keep it on disk."""
    njit: Any = numba.njit
    try:
        compiled = njit(nogil=True, cache=True)(function)
        if compiled is not function:  # NUMBA_DISABLE_JIT leaves functions as they are
            _remove_outdated(Path(compiled.stats.cache_path))
    except (RuntimeError, OSError):  # no folder can be written, not even that of the user
        compiled = njit(nogil=True)(function)
    return compiled  # type: ignore[no-any-return]


@cache
def _remove_outdated(folder: Path) -> None:
    """Empty a folder of kernels that were compiled from other sources.

    numba looks at the file of the kernel that it loads, not at those that this one calls.
    """
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    digest = sha256(b"".join(map(Path.read_bytes, sources))).hexdigest()
    stamp = folder / "sources.sha256"
    if not stamp.exists() or stamp.read_text() != digest:
        for kept in folder.glob("*.nb[ci]"):
            kept.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        stamp.write_text(digest)
