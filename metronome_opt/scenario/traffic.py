"""The traffic model: from a training model to the iteration of a job, in exact arithmetic.

What is computed here are estimates from first principles, not measurements. Notation: n GPUs with B
samples each, so n B samples an iteration whatever the parallelism; F the floating-point operations
of one sample's forward pass; P what a GPU sustains. Computing takes ``B F / P`` forward and twice
that backward on every GPU, because the work is shared out evenly. `collectives` says what of it
crosses the network at a placement.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from metronome_opt.errors import InputError
from metronome_opt.files.records import Positive, Record, refuse
from metronome_opt.scenario.collectives import Collective, Kind, TrainingStep, Transfer, sent
from metronome_opt.scenario.workload import (
    IF_GIVEN,
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


def training_step(workload: Workload, gpus: int, batch: int, flops: Fraction) -> TrainingStep:
    """Return the iteration of a model.

    Parameters
    ----------
    gpus, batch
        GPUs of the job, at least 2, and samples per GPU and iteration.
    flops
        Sustained speed of a GPU, in floating-point operations per second.

    Raises
    ------
    InputError
        If GPUs or batch cannot be shared out as the parallelism of the model asks.
    """
    forward = 1000 * batch * workload.forward_flops.value / flops
    match workload.parallelism:
        case DataParallel() as spread:
            gradients = workload.parameters.value * spread.gradient_bytes.value
            # Overlapping the all-reduce with the backward pass is omitted.
            transfers = [transfer("all-reduce", gradients, 3 * forward)]
        case TensorParallel() as spread:
            transfers = _tensor_parallel(spread, gpus * batch, forward)
        case EmbeddingParallel() as spread:
            numbers = spread.tables.value * spread.dimension.value * spread.embedding_bytes.value
            gradients = workload.parameters.value * spread.gradient_bytes.value
            transfers = [
                transfer("all-to-all", batch * numbers, Fraction(0)),
                transfer("all-to-all", batch * numbers, 3 * forward),
                transfer("all-reduce", gradients, 3 * forward),
            ]
        case HybridParallel() as spread:
            return _hybrid_parallel(workload, spread, (gpus, batch), forward)
    return TrainingStep(compute_ms=3 * forward, transfers=tuple(transfers))


def transfer(
    kind: Collective,
    size: int | Fraction,
    ready: Fraction,
    needed: Fraction | None = None,
    **more: Any,
) -> Transfer:
    """Return a collective of `size` bytes; computing waits for it if `needed` is None."""
    return Transfer(
        kind=kind,
        mbit=size * MEGABIT_PER_BYTE,
        ready_ms=ready,
        needed_ms=ready if needed is None else needed,
        **more,
    )


def _tensor_parallel(spread: TensorParallel, samples: int, forward: Fraction) -> list[Transfer]:
    """Send a burst in the forward pass and one in the backward pass, beside computing.

    Each layer all-reduces its activations twice per pass, of all samples. This alternates with
    computing layer by layer, far below the length of a slot, and is seen as a steady rate. A pass
    takes the longer of computing and sending.
    """
    size = 2 * spread.layers.value * _activations(spread, samples)
    more = {"max_mbps": spread.rate_mbps.value, "is_late": True}
    return [
        transfer("all-reduce", size, Fraction(0), forward, **more),
        transfer("all-reduce", size, forward, 3 * forward, **more),
    ]


def _hybrid_parallel(
    workload: Workload, spread: HybridParallel, job: tuple[int, int], forward: Fraction
) -> TrainingStep:
    """Send bursts in both passes of each micro-batch, then gradients and tied embeddings.

    With t-way tensor groups, p stages, m micro-batches and d = n / (t p) replicas, a micro-batch
    has ``b = n B / (d m)`` samples and a GPU ``1 / m`` of its computing time for each. A pass of
    a micro-batch all-reduces the activations of ``layers / p`` layers twice each in the tensor
    group and hands those of the last one over to the next stage. Between the passes the pipeline
    drains and fills, which takes p - 1 times a micro-batch's two passes.
    """
    tensor, stages, micro = spread.tensor.value, spread.stages.value, spread.microbatches.value
    (gpus, batch), group = job, tensor * stages
    replicas, left = divmod(gpus, group)
    if left:
        raise InputError(
            f"workers: {gpus}: must be a multiple of {group}, "
            f"{tensor}-way tensor groups in {stages} stages"
        )
    samples, left = divmod(group * batch, micro)
    if left:
        raise InputError(
            f"batch: {batch}: the {group * batch} samples of a replica "
            f"cannot be shared out to {micro} micro-batches"
        )
    activations = _activations(spread, samples)
    layers = spread.layers.value // stages
    volume = sent("all-reduce", Fraction(2 * layers * activations), tensor)
    volume += activations if stages > 1 else 0
    # Passes of a micro-batch one after the other, of which the idle ones are those of other stages.
    passes = [(forward / micro, False)] * micro
    passes += [(forward / micro, True), (2 * forward / micro, True)] * (stages - 1)
    passes += [(2 * forward / micro, False)] * micro
    time, transfers = Fraction(0), []
    more = {"max_mbps": spread.rate_mbps.value, "is_late": True}
    for length, is_idle in passes:
        handed = transfer("point-to-point", volume, time, time + length, is_idle=is_idle, **more)
        transfers.append(handed)
        time += length
    gradient = spread.gradient_bytes.value
    for size, members in (
        (Fraction(workload.parameters.value * gradient, group), replicas),
        (Fraction(spread.embedding_parameters.value * gradient, tensor), min(stages, 2)),
    ):
        if members > 1:
            transfers.append(transfer("all-reduce", size, time, group=members))
    return TrainingStep(compute_ms=time, transfers=tuple(transfers))


def _activations(spread: TensorParallel | HybridParallel, samples: int) -> int:
    """Return the bytes of a layer's activations."""
    return samples * spread.tokens.value * spread.hidden.value * spread.activation_bytes.value


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

    Parameters
    ----------
    start_ms, length_ms
        When it was sent.
    rate_gbps, rate_mbps
        What one worker sent over the network; exactly one of them is given.
    collective, bytes
        Kind and size of the buffer, where these are known: then what is sent, and how fast, follows
        from where the job runs, and the rate only says what was seen.
    group
        GPUs that took part; all of the job if omitted.
    """

    start_ms: Moment
    length_ms: Rational
    rate_gbps: Rational | None = None
    rate_mbps: Positive | None = None
    collective: Annotated[Kind | None, IF_GIVEN] = None
    bytes: Annotated[Positive | None, IF_GIVEN] = None
    group: Annotated[int | None, Field(ge=2), IF_GIVEN] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        megabits("rate", self.rate_gbps, self.rate_mbps)
        if (self.collective is None) != (self.bytes is None):
            refuse("bytes", "give collective and bytes together, or neither")
        if self.group is not None and self.collective is None:
            refuse("group", "give collective and bytes as well, or leave it out")
        return self

    @property
    def rate(self) -> int:
        """The rate in Mbit/s."""
        return megabits("rate", self.rate_gbps, self.rate_mbps)

    def sent_after(self, ready: Fraction) -> Transfer:
        """Return its collective, which begins after `ready` ms of computing."""
        if self.collective is None:
            size = self.rate * self.length_ms / 1000 / MEGABIT_PER_BYTE
            return transfer("stated", size, ready, max_mbps=self.rate)
        return transfer(self.collective, self.bytes or 0, ready, group=self.group)


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
            where, start, length = f"phases[{index}]", phase.start_ms, phase.length_ms
            if start < end:
                before = f"is before the end of the burst before it, {float(end):g} ms"
                remedy = "list bursts in order, without overlap"
                refuse(f"{where}.start_ms", f"{float(start):g}: {before}; {remedy}")
            end = start + length
            if end > self.period_ms:
                after = f"after the period of {float(self.period_ms):g} ms"
                ends = f"the burst ends at {float(end):g} ms"
                refuse(f"{where}.length_ms", f"{float(length):g}: {ends}, {after}")
        return self

    @property
    def step(self) -> TrainingStep:
        """The iteration: what is sent over the network takes as long as stated, wherever it runs.

        The time of known collectives depends on the placement. Pauses stay as they are.
        """
        transfers, end, ready = [], Fraction(0), Fraction(0)
        for phase in self.phases:
            ready += phase.start_ms - end
            transfers.append(phase.sent_after(ready))
            end = phase.start_ms + phase.length_ms
        return TrainingStep(compute_ms=ready + self.period_ms - end, transfers=tuple(transfers))
