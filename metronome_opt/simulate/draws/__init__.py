"""Generators: the jobs of a scenario, drawn anew for every seed.

Chance comes from the seed alone, never from a policy, so that all policies meet the same jobs.
"""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from metronome_opt.records import Record, refuse
from metronome_opt.simulate.draws.dynamic import Dynamic
from metronome_opt.simulate.draws.setup import Generator, Given, Setup
from metronome_opt.simulate.draws.static import Snapshot, Static

__all__ = ["Draw", "Dynamic", "Generator", "Given", "Setup", "Snapshot", "Static"]


class Draw(Record):
    """Which generator makes the jobs, with its parameters; exactly one is given."""

    given: Given | None = None
    snapshot: Snapshot | None = None
    static: Static | None = None
    dynamic: Dynamic | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = list(type(self).model_fields)
        found = [name for name in known if getattr(self, name) is not None]
        if len(found) != 1:
            refuse(
                found[1] if found else known[0],
                f"give exactly one of {', '.join(known)}, found {len(found)}",
            )
        return self

    @property
    def name(self) -> str:
        """Which one."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def generator(self) -> Generator:
        """Its parameters."""
        generator: Generator = getattr(self, self.name)
        return generator
