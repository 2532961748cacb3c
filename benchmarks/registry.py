"""The registry: a benchmark is a function that answers one question in figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
"""The folder of results, which is not committed."""


@dataclass(frozen=True)
class Figure:
    """One number that a benchmark found.

    Attributes
    ----------
    name, value, unit
        What it is.
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


@dataclass(frozen=True)
class Benchmark:
    """A registered benchmark.

    Attributes
    ----------
    name, question
        Its name and what it answers.
    run
        Called with `small` and yields figures. A small run does everything once on little data and
        its figures mean nothing: it only shows that the benchmark still works.
    """

    name: str
    question: str
    run: Callable[[bool], Iterator[Figure]]


BENCHMARKS: dict[str, Benchmark] = {}

Run = Callable[[bool], Iterator[Figure]]


def benchmark(question: str) -> Callable[[Run], Run]:
    """Register a function under its own name."""

    def register(function: Run) -> Run:
        name = function.__name__.replace("_", "-")
        BENCHMARKS[name] = Benchmark(name, question, function)
        return function

    return register
