"""A value inside an object, which knows its place, so that what is wrong with it is one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from metronome_opt.errors import InputError, place, show
from metronome_opt.kubernetes.quantities import parse_quantity

_LARGEST = 2**63 - 1  # integers of Kubernetes have 64 bits


@dataclass(frozen=True)
class Field:
    """A value and where it stands.

    Attributes
    ----------
    value
        What is there; None if nothing is, which to Kubernetes is the same as null.
    where
        The object: its file, kind and name.
    path
        The place in the object.
    """

    value: Any
    where: str
    path: tuple[str | int, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is there."""
        return self.value is not None

    def __truediv__(self, name: str) -> Field:
        """Return a field of this mapping; an empty one if it is not there."""
        if self.value is not None and not isinstance(self.value, dict):
            self.fail("must be a mapping")
        value = None if self.value is None else self.value.get(name)
        return replace(self, value=value, path=(*self.path, name))

    def fail(self, message: str) -> NoReturn:
        """Refuse the value.

        Raises
        ------
        InputError
            One line: the object, the place, `message` and the value.
        """
        found = f", got {show(self.value)}" if self else ""
        raise InputError(
            f"{self.where}: {place(list(self.path)) or 'the object'}: {message}{found}"
        )

    def text(self, default: str | None = None) -> str:
        """Return text that is not empty; refuse what is missing if there is no default."""
        if not self and default is not None:
            return default
        if not self:
            self.fail("missing")
        if not isinstance(self.value, str) or not self.value:
            self.fail("must be text that is not empty")
        return self.value

    def integer(self, least: int, default: int | None = None, most: int = _LARGEST) -> int:
        """Return an integer of a range; refuse what is missing if there is no default."""
        if not self and default is not None:
            return default
        if not self:
            self.fail("missing")
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail("must be an integer")
        if not least <= self.value <= most:
            self.fail(f"must be between {least} and {most}")
        return self.value

    def flag(self) -> bool:
        """Return a truth value, false if it is missing."""
        if self and not isinstance(self.value, bool):
            self.fail("must be true or false")
        return bool(self.value)

    def quantity(self) -> Fraction:
        """Return a Kubernetes quantity, in its own unit, not negative."""
        if not self:
            self.fail("missing")
        try:
            return parse_quantity(self.value)
        except InputError as error:
            self.fail(str(error))

    def items(self) -> list[Field]:
        """Return the elements of a list; none if it is missing."""
        if not self:
            return []
        if not isinstance(self.value, list):
            self.fail("must be a list")
        return [
            replace(self, value=value, path=(*self.path, index))
            for index, value in enumerate(self.value)
        ]

    def entries(self) -> Mapping[str, Field]:
        """Return the fields of a mapping by name; none if it is missing."""
        if self and not isinstance(self.value, dict):
            self.fail("must be a mapping")
        return {str(name): self / name for name in self.value or {}}

    def texts(self) -> Mapping[str, str]:
        """Return a mapping of text to text, as labels and annotations are."""
        found = {}
        for name, field in self.entries().items():
            if not isinstance(field.value, str):
                field.fail("must be text; put it in quotes")
            found[name] = field.value
        return found
