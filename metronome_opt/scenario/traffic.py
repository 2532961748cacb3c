"""The traffic model: from a training model to the bursts of one iteration, in exact arithmetic.

What is computed here are estimates from first principles, not measurements. Notation: n workers
with B samples each, so n B samples an iteration whatever the parallelism; F the floating-point
operations of one sample's forward pass; P what a GPU sustains. Computing takes ``B F / P``
forward and twice that backward on every worker, because the work is shared out evenly.

A ring all-reduce of S bytes among n workers, or among n nodes that have reduced inside first, sends
``2 (n - 1) / n * S`` bytes out of each and as many into it, so that one direction of a link stands
for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from metronome_opt.errors import InputError
from metronome_opt.records import Positive, Record, refuse
from metronome_opt.scenario.bursts import Burst, Iteration
from metronome_opt.scenario.workload import (
    DataParallel,
    EmbeddingParallel,
    HybridParallel,
    Rational,
    TensorParallel,
    Workload,
    megabits,
    rational,
)

_MAX_PHASES = 1024  # as many as a claim may have
MEGABIT_PER_BYTE = Fraction(8, 10**6)


@dataclass(frozen=True)
class Training:
    """Conditions under which a model is trained.

    Attributes
    ----------
    workers, batch
        How many GPUs the job has, at least 2, and samples per worker and iteration.
    flops
        What a GPU sustains, in floating-point operations per second.
    rate
        The fastest that one worker may send when the job has the network to itself, in Mbit/s.
    """

    workers: int
    batch: int
    flops: Fraction
    rate: int


def iteration(workload: Workload, setting: Training) -> Iteration:
    """Return the iteration of a model under a setting.

    Raises an `InputError` if the workers or the batch cannot be shared out as its parallelism asks.
    """
    forward = 1000 * setting.batch * workload.forward_flops.value / setting.flops
    match workload.parallelism:
        case DataParallel() as spread:
            bursts = _data_parallel(workload, spread, setting, forward)
        case TensorParallel() as spread:
            bursts = _tensor_parallel(spread, setting, forward)
        case HybridParallel() as spread:
            bursts = _hybrid_parallel(workload, spread, setting, forward)
        case EmbeddingParallel() as spread:
            bursts = _embedding_parallel(workload, spread, setting, forward)
    return Iteration(3 * forward, tuple(burst for burst in bursts if burst.volume))


def all_reduce(size: int | Fraction, workers: int) -> Fraction:
    """Return what each worker sends in a ring all-reduce of `size`, in the unit of `size`."""
    return Fraction(2 * (workers - 1), workers) * size


def all_to_all(size: int | Fraction, workers: int) -> Fraction:
    """Return what each worker sends of its `size` if every worker needs an equal share of it."""
    return Fraction(workers - 1, workers) * size


def _data_parallel(
    workload: Workload, spread: DataParallel, setting: Training, forward: Fraction
) -> list[Burst]:
    """Do both passes, then one all-reduce of the gradients.

    Overlapping the all-reduce with the backward pass is left out: it would spread the same volume
    over more time and lower the peak.
    """
    gradients = workload.parameters.value * spread.gradient_bytes.value
    volume = all_reduce(gradients, setting.workers) * MEGABIT_PER_BYTE
    return [Burst(3 * forward, volume, setting.rate)]


def _tensor_parallel(spread: TensorParallel, setting: Training, forward: Fraction) -> list[Burst]:
    """Send a burst in the forward pass and one in the backward pass.

    Each layer all-reduces its activations twice per pass, of all n B samples. This alternates with
    computing layer by layer, far below the length of a slot, and is seen as a steady rate.
    """
    size = 2 * spread.layers.value * _activations(spread, setting.workers * setting.batch)
    volume = all_reduce(size, setting.workers) * MEGABIT_PER_BYTE
    rate = min(setting.rate, spread.rate_mbps.value)
    return [
        _beside(forward, volume, rate),
        _beside(2 * forward, volume, rate),
    ]


def _hybrid_parallel(
    workload: Workload, spread: HybridParallel, setting: Training, forward: Fraction
) -> list[Burst]:
    """Send bursts in both passes of each micro-batch, then gradients and tied embeddings.

    With t-way tensor groups, p stages, m micro-batches and d = n / (t p) replicas, a micro-batch
    has ``b = n B / (d m)`` samples and a worker ``1 / m`` of its computing time for each. A pass of
    a micro-batch all-reduces the activations of ``layers / p`` layers twice each in the tensor
    group and hands those of the last one over to the next stage. Between the passes the pipeline
    drains and fills, which takes p - 1 times a micro-batch's two passes.
    """
    tensor, stages, micro = spread.tensor.value, spread.stages.value, spread.microbatches.value
    group = tensor * stages
    replicas, left = divmod(setting.workers, group)
    if left:
        raise InputError(
            f"workers: {setting.workers}: must be a multiple of {group}, "
            f"{tensor}-way tensor groups in {stages} stages"
        )
    samples, left = divmod(group * setting.batch, micro)
    if left:
        raise InputError(
            f"batch: {setting.batch}: the {group * setting.batch} samples of a replica "
            f"cannot be shared out to {micro} micro-batches"
        )
    activations = _activations(spread, samples)
    reduced = all_reduce(2 * (spread.layers.value // stages) * activations, tensor)
    volume = (reduced + (activations if stages > 1 else 0)) * MEGABIT_PER_BYTE
    rate = min(setting.rate, spread.rate_mbps.value)
    there = _beside(forward / micro, volume, rate)
    back = _beside(2 * forward / micro, volume, rate)
    bubble = (stages - 1) * (there.after + there.duration + back.after + back.duration)
    gradient = spread.gradient_bytes.value * MEGABIT_PER_BYTE
    shard = all_reduce(workload.parameters.value * gradient / group, replicas)
    tied = all_reduce(spread.embedding_parameters.value * gradient / tensor, min(stages, 2))
    return [
        *[there] * micro,
        replace(back, after=bubble + back.after),
        *[back] * (micro - 1),
        Burst(Fraction(0), shard, setting.rate),
        Burst(Fraction(0), tied, setting.rate),  # embeddings
    ]


def _embedding_parallel(
    workload: Workload, spread: EmbeddingParallel, setting: Training, forward: Fraction
) -> list[Burst]:
    """Exchange embedding vectors, do both passes, return gradients beside an all-reduce.

    A worker needs a vector of every table for each of its B samples and holds 1 / n of the tables;
    the gradients of the vectors go back the same way.
    """
    numbers = spread.tables.value * spread.dimension.value * spread.embedding_bytes.value
    exchange = all_to_all(setting.batch * numbers, setting.workers) * MEGABIT_PER_BYTE
    gradients = workload.parameters.value * spread.gradient_bytes.value
    dense = all_reduce(gradients, setting.workers) * MEGABIT_PER_BYTE
    return [
        Burst(Fraction(0), exchange, setting.rate),
        Burst(3 * forward, exchange + dense, setting.rate),
    ]


def _activations(spread: TensorParallel | HybridParallel, samples: int) -> int:
    """Return the bytes of a layer's activations."""
    return samples * spread.tokens.value * spread.hidden.value * spread.activation_bytes.value


