"""Measured traffic: from a training step that one device ran to the bursts of an iteration.

A record says how long the passes take and when the gradients of each bucket are ready, by their
medians. Notation: n workers with a device each, in p stages, so that n / p of them reduce the same
gradients; m micro-batches.

Collectives begin as soon as they are ready, one after the other, beside the computing; only an
all-to-all makes the computing wait. The optimiser begins when all is computed and sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError, pluralise, quote
from metronome_opt.files.records import (
    FrozenMap,
    Jitter,
    Name,
    NonNegative,
    Positive,
    Record,
    refuse,
)
from metronome_opt.scenario.collectives import TrainingStep
from metronome_opt.scenario.traffic import Moment, transfer
from metronome_opt.scenario.workload import MAX_COUNT, Rational, data_folder, file_of, find_files

MEASURED = {"measured": "bfloat16", "measured-tf32": "tf32"}  # traffic of jobs; its precision

_Text = Annotated[str, Field(min_length=1)]
_Bytes = Annotated[int, Field(ge=1, le=MAX_COUNT)]
_Few = Annotated[int, Field(ge=1, le=1024)]  # bursts of an iteration are listed one by one


class _Spread(Record):
    """A time of each step in ms: its median, and its 5th and 95th percentile."""

    median: Moment
    low: Moment
    high: Moment

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            refuse("low", f"{float(self.low):g}: is above high, {float(self.high):g}")
        return self


class _Lasting(_Spread):
    """A time that is not 0."""

    median: Rational


class _Device(Record):
    """The device that a step was measured on.

    Parameters
    ----------
    threads
        Threads of a CPU; None where they do not matter.
    driver
        Driver of a GPU; None where there is none.
    """

    kind: Literal["cpu", "cuda"]
    name: Name
    threads: Positive | None
    driver: str | None

    def __str__(self) -> str:
        threads = f", {pluralise(self.threads, 'thread')}" if self.threads else ""
        return f"{self.name} ({self.kind}{threads})"


class _Bucket(Record):
    """Gradients that are all-reduced together, and when the last of them is ready.

    Parameters
    ----------
    ready_ms
        Since the backward pass began.
    """

    bytes: _Bytes
    ready_ms: _Spread


class _Exchange(Record):
    """Traffic besides gradients, in each micro-batch.

    Parameters
    ----------
    kind
        An all-to-all makes the computing wait; a hand-over to another stage does not.
    bytes
        The size that a worker holds for all, or hands over.
    begin, after_ms
        When, in computing time since the beginning of a pass.
    """

    kind: Literal["all-to-all", "hand-over"]
    bytes: _Bytes
    begin: Literal["forward", "backward"]
    after_ms: Moment


class MeasuredStep(Record):
    """A training step of a model as it was measured on one device, and how.

    Parameters
    ----------
    model, configuration, sample
        The model, its configuration, and a sample of its data.
    sample_share
        The sample's size over that of the workload's: of a sequence that is shorter.
    batch
        Samples of a step; of a micro-batch where there are stages.
    precision, optimizer, parameters, memory_mib
        How it was trained; the parameters are those that the device reduces.
    device, software, command, commit
        Where, with what, and by which call of which commit of the measuring script.
    warmup, steps
        Steps that were run first, and steps that were measured then.
    forward_ms, backward_ms, optimizer_ms
        Durations of the parts of a step, nothing being sent.
    buckets
        Sent as soon as they are ready, one after the other.
    exchanges
        Other traffic; data-parallel models have none.
    stages, microbatches
        Stages of a pipeline, of which the device held one; times are of one micro-batch then.
    jitter
        Standard deviation of the time of a step, as a share of it; of older records None.
    """

    format: Literal["metronome-measured/1"] = "metronome-measured/1"
    model: Name
    configuration: _Text
    sample: _Text
    sample_share: Rational
    batch: Positive
    precision: _Text
    optimizer: _Text
    parameters: _Bytes
    device: _Device
    software: FrozenMap[Name, str | None]
    command: _Text
    commit: str | None
    warmup: NonNegative
    steps: Positive
    forward_ms: _Lasting
    backward_ms: _Lasting
    optimizer_ms: _Spread
    memory_mib: NonNegative
    buckets: Annotated[tuple[_Bucket, ...], Field(strict=False, min_length=1)]
    exchanges: Annotated[tuple[_Exchange, ...], Field(strict=False)] = ()
    stages: _Few = 1
    microbatches: _Few = 1
    jitter: Jitter = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for index, bucket in enumerate(self.buckets):
            where = f"buckets[{index}].ready_ms.median"
            self._check_inside(where, bucket.ready_ms.median, "backward")
        for index, exchange in enumerate(self.exchanges):
            self._check_inside(f"exchanges[{index}].after_ms", exchange.after_ms, exchange.begin)
        if self.stages > 1 and all(exchange.kind != "hand-over" for exchange in self.exchanges):
            refuse("exchanges", f"no hand-over; {self.stages} stages hand activations over")
        return self

    @property
    def kind(self) -> str:
        """The parallelism in words, such as ``data-parallel``."""
        if self.stages > 1:
            return "pipeline-parallel"
        return "embedding-parallel" if self.exchanges else "data-parallel"

    def check_batch(self, batch: int | None) -> None:
        """Refuse a batch that is not the record's; None, which leaves it open, is not refused."""
        if batch not in (None, self.batch):
            raise InputError(
                f"batch: {batch}: the step of {self.model} was measured with {self.batch}; "
                "leave batch out"
            )

    def step(self, gpus: int) -> TrainingStep:
        """Return the iteration of a job of `gpus` GPUs, a multiple of the stages.

        Buckets are all-reduced among the GPUs of a stage once they are ready, one after the other;
        the optimiser waits for all of them.
        """
        replicas, left = divmod(gpus, self.stages)
        if left:
            raise InputError(
                f"workers: {gpus}: must be a multiple of the {self.stages} stages that "
                f"{self.model} was measured in"
            )
        forward, backward = self.forward_ms.median, self.backward_ms.median
        drained = self.microbatches * forward + (self.stages - 1) * (forward + backward)
        end = drained + self.microbatches * backward
        begins = {
            "forward": [number * forward for number in range(self.microbatches)],
            "backward": [drained + number * backward for number in range(self.microbatches)],
        }
        group = None if self.stages == 1 else replicas
        transfers = [
            transfer("all-to-all", exchange.bytes, begin + exchange.after_ms, group=group)
            if exchange.kind == "all-to-all"
            else transfer("point-to-point", exchange.bytes, begin + exchange.after_ms, end)
            for exchange in self.exchanges
            if replicas > 1 or exchange.kind != "all-to-all"
            for begin in begins[exchange.begin]
        ]
        last = begins["backward"][-1]
        transfers += [
            transfer("all-reduce", bucket.bytes, last + bucket.ready_ms.median, end, group=group)
            for bucket in self.buckets
            if replicas > 1
        ]
        return TrainingStep(
            compute_ms=end + self.optimizer_ms.median,
            transfers=tuple(sorted(transfers, key=lambda transfer: transfer.ready_ms)),
            is_fine=True,
        )

    def _check_inside(self, where: str, moment: Fraction, which: str) -> None:
        length: Fraction = getattr(self, f"{which}_ms").median
        if moment > length:
            end = f"the end of the {which} pass, {float(length):g} ms; measure again"
            refuse(where, f"{float(moment):g}: is after {end}")


def find_step(
    model: str, traffic: str, gpu: str | None, own: Mapping[str, Path], where: str
) -> Path:
    """Return the record of a model: one's own, else that of a GPU, such as H200 or NVIDIA H200."""
    shipped = sorted(path.name for path in (data_folder() / "measured").iterdir() if path.is_dir())
    names = {f"{word}-{MEASURED[traffic]}" for word in re.findall("[a-z0-9]+", (gpu or "").lower())}
    folder = next((name for name in shipped if name in names), None)
    files = {**(find_files(f"measured/{folder}", None) if folder else {}), **own}
    if not files:
        which = quote(gpu) if gpu else "which cluster.gpu does not name"
        known = {name.partition("-")[0].upper() for name in shipped}
        raise InputError(
            f"{where}: {quote(model)}: no step was measured on the cluster's GPU, {which}; there "
            f"are steps of {', '.join(sorted(known))}; "
            "name such a GPU in cluster.gpu, or a folder of your own in measured"
        )
    return file_of(model, files, where, f"{traffic} step of")
