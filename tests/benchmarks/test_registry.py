"""Every benchmark runs on little data; its figures are not checked."""

from __future__ import annotations

import pytest

import benchmarks.__main__  # noqa: F401 (registers them)
from benchmarks.registry import BENCHMARKS, Figure


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_each_benchmark_runs_once(name: str) -> None:
    entry = BENCHMARKS[name]
    assert entry.question.endswith("?")
    figures = list(entry.run(True))
    assert figures
    assert all(figure.value >= 0 for figure in figures)


def test_a_bar_says_whether_it_holds() -> None:
    assert Figure("f", 3.0, "s", "<= 4").holds is True
    assert Figure("f", 5.0, "s", "<= 4").holds is False
    assert Figure("f", 5.0, "a second", ">= 4").holds is True
    assert Figure("f", 5.0, "s").holds is None
