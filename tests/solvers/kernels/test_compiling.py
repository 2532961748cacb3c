"""Kernels are kept where they can be, and work where nothing can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import pytest

from metronome_opt import compiling


def double(number: int) -> int:
    return 2 * number


def test_kernels_are_cached_by_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path), raising=False)
    assert compiling.kernel(double)(4) == 8
    (folder,) = tmp_path.glob("kernels-*")
    assert list(folder.rglob("*.nbi"))
    assert str(tmp_path) == numba.config.CACHE_DIR  # type: ignore[attr-defined]


def test_kernels_work_without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    njit: Any = numba.njit

    def refusing(**options: bool) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", refusing)
    assert compiling.kernel(double)(4) == 8
