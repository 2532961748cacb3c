"""Families of instances: a generator, and the cases that are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from metronome_opt.problem.instance import Instance

Split = Literal["test", "tune"]
Parameters = Mapping[str, Any]
Made = Instance | Mapping[str, Any]
"""An instance, or the document of a scenario."""
Generator = Callable[..., Made]

Size = tuple[str, Parameters]
"""The size of a case as it stands in its name, perhaps empty, and its parameters."""

FIRST_SEED: Mapping[Split, int] = {"test": 0, "tune": 1000}
"""Seeds are counted from here, through all sizes of a family, so that no two cases share one."""


@dataclass(frozen=True)
class Case:
    """One stored instance and how it is made.

    Attributes
    ----------
    name
        ``<family>[-<size>]-<split>-<number>``; the name of the instance as well.
    split
        Solvers are tuned on ``tune`` only; results are told of ``test``.
    generate
        Called with the name, the seed and the parameters.
    parameters, seed
        What else it is called with; the seed is None where nothing is drawn.
    """

    name: str
    split: Split
    generate: Generator
    parameters: Parameters
    seed: int | None

    @property
    def generator(self) -> str:
        """Where the generator is, as ``module:function``."""
        return f"{self.generate.__module__}:{self.generate.__name__}"

    def problem(self) -> Made:
        """Make the instance, or the scenario, anew."""
        return self.generate(self.name, self.seed, **self.parameters)


@dataclass(frozen=True)
class Family:
    """Instances of one kind.

    Attributes
    ----------
    name, about
        What it is, the latter in one line.
    version
        Counts up when the generator changes what it makes.
    time_limit_s
        Seconds that a solver gets by default.
    cases
        All stored instances.
    """

    name: str
    about: str
    version: int
    time_limit_s: int
    cases: tuple[Case, ...]


def cases(
    stem: str, generate: Generator, *, test: Iterable[Size], tune: Iterable[Size] = ()
) -> tuple[Case, ...]:
    """Return cases whose names begin with `stem`, the family, each with a seed of its own."""
    made = []
    splits: Mapping[Split, Iterable[Size]] = {"test": test, "tune": tune}
    for split, sizes in splits.items():
        counts: Counter[str] = Counter()
        for seed, (size, parameters) in enumerate(sizes, FIRST_SEED[split]):
            head = f"{stem}-{size}" if size else stem
            name = f"{head}-{split}-{counts[size]}"
            counts[size] += 1
            made.append(Case(name, split, generate, parameters, seed))
    return tuple(made)
