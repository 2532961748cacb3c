"""`static` and `snapshot`: jobs on nodes that are drawn or given, all there from the beginning."""

from __future__ import annotations

import random
from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError, show
from metronome_opt.records import FrozenMap, Name, NonNegative, Positive, Record, refuse
from metronome_opt.scenario.model import Cluster, Work
from metronome_opt.simulate.draws.setup import (
    Generator,
    Mix,
    Model,
    Priorities,
    Seconds,
    Setup,
    Span,
    stream,
)


def take_fragment(
    draw: random.Random, cluster: Cluster, free: Counter[str], workers: int, racks: int
) -> tuple[str, ...] | None:
    """Take a GPU on each of `workers` random nodes, from `racks` racks or as many as it needs.

    Parameters
    ----------
    draw
        Where chance comes from.
    cluster
        The nodes.
    free
        GPUs that are free on each node; those that are taken are subtracted.
    workers, racks
        How many.

    Returns
    -------
    tuple of str or None
        The nodes in order; None if fewer than `workers` have a GPU that is free.
    """
    size = cluster.nodes // cluster.rack_count
    pool: list[str] = []
    for count, rack in enumerate(draw.sample(range(cluster.rack_count), cluster.rack_count), 1):
        names = cluster.node_names[rack * size : (rack + 1) * size]
        pool += [node for node in names if free[node]]
        if count >= racks and len(pool) >= workers:
            break
    if len(pool) < workers:
        return None
    nodes = tuple(sorted(draw.sample(pool, workers)))
    free.subtract(nodes)
    return nodes


ATTEMPTS = 1000
HYBRID_WORKERS = (4, 8)  # one or two replicas of GPT3


class Static(Generator):
    """One job of each of the thirteen models, with workers, priority and batch drawn.

    The jobs come in random order; each draws its workers, its priority and up to `racks` racks, and
    takes random nodes there, one a task, and further racks as long as it does not fit. GPT3 has 4
    or 8 workers.

    Parameters
    ----------
    placement
        ``given``: the jobs stay on the nodes that they drew, and their batches are drawn for the
        rate that they have there. ``chosen``: the same jobs with batches for the full rate of an
        interface; the policy places them.
    mix
        What batches are drawn from.
    racks
        The most that a job asks for.
    workers
        Least and most of all but GPT3.
    priorities
        Classes to draw from.
    seconds
        How long each job would take if the network were its own.
    """

    placement: Literal["given", "chosen"] = "given"
    mix: Mix = "any"
    racks: Positive = 4
    workers: Span = (2, 4)
    priorities: Priorities = (1, 2, 4)
    seconds: Seconds = 300.0

    def jobs(self, setup: Setup, seed: int) -> tuple[Work, ...]:
        """Return the jobs in the order of the shipped scenario."""
        draw, batches = stream(seed, "jobs"), stream(seed, "batches")
        for _ in range(ATTEMPTS):
            placed = self._place(setup, draw)
            if placed is not None:
                return tuple(
                    self._job(setup, name, model, placed[name], batches)
                    for name, model in setup.models.items()
                )
        raise InputError("workers: the cluster has no room for the jobs; use a larger one")

    def _place(
        self, setup: Setup, draw: random.Random
    ) -> dict[str, tuple[int, tuple[str, ...]]] | None:
        """Return priority and nodes of each job; None if one has no room."""
        free = Counter(dict.fromkeys(setup.cluster.node_names, setup.cluster.gpus))
        placed = {}
        for name, model in draw.sample(list(setup.models.items()), len(setup.models)):
            span = HYBRID_WORKERS if model.name == "GPT3" else self.workers
            workers = draw.choice(model.workers(*span))
            racks = draw.randint(1, self.racks)
            nodes = take_fragment(draw, setup.cluster, free, workers, racks)
            if nodes is None:
                return None
            placed[name] = (draw.choice(self.priorities), nodes)
        return placed

    def _job(
        self,
        setup: Setup,
        name: str,
        model: Model,
        placed: tuple[int, tuple[str, ...]],
        draw: random.Random,
    ) -> Work:
        priority, fragment = placed
        workers = len(fragment)
        nodes = fragment if self.placement == "given" else None
        batches = setup.batches(model, workers, self.mix, nodes)
        if not batches:
            raise InputError(f"mix: {self.mix}: no batch of {model.name} fits the hyperperiod")
        batch = draw.choice(batches)
        alone_s = setup.alone_s(model.workload, workers, batch, nodes)
        return Work(
            name=name,
            model=model.name,
            batch=batch,
            workers=workers,
            priority=priority,
            nodes=nodes,
            iterations=max(1, round(self.seconds / alone_s)),
        )


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