def _beside(compute: Fraction, volume: Fraction, rate: int) -> Burst:
    """Return the burst of a pass that lasts as long as the longer of computing and sending."""
    burst = Burst(Fraction(0), volume, rate)
    return replace(burst, after=max(Fraction(0), compute - burst.duration))


# ------------------------------------------------------------------ stated


def _moment(value: Any) -> Fraction:
    """Read a time, which unlike a length may be 0."""
    is_zero = isinstance(value, (int, float, Fraction)) and value is not False and value == 0
    return Fraction(0) if is_zero else rational(value)


Moment = Annotated[
    Fraction, BeforeValidator(_moment, json_schema_input_type=Annotated[float, Field(ge=0)])
]
"""A time in ms as it is written, or 0."""


class _StatedPhase(Record):
    """One burst: a rate during `length_ms` from `start_ms` on, counted from the iteration.

    The rate is `rate_gbps` or `rate_mbps`.
    """

    start_ms: Moment
    length_ms: Rational
    rate_gbps: Rational | None = None
    rate_mbps: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        megabits("rate", self.rate_gbps, self.rate_mbps)
        return self

    @property
    def rate(self) -> int:
        """The rate in Mbit/s."""
        return megabits("rate", self.rate_gbps, self.rate_mbps)


class Traffic(Record):
    """The bursts of one iteration as they are, in order inside `period_ms`, not yet in slots."""

    period_ms: Rational
    phases: Annotated[
        tuple[_StatedPhase, ...], Field(strict=False, min_length=1, max_length=_MAX_PHASES)
    ]

    @model_validator(mode="after")
    def _check(self) -> Self:
        end = Fraction(0)
        for index, phase in enumerate(self.phases):
            if phase.start_ms < end:
                refuse(
                    f"phases[{index}].start_ms",
                    f"{float(phase.start_ms):g}: is before the end of the burst before it, "
                    f"{float(end):g} ms; list bursts in order, without overlap",
                )
            end = phase.start_ms + phase.length_ms
            if end > self.period_ms:
                refuse(
                    f"phases[{index}].length_ms",
                    f"{float(phase.length_ms):g}: the burst ends at {float(end):g} ms, after the "
                    f"period of {float(self.period_ms):g} ms",
                )
        return self

    @property
    def fastest(self) -> int:
        """The largest rate, in Mbit/s."""
        return max(phase.rate for phase in self.phases)

    def iteration(self, rate: int) -> Iteration:
        """Return the iteration of a worker that may send at `rate` Mbit/s at most.

        Slowed down, bursts take longer and pauses do not, so that the iteration does too.
        """
        bursts, end = [], Fraction(0)
        for phase in self.phases:
            volume = phase.rate * phase.length_ms / 1000
            slowed = min(rate, phase.rate)
            bursts.append(Burst(phase.start_ms - end, volume, slowed))
            end = phase.start_ms + phase.length_ms
        rest = self.period_ms - end
        compute = rest + sum(burst.after for burst in bursts)
        return Iteration(compute, tuple(bursts), rest)
