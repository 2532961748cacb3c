"""Generators of given jobs, a snapshot on two nodes, one job of each model, and arrivals."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError, pluralise, quote
from metronome_opt.files.records import FrozenMap, Name, NonNegative, Positive, Record, refuse
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.collectives import AllReduce
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.job_traffic import RINGS
from metronome_opt.simulation.generators.context import (
    Arrivals,
    Generator,
    GeneratorContext,
    Mix,
    Priorities,
    Seconds,
    Span,
    nodes_by_rack,
    stream,
)

_ATTEMPTS = 1000
_HYBRID_WORKERS = (4, 8)  # one or two replicas of GPT3


class Given(Generator):
    """Given jobs, equal for every seed; the seed only affects disturbances.

    Parameters
    ----------
    work
        The jobs, as in a scenario.
    """

    work: Annotated[tuple[JobSpec, ...], Field(strict=False)]

    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:  # noqa: ARG002 (as all generators)
        """Return the jobs."""
        return self.work


class _Member(Record):
    """A job of a mix: model, batch and priority."""

    model: Name
    batch: Positive
    priority: NonNegative = 1


class Snapshot(Generator):
    """Jobs of two workers, one on each of the first two nodes.

    All of them cross the interfaces of both nodes, so that they share one link, twice. A job
    arrives within the length of its first iteration; the seed draws when.

    Parameters
    ----------
    mixes
        The jobs of each mix, by the name of the mix.
    mix
        Name of the mix; the first if omitted.
    seconds
        Duration of isolated jobs.
    """

    mixes: FrozenMap[Name, Annotated[tuple[_Member, ...], Field(strict=False)]]
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
            refuse("mix", f"there is no mix {quote(self.mix)}; there are {', '.join(self.mixes)}")
        return self

    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs of the mix in its order."""
        nodes = tuple(node.name for node in context.cluster.nodes[:2])
        if len(nodes) < 2:
            raise InputError("mixes: jobs need two nodes, the cluster has 1")
        draw, jobs = stream(seed, "arrivals"), []
        for index, member in enumerate(self.mixes[self.mix or next(iter(self.mixes))]):
            model = context.model(member.model, member.batch)
            isolated_s = context.isolated_s(model, len(nodes), model.batch, nodes)
            jobs.append(
                model.job(
                    f"{member.model.lower()}-{index}",
                    len(nodes),
                    model.batch,
                    priority=member.priority,
                    nodes=nodes,
                    arrival_s=isolated_s * draw.random(),
                    iterations=max(1, round(self.seconds / isolated_s)),
                )
            )
        return tuple(jobs)


def take_fragment(
    draw: random.Random, cluster: Cluster, free: Counter[str], workers: int, racks: int
) -> tuple[str, ...] | None:
    """Take a GPU on random nodes of some racks, or of more racks if it needs them; None if too few.

    Free GPUs by node are decreased.
    """
    names = nodes_by_rack(cluster)
    pool: list[str] = []
    for count, rack in enumerate(draw.sample(list(names), len(names)), 1):
        pool += [node for node in names[rack] if free[node]]
        if count >= racks and len(pool) >= workers:
            break
    if len(pool) < workers:
        return None
    nodes = tuple(sorted(draw.sample(pool, workers)))
    free.subtract(nodes)
    return nodes


class Static(Generator):
    """One job of each of the thirteen models, with workers, priority and batch drawn.

    In random order, jobs draw their workers, their priorities and up to `racks` racks, and take
    random nodes there, one per task, and further racks as long as they do not fit. GPT3 has 4 or 8
    workers.

    Parameters
    ----------
    placement
        ``given``: the jobs stay on the nodes that they drew, and their batches are drawn for the
        rate that they have there. ``chosen``: the same jobs with batches for the full rate of an
        interface; the policy places them.
    mix
        Set of batches to draw from.
    racks
        Maximum number of racks of a job.
    workers
        Minimum and maximum, for all models but GPT3.
    priorities
        Classes to draw from.
    seconds
        Duration of isolated jobs.
    """

    placement: Literal["given", "chosen"] = "given"
    mix: Mix = "any"
    racks: Positive = 4
    workers: Span = (2, 4)
    priorities: Priorities = (1, 2, 4)
    seconds: Seconds = 300.0

    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs in the order of the shipped scenario."""
        draw, batches = stream(seed, "jobs"), stream(seed, "batches")
        attempts = (self._place(context, draw) for _ in range(_ATTEMPTS))
        placed = next((attempt for attempt in attempts if attempt is not None), None)
        if placed is None:
            raise InputError("workers: the cluster has no room for the jobs; use a larger one")
        jobs = []
        for name, model in context.models.items():
            priority, fragment = placed[name]
            workers, nodes = len(fragment), fragment if self.placement == "given" else None
            batch = batches.choice(context.batches(model, workers, self.mix, nodes))
            iterations = round(self.seconds / context.isolated_s(model, workers, batch, nodes))
            fields = {"priority": priority, "nodes": nodes, "iterations": max(1, iterations)}
            jobs.append(model.job(name, workers, batch, **fields))
        return tuple(jobs)

    def _place(
        self, context: GeneratorContext, draw: random.Random
    ) -> dict[str, tuple[int, tuple[str, ...]]] | None:
        """Return priority and nodes of each job; None if one does not fit."""
        free = Counter(context.cluster.gpus_of)
        placed = {}
        for name, model in draw.sample(list(context.models.items()), len(context.models)):
            span = _HYBRID_WORKERS if model.name == "GPT3" else self.workers
            workers = draw.choice(model.workers(*span))
            racks = draw.randint(1, self.racks)
            nodes = take_fragment(draw, context.cluster, free, workers, racks)
            if nodes is None:
                return None
            placed[name] = (draw.choice(self.priorities), nodes)
        return placed


class Dynamic(Arrivals):
    """Jobs of the thirteen models, drawn uniformly; see `Model.workers`.

    Parameters
    ----------
    mix
        Set of batches to draw from.
    allreduce
        Of the models that send no more than all-reduces among all workers; omitted, as of a job.
    """

    mix: Mix = "any"
    allreduce: AllReduce | None = None

    def draw(self, context: GeneratorContext, seed: int) -> Iterator[tuple[JobSpec, float]]:
        """Yield random jobs without end, with their GPU-seconds."""
        if self.workers[1] > context.gpus:
            raise InputError(
                f"workers: {self.workers[1]}: the cluster has {pluralise(context.gpus, 'GPU')}"
            )
        draw = stream(seed, "jobs")
        classes, batches = stream(seed, "priorities"), stream(seed, "batches")
        models = list(context.models.values())
        while True:
            model = draw.choice(models)
            workers = draw.choice(model.workers(*self.workers))
            iterations = draw.randint(*self.iterations)
            batch = batches.choice(context.batches(model, workers, self.mix))
            fields: dict[str, Any] = {"iterations": iterations}
            fields["priority"] = classes.choice(self.priorities)
            if self.allreduce is not None and model.source.kind in RINGS:
                fields["allreduce"] = self.allreduce
            job = model.job(model.name, workers, batch, **fields)
            yield job, workers * iterations * context.isolated_s(model, workers, batch)
