"""A smaller instance and the map that leads back from its schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from metronome_opt.instance import Instance

Offsets = Mapping[str, int]


@dataclass(frozen=True)
class Reduction:
    """An instance with the same optimal contention as a larger one.

    Attributes
    ----------
    instance
        The smaller instance; its jobs keep their names.
    restore
        Maps offsets of the smaller instance to offsets of the larger one, of the same contention.
    """

    instance: Instance
    restore: Callable[[Offsets], dict[str, int]]
