"""A schedule and how it was found, before the judge has seen it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from metronome_opt.result import Block, Event, Level, Stop


@dataclass
class Found:
    """A schedule and how it was found.

    Attributes
    ----------
    offsets, stretch
        By job name, in slots.
    levels
        What was optimised, in order.
    bound
        Of the first objective, None if there is none.
    """

    offsets: dict[str, int]
    stretch: dict[str, int] = field(default_factory=dict)
    levels: list[Level] = field(default_factory=list)
    bound: Fraction | None = None
    stop: Stop = Stop.FINISHED
    build_s: float = 0.0
    trajectory: tuple[Event, ...] = ()
    notes: list[str] = field(default_factory=list)
    blocks: tuple[Block, ...] = ()


def scaled_block(block: Block, factor: Fraction) -> Block:
    """Return what is known of a block with its values in another unit."""
    return replace(
        block,
        value=None if block.value is None else block.value * factor,
        bound=None if block.bound is None else block.bound * factor,
    )
