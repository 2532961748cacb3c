"""Compiling kernels, and keeping them on disk.

Compiling takes a minute or so. Only what Python calls is a `kernel`, which is wrapped and kept;
everything else is an `inner` function, or compiled `apart`. numba would optimise every function by
itself and once more in each that calls it; the code of inner functions is optimised in the kernels
that they are part of, and nowhere else.
"""

# mypy: allow-untyped-calls
# (numba is not typed)

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.types import unliteral

F = TypeVar("F", bound=Callable[..., Any])
_KEPT = 2  # versions of all kernels


def kernel(function: F) -> F:
    """Compile a function that Python calls when it is called first, and keep it on disk."""
    compiled = _compile(function, _KernelCompiler)
    if compiled is not function:  # numba may be told to compile nothing
        compiled._cache = _Cache(function)
    return compiled  # type: ignore[no-any-return]


def inner(function: F) -> F:
    """Compile a function that nobody but kernels may call into each of these."""
    compiled = _compile(function, _InnerCompiler, no_cpython_wrapper=True)
    if compiled is not function:
        compiled.__class__ = _InnerDispatcher
    return compiled  # type: ignore[no-any-return]


def apart(function: F) -> F:
    """Compile a function for kernels by itself, as numba does.

    The simulator gets through 5 % more events so than if a kernel is optimised as a whole.
    """
    njit: Any = numba.njit
    wrap = njit(nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
    return wrap(function)  # type: ignore[no-any-return]


def _compile(function: F, compiler: type, **options: bool) -> Any:
    njit: Any = numba.njit
    wrap = njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=compiler, **options)
    compiled = wrap(function)
    if compiled is not function:
        template = compiled.get_call_template
        # Otherwise it would be compiled once more for each constant that it is called with.
        compiled.get_call_template = lambda args, kws: template(tuple(map(unliteral, args)), kws)
    return compiled


class _InnerDispatcher(CPUDispatcher):
    def __call__(self, *_: object, **__: object) -> None:  # it would end the process
        raise TypeError(f"{self.py_func.__name__}: nobody but kernels may call it")


class _InnerLibrary(JITCodeLibrary):
    """The code of an inner function, for others to link; there is nothing of it to be run."""

    codegen = property(lambda self: self)

    def finalize(self) -> None:
        """Leave the code as it is."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, _: str) -> int:
        """Return that there is none."""
        return 0

    def set_env(self, *_: object) -> None:
        """Forget what code that runs by itself would need."""


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel and of all inner functions that are called by it."""

    def finalize(self) -> None:
        """Link and optimise all of it at once."""
        found: dict[Any, None] = {}
        _find_libraries(self._linking_libraries, found)
        # LLVM drops what nobody has called yet: whoever calls comes before what is called.
        self._linking_libraries = list(found)[::-1]
        super().finalize()


def _find_libraries(libraries: Iterable[Any], found: dict[Any, None]) -> None:
    """Add libraries to `found`, each after those that it needs itself."""
    for library in libraries:
        if library not in found:
            if isinstance(library, _InnerLibrary):
                _find_libraries(library._linking_libraries, found)
            found[library] = None


class _KernelCompiler(Compiler):
    library: type[JITCodeLibrary] = _KernelLibrary

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """Compile a function into a library of the right kind."""
        self.state.library = self.library(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


class _InnerCompiler(_KernelCompiler):
    library = _InnerLibrary


class _Cache(FunctionCache):
    """Kernels on disk, in a folder for these very sources of all of them.

    numba would only look at the file of the kernel that it loads, not at those that this one calls.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        parent = Path(self.cache_path)
        folder = parent / _digest()
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            versions = sorted(parent.glob("kernels-*"), key=lambda each: each.stat().st_mtime)
            for outdated in versions[:-_KEPT]:
                shutil.rmtree(outdated, ignore_errors=True)
        self._cache_file = IndexDataCacheFile(str(folder), self._impl.filename_base, "")

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what is kept for a signature, None if nothing is."""
        _load_numba(target)
        return super().load_overload(signature, target)


@cache
def _digest() -> str:
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return "kernels-" + sha256(b"".join(map(Path.read_bytes, sources))).hexdigest()[:16]


def _load_numba(target: Any) -> None:
    """Load the rest of numba without scipy.linalg, whose BLAS it looks for and no kernel needs.

    That takes 0.3 s, half of the whole. numba looks again once somebody multiplies matrices.
    """
    from numba.np import linalg

    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        target.refresh()
    finally:
        linalg.ensure_blas = look
