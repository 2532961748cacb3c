"""The inner loops: pure functions on integer arrays, compiled by numba and kept on disk.

Compiling takes a minute or so, most of it for what numba wraps around a function: so only what
Python calls is a `kernel`, which is wrapped and kept, and everything else an `inner` one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function that Python calls when it is called first, and keep it on disk.

    What is kept is in a folder for these very sources of all kernels: numba would only look at the
    file of the kernel that it loads, not at those that this one calls.
    """
    compiled = _compile(function, cache=True)
    if compiled is not function:  # numba may be told to compile nothing
        from numba.core import caching

        index: Any = caching.IndexDataCacheFile
        kept, folder = compiled._cache, Path(compiled._cache.cache_path) / _digest()
        folder.mkdir(exist_ok=True)
        name = kept._impl.filename_base
        kept._cache_file = index(str(folder), name, "")
    return compiled  # type: ignore[no-any-return]


def inner(function: F) -> F:
    """Compile a function that nobody but kernels may call into each of these."""
    compiled = _compile(function, no_cpython_wrapper=True)
    if compiled is not function:
        compiled.__class__ = _refusing(compiled.__class__)  # to call it would end the process
    return compiled  # type: ignore[no-any-return]


@cache
def _refusing(dispatcher: Any) -> type:
    def refuse(self: Any, *_: object, **__: object) -> None:
        raise TypeError(f"{self.__name__}: nobody but kernels may call it")

    return type("InnerDispatcher", (dispatcher,), {"__call__": refuse})


def _compile(function: F, **options: bool) -> Any:
    import numba
    from numba.core.types import unliteral

    njit: Any = numba.njit
    compiled = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if compiled is not function:
        template = compiled.get_call_template
        # Otherwise it would be compiled once more for each constant that it is called with.
        compiled.get_call_template = lambda args, kws: template(tuple(map(unliteral, args)), kws)
    return compiled


@cache
def _digest() -> str:
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return "kernels-" + sha256(b"".join(map(Path.read_bytes, sources))).hexdigest()[:16]
