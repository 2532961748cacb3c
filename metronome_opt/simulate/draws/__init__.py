"""Generators: the jobs of a scenario, drawn anew for every seed.

Random numbers depend on the seed alone, so that all policies get the same jobs. A generator is a
subclass of `Generator`. Other packages add theirs as entry points of the group
``metronome_opt.draws``, each of which names one; studies know them all by name.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, create_model, model_validator

from metronome_opt.errors import InputError, quote
from metronome_opt.plugins import load_plugin, plugins
from metronome_opt.records import Record, refuse
from metronome_opt.simulate.draws.generators import Dynamic, Given, Snapshot, Static
from metronome_opt.simulate.draws.setup import Generator, Setup

__all__ = ["AnyDraw", "Dynamic", "Generator", "Given", "Setup", "Snapshot", "Static"]

_ENTRY_POINTS = "metronome_opt.draws"


class AnyDraw(Record):
    """Generator of jobs with its parameters; exactly one is given."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = list(type(self).model_fields)
        given = [name for name in known if getattr(self, name) is not None]
        if len(given) != 1:
            refuse(
                given[1] if given else known[0],
                f"give exactly one of {', '.join(known)}, found {len(given)}",
            )
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


@cache
def _draw() -> Any:
    """Return the class with a field for each generator; ours keep their names."""
    added = {name: _added(point) for name, point in plugins(_ENTRY_POINTS).items()}
    ours = {"given": Given, "snapshot": Snapshot, "static": Static, "dynamic": Dynamic}
    fields: dict[str, Any] = {
        **{name: (kind | None, None) for name, kind in ours.items()},
        **{name: (kind | None, None) for name, kind in added.items() if name not in ours},
    }
    return create_model("Draw", __base__=AnyDraw, __module__=__name__, **fields)


def _added(point: EntryPoint) -> Any:
    """Return the generator of another package; one that cannot be loaded refuses any value."""
    try:
        kind = load_plugin(point, "draw")
        if not (isinstance(kind, type) and issubclass(kind, Generator)):
            raise InputError(
                f"draw: {quote(point.name)}: {point.value} must be a Generator; mend or remove "
                "the package that adds it"
            )
    except InputError as error:
        message = str(error)
        return Annotated[Generator, BeforeValidator(lambda _: refuse(point.name, message))]
    return kind


def __getattr__(name: str) -> Any:
    """Return `Draw`, an `AnyDraw` with all generators: ``Draw(dynamic=Dynamic(count=3))``.

    It is made on first use, because generators of other packages import this module.
    """
    if name != "Draw":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _draw()
