"""Generators: the jobs of a scenario, drawn again for every seed.

Random numbers depend on the seed alone, so that all policies get equal jobs.
"""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from metronome_opt.files.records import Record, check_one
from metronome_opt.simulation.generators.context import Generator
from metronome_opt.simulation.generators.jobs import Dynamic, Given, Snapshot, Static
from metronome_opt.simulation.generators.periodic import Periodic
from metronome_opt.simulation.generators.published import Ring
from metronome_opt.simulation.generators.traces import Trace


class Draw(Record):
    """Generator of jobs with its parameters; exactly one is given."""

    given: Given | None = None
    snapshot: Snapshot | None = None
    static: Static | None = None
    dynamic: Dynamic | None = None
    trace: Trace | None = None
    ring: Ring | None = None
    periodic: Periodic | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_one(self, list(type(self).model_fields))
        return self

    @property
    def name(self) -> str:
        """Name of the generator."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def generator(self) -> Generator:
        """Its parameters."""
        generator: Generator = getattr(self, self.name)
        return generator
