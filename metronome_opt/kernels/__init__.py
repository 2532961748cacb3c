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
    """Compile a function that Python calls when it is called first, and keep it on disk."""
    compiled = _compile(function, cache=True)
    if compiled is not function:  # numba may be told to compile nothing
        # What is kept is good as long as no kernel changes; numba would only look at its own file.
        compiled._cache._cache_file._source_stamp = _digest()
    return compiled  # type: ignore[no-any-return]


def inner(function: F) -> F:
    """Compile a function that nobody but kernels may call into each of these."""
    compiled = _compile(function, no_cpython_wrapper=True)
    if compiled is not function:
        dispatcher: Any = type(compiled)
        compiled.__class__ = _refusing(dispatcher)  # to call it would end the process
    return compiled  # type: ignore[no-any-return]


@cache
def _refusing(dispatcher: type) -> type:
    def refuse(self: Any, *_: object, **__: object) -> None:
        raise TypeError(f"{self.__name__}: nobody but kernels may call it")

    return type("InnerDispatcher", (dispatcher,), {"__call__": refuse})


def _compile(function: F, **options: bool) -> Any:
    from numba import njit
    from numba.core.types import unliteral

    compile_: Any = njit  # whose types do not name all options
    compiled = compile_(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if compiled is not function:
        template = compiled.get_call_template
        # Otherwise it would be compiled once more for each constant that it is called with.
        compiled.get_call_template = lambda args, kws: template(tuple(map(unliteral, args)), kws)
    return compiled


@cache
def _digest() -> str:
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
