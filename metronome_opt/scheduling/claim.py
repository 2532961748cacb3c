"""Claims in force, and what may happen to a cluster: one record each, so that it can be kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from metronome_opt.records import Name, NonNegative, Record
from metronome_opt.scheduling.gang import Gang


class Claim(Record):
    """A job that has its place.

    Parameters
    ----------
    gang, nodes
        What it asked for, and the node of each of its tasks.
    offset
        When its pattern begins, in slots.
    stretch
        Idle slots at the end of each iteration.
    """

    gang: Gang
    nodes: Annotated[tuple[Name, ...], Field(strict=False)]
    offset: NonNegative
    stretch: NonNegative = 0

    @property
    def job(self) -> str:
        """Name of the job."""
        return self.gang.name

    @property
    def period(self) -> int:
        """Length of an iteration with its idle time, in slots."""
        return self.gang.period + self.stretch


class Reserved(Record):
    """All claims of a job came into force."""

    event: Literal["reserve"] = "reserve"
    claim: Claim


class Unreserved(Record):
    """A job gave back all that it had."""

    event: Literal["unreserve"] = "unreserve"
    job: Name


class Revised(Record):
    """Running jobs changed what they claim, all at once: their offsets, say, or their traffic."""

    event: Literal["revise"] = "revise"
    claims: Annotated[tuple[Claim, ...], Field(strict=False)]


class CapacityChanged(Record):
    """A link carries more or less than before, in Mbit/s; 0 if it failed."""

    event: Literal["capacity"] = "capacity"
    link: Name
    capacity: NonNegative


class NodeChanged(Record):
    """A node takes no more tasks, or does again. What runs there is not touched."""

    event: Literal["node"] = "node"
    node: Name
    up: bool


Event = Annotated[
    Reserved | Unreserved | Revised | CapacityChanged | NodeChanged, Field(discriminator="event")
]
"""Anything that changes a cluster."""
