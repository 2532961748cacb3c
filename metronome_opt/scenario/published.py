"""Published iterations: how long jobs took, and for how long they sent, as others measured it."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    Positive,
    Record,
    read_record,
    refuse,
)
from metronome_opt.scenario.traffic import MEGABIT_PER_BYTE, Moment, Traffic
from metronome_opt.scenario.workload import Quantity, Rational, file_of, published_files

PUBLISHED_FORMAT = "metronome-published/1"

_NEAR = 2  # factor by which a job's GPUs may differ from those of an iteration
_SHORTEST_MS = Fraction(1, 1000)  # of a burst, of a job that sends nothing
_Text = Annotated[str, Field(min_length=1)]


class PublishedStep(Record):
    """An iteration of a job.

    Parameters
    ----------
    model
        Its name, in lower case.
    gpus, nodes
        Numbers of GPUs and nodes; None where nodes are not known.
    batch
        Samples of one GPU.
    iteration_ms, network_ms
        Length of the iteration, and the part of it in which the job sends.
    """

    model: Name
    gpus: Positive
    nodes: Positive | None = None
    batch: Positive
    iteration_ms: Rational
    network_ms: Moment

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.network_ms > self.iteration_ms:
            sent, whole = float(self.network_ms), float(self.iteration_ms)
            refuse("network_ms", f"{sent:g}: is longer than the iteration, {whole:g} ms")
        return self

    def traffic(self, rate_mbps: int) -> Traffic:
        """Return its traffic, one burst at the end of the iteration.

        Between nodes it is an all-reduce, whose size is what a ring over all GPUs sends out of each
        node in that time, at a rate. Of what is sent inside a node nothing but the time is known.
        """
        length = max(self.network_ms, _SHORTEST_MS)
        burst: dict[str, object] = {"length_ms": length, "rate_mbps": rate_mbps}
        burst["start_ms"] = self.iteration_ms - length
        if self.network_ms and self.gpus > 1 and self.nodes != 1:
            sent = rate_mbps * length / 1000 / MEGABIT_PER_BYTE
            size = math.ceil(sent * self.gpus / (2 * (self.gpus - 1)))
            burst |= {"collective": "all-reduce", "bytes": size}
        return Traffic.model_validate({"period_ms": self.iteration_ms, "phases": [burst]})


class Published(Record):
    """Iterations of several models on one cluster.

    Parameters
    ----------
    name, about
        Their name in scenarios, and a description.
    source, cluster
        Publication with commit and licence; the machines.
    rate_gbps
        Rate of a node during a burst.
    assumed
        Other assumptions on the traffic.
    aliases
        Other names of models, in lower case, with that which their iterations have.
    gpu_hours
        GPU hours of a whole job, by model, where they are published.
    steps
        The iterations.
    """

    format: Literal["metronome-published/1"] = "metronome-published/1"
    name: Name
    about: _Text
    source: _Text
    cluster: _Text
    rate_gbps: Quantity
    assumed: _Text
    aliases: FrozenMap[Name, Name] = Field(default_factory=FrozenDict)
    gpu_hours: FrozenMap[Name, Rational] = Field(default_factory=FrozenDict)
    steps: Annotated[tuple[PublishedStep, ...], Field(strict=False, min_length=1)]

    @property
    def rate_mbps(self) -> int:
        """The rate of a node during a burst, in Mbit/s."""
        return int(1000 * self.rate_gbps.value)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of its models, in order."""
        return tuple(sorted({step.model for step in self.steps}))

    def batches(self, model: str, gpus: int) -> tuple[int, ...]:
        """Return the batches of a model at the number of GPUs that is nearest."""
        near = self.step(model, gpus)
        same = (near.model, near.gpus)
        return tuple(step.batch for step in self.steps if (step.model, step.gpus) == same)

    def step(self, model: str, gpus: int, batch: int | None = None) -> PublishedStep:
        """Return the iteration of a model that is nearest in GPUs, then in batch.

        Parameters
        ----------
        model
            Name or alias, in upper or lower case.
        batch
            None for the smallest one.

        Returns
        -------
        PublishedStep
            Numbers of GPUs and batches are compared by their ratios.

        Raises
        ------
        InputError
            If the model is not in the table; it names the models that are.
        """
        name = self.aliases.get(model.lower(), model.lower())
        steps = [step for step in self.steps if step.model == name]
        if not steps:
            raise InputError(f"{quote(model)} is not in {self.name}, {', '.join(self.models)} are")

        def distance(step: PublishedStep) -> tuple[float, float]:
            of_batch = 0.0 if batch is None else abs(math.log(step.batch / batch))
            return abs(math.log(step.gpus / gpus)), of_batch

        return min(steps, key=distance)

    def traffic(self, model: str, gpus: int, batch: int | None) -> Traffic:
        """Return the traffic of a job; an `InputError` if none of about its size is known."""
        step = self.step(model, gpus, batch)
        if not step.gpus <= _NEAR * gpus <= _NEAR**2 * step.gpus:
            raise InputError(
                f"{quote(model)}: {self.name} has {step.gpus} GPUs next to the {gpus} of the job; "
                "state its traffic"
            )
        return step.traffic(self.rate_mbps)


@cache
def read_published(name: str) -> Published:
    """Read the published iterations of a name, such as ``muri``."""
    path = file_of(name, published_files(), "published", "table")
    return read_record(Published, path)
