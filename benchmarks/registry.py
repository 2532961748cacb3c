"""The registry: a benchmark is a function that answers one question in figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results"
"""The folder of results, which is not committed."""


class Figure(NamedTuple):
    """One number that a benchmark found.

    Attributes
    ----------
    bar
        What it should be at most (``"<= 4"``) or at least; empty where nothing is asked.
    """

    name: str
    value: float
    unit: str
    bar: str = ""

    @property
    def holds(self) -> bool | None:
        """True if the bar holds; None without a bar."""
        if not self.bar:
            return None
        relation, limit = self.bar.split()
        return self.value <= float(limit) if relation == "<=" else self.value >= float(limit)


Run = Callable[[bool], Iterator[Figure]]


class Benchmark(NamedTuple):
    """A question, and the function that answers it.

    A small run does everything once on little data, and its figures mean nothing: it only shows
    that the benchmark still works.
    """

    question: str
    run: Run


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(question: str) -> Callable[[Run], Run]:
    """Register a function under its own name."""

    def register(function: Run) -> Run:
        BENCHMARKS[function.__name__.replace("_", "-")] = Benchmark(question, function)
        return function

    return register
