"""What all generators of jobs have in common, and the kinds of parameters that several have."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from metronome_opt.records import Record
from metronome_opt.scenario.model import Work
from metronome_opt.simulate.draws.setup import Setup

MAX_ITERATIONS = 10**9


class Generator(Record, ABC):
    """Parameters from which, with a seed, the jobs of a scenario are drawn."""

    @abstractmethod
    def jobs(self, setup: Setup, seed: int) -> tuple[Work, ...]:
        """Return the jobs; the same parameters, setup and seed give the same ones.

        Raises
        ------
        InputError
            If there are none for these parameters; the text begins with the parameter's name.
        """


def _classes(value: Any) -> Any:
    """Read classes of priority: text such as ``1/4/16``, so that it can stand in a grid."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(/[0-9]{1,9})*", value):
        return tuple(map(int, value.split("/")))
    if isinstance(value, tuple):  # as it is read already
        return value
    raise PydanticCustomError("classes", "must be text such as '1/2/4'")


def _written(value: tuple[int, ...]) -> str:
    return "/".join(map(str, value))


def _ordered(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise PydanticCustomError("ordered", "must be the least and the most, in this order")
    return value


Priorities = Annotated[tuple[int, ...], BeforeValidator(_classes), PlainSerializer(_written)]
"""Classes of priority that jobs are drawn from evenly, written ``1/2/4``."""

Span = Annotated[
    tuple[
        Annotated[int, Field(ge=1, le=MAX_ITERATIONS)],
        Annotated[int, Field(ge=1, le=MAX_ITERATIONS)],
    ],
    Field(strict=False),
    AfterValidator(_ordered),
]
"""The least and the most of what is drawn evenly."""

Seconds = Annotated[float, Field(gt=0, le=10**7, allow_inf_nan=False)]
