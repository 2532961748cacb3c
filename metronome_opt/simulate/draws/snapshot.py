"""`snapshot`: a few jobs on the same two nodes, which share one link."""

from __future__ import annotations

import random
from typing import Annotated, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError, show
from metronome_opt.records import FrozenMap, Name, NonNegative, Positive, Record, refuse
from metronome_opt.scenario.model import Work
from metronome_opt.simulate.draws.generator import Generator, Seconds
from metronome_opt.simulate.draws.setup import Setup, stream

WORKERS = 2  # one on each node


class Member(Record):
    """A job of a mix: model, batch and priority."""

    model: Name
    batch: Positive
    priority: NonNegative = 1


class Snapshot(Generator):
    """Jobs of two workers, one on each of the first two nodes.

    All of them cross the interfaces of both nodes, so that they share one link, twice. A job
    arrives within the length of its first iteration; when is what the seed draws.

    Parameters
    ----------
    mixes
        The jobs of each mix, by the name of the mix.
    mix
        Which of them; the first if none is named.
    seconds
        How long each job would take if the network were its own.
    """

    mixes: FrozenMap[Name, Annotated[tuple[Member, ...], Field(strict=False)]]
    mix: Name | None = None
    seconds: Seconds = 120.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.mixes:
            refuse("mixes", "empty; name at least one")
        for name, members in self.mixes.items():
            if not members:
                refuse(f"mixes.{name}", "empty; name a model and its batch")
        if self.mix is not None and self.mix not in self.mixes:
            refuse("mix", f"there is no mix {show(self.mix)}; there are {', '.join(self.mixes)}")
        return self

    def jobs(self, setup: Setup, seed: int) -> tuple[Work, ...]:
        """Return the jobs of the mix in its order."""
        if setup.cluster.nodes < 2:
            raise InputError(f"mixes: jobs need two nodes, the cluster has {setup.cluster.nodes}")
        nodes = setup.cluster.node_names[:2]
        mix = self.mixes[self.mix or next(iter(self.mixes))]
        draw = stream(seed, "arrivals")
        return tuple(
            self._job(setup, index, member, nodes, draw) for index, member in enumerate(mix)
        )

    def _job(
        self,
        setup: Setup,
        index: int,
        member: Member,
        nodes: tuple[str, ...],
        draw: random.Random,
    ) -> Work:
        alone_s = setup.alone_s(setup.workload(member.model), WORKERS, member.batch, nodes)
        return Work(
            name=f"{member.model.lower()}-{index}",
            model=member.model,
            batch=member.batch,
            workers=WORKERS,
            priority=member.priority,
            nodes=nodes,
            arrival_s=alone_s * draw.random(),
            iterations=max(1, round(self.seconds / alone_s)),
        )
