"""The traffic model: from a training model to the bursts of one iteration, in exact arithmetic.

What is computed here are estimates from first principles, not measurements. Notation: n workers
with B samples each, so n B samples an iteration whatever the parallelism; F the floating-point
operations of one sample's forward pass; P what a GPU sustains. Computing takes ``B F / P``
forward and twice that backward on every worker, because the work is shared out evenly.

A ring all-reduce of S bytes among n workers, or among n nodes that have reduced inside first, sends
``2 (n - 1) / n * S`` bytes out of each and as many into it, so that one direction of a link tells
of both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.records import Positive, Record, refuse
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
_SEARCHED = 100_000  # slots up to which a hyperperiod is looked for
_LONGER = (0.05, 0.1, 0.2, 0.4, 1.0)  # shares of a period that a hyperperiod may add to it
_MOST_AHEAD = 2  # slots that rounding may add before a pause without its giving them back
_MOST_IDLE = 0.05  # of an iteration, up to which its length is close to a divisor


@dataclass(frozen=True)
class Setting:
    """Under what conditions a model is trained.

    Attributes
    ----------
    workers, batch
        How many GPUs the job has, at least 2, and samples per worker and iteration.
    flops
        What a GPU sustains, in floating-point operations per second.
    rate
        The fastest that one worker may send when the job has the network to itself, in Mbit/s.
    nodes
        How many of them all-reduce with one another once each has reduced inside; None if the
        workers themselves do.
    """

    workers: int
    batch: int
    flops: Fraction
    rate: int
    nodes: int | None = None

    @property
    def members(self) -> int:
        """How many there are in the ring of an all-reduce."""
        return self.nodes or self.workers


@dataclass(frozen=True)
class Burst:
    """One communication phase of every worker.

    Attributes
    ----------
    after
        Time without traffic before it, in ms.
    volume, rate
        What one worker sends, in Mbit, and the fastest that it may be sent, in Mbit/s.
    """

    name: str
    after: Fraction
    volume: Fraction
    rate: int

    @property
    def duration(self) -> Fraction:
        """How long it takes at its fastest, in ms."""
        return 1000 * self.volume / self.rate


@dataclass(frozen=True)
class Iteration:
    """One iteration of a job that has the network to itself.

    Attributes
    ----------
    compute
        Computing time of a worker in ms, including what goes on beside a burst.
    rest
        Time without traffic after the last burst, in ms; that of a model ends with its last burst.
    is_fine
        Whether bursts may be shorter than slots and many, as those of buckets are, so that to round
        each of them up would make the iteration longer than it is.
    """

    compute: Fraction
    bursts: tuple[Burst, ...]
    rest: Fraction = Fraction(0)
    is_fine: bool = False

    @property
    def duration(self) -> Fraction:
        """Length of the iteration in ms."""
        return sum((burst.after + burst.duration for burst in self.bursts), self.rest)

    @property
    def volume(self) -> Fraction:
        """What one worker sends in an iteration, in Mbit."""
        return sum((burst.volume for burst in self.bursts), Fraction(0))

    def to_slots(self, slot_ms: int, hyperperiod: int | None = None) -> Rounded:
        """Round it to slots.

        Pauses go to the nearest slot. A burst gets whole slots enough to carry it at its fastest,
        and then the lowest whole rate that carries it in these: at most its fastest, and less than
        1 Mbit/s * slot per slot too much. The period becomes the smallest divisor of the
        hyperperiod, in slots, that is long enough; with None there is no idling.

        If it is fine, pauses give back what rounding has added before them beyond `_MOST_AHEAD`
        slots, and bursts of one rate become one where the pause between them goes to 0.

        Raises
        ------
        ValueError
            If the iteration is longer than the hyperperiod.
        """
        phases: list[Phase] = []
        slot, exact = 0, Fraction(0)
        lasting = volume = Fraction(0)  # of the last phase
        for before, burst in zip((None, *self.bursts), self.bursts, strict=False):
            pause = self._pause(burst.after, slot, exact, slot_ms)
            is_close = self.is_fine and not pause and burst.after > 0
            if before and is_close and burst.rate == before.rate:
                slot = phases.pop().start
                lasting += burst.after + burst.duration
                volume += burst.volume
            else:
                slot += pause
                lasting, volume = burst.duration, burst.volume
            length = math.ceil(lasting / slot_ms)
            rate = math.ceil(1000 * volume / (length * slot_ms))
            phases.append(Phase(start=slot, length=length, rate=rate))
            slot += length
            exact += burst.after + burst.duration
        slot += self._pause(self.rest, slot, exact, slot_ms)
        period = slot if hyperperiod is None else _divisor(hyperperiod, slot)
        return Rounded(tuple(phases), slot, period, slot_ms, self)

    def _pause(self, pause: Fraction, slot: int, exact: Fraction, slot_ms: int) -> int:
        """Return the slots of a pause that begins at a slot and exactly at so many ms."""
        ahead = max(slot - exact / slot_ms - _MOST_AHEAD, Fraction(0))
        return max(0, _nearest(pause - (ahead * slot_ms if self.is_fine else 0), slot_ms))

    def round_to(self, slot_ms: int, hyperperiod: int | None, place: str, remedy: str) -> Rounded:
        """Do as `to_slots`; what is too long is an `InputError` that names a place and a remedy."""
        try:
            return self.to_slots(slot_ms, hyperperiod)
        except ValueError:
            raise InputError(
                f"{place}: an iteration takes {float(self.duration):.0f} ms, more than the "
                f"hyperperiod of {(hyperperiod or 0) * slot_ms} ms; {remedy}"
            ) from None


def iteration(workload: Workload, setting: Setting) -> Iteration:
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
    workload: Workload, spread: DataParallel, setting: Setting, forward: Fraction
) -> list[Burst]:
    """Do both passes, then one all-reduce of the gradients.

    Overlapping the all-reduce with the backward pass is left out: it would spread the same volume
    over more time and lower the peak.
    """
    gradients = workload.parameters.value * spread.gradient_bytes.value
    volume = all_reduce(gradients, setting.members) * MEGABIT_PER_BYTE
    return [Burst("gradients", 3 * forward, volume, setting.rate)]


def _tensor_parallel(spread: TensorParallel, setting: Setting, forward: Fraction) -> list[Burst]:
    """Send a burst in the forward pass and one in the backward pass.

    Each layer all-reduces its activations twice per pass, of all n B samples. This alternates with
    computing layer by layer, far below the length of a slot, and is seen as a steady rate.
    """
    size = 2 * spread.layers.value * _activations(spread, setting.workers * setting.batch)
    volume = all_reduce(size, setting.members) * MEGABIT_PER_BYTE
    rate = min(setting.rate, spread.rate_mbps.value)
    return [
        _beside("forward", forward, volume, rate),
        _beside("backward", 2 * forward, volume, rate),
    ]


def _hybrid_parallel(
    workload: Workload, spread: HybridParallel, setting: Setting, forward: Fraction
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
    there = _beside("forward", forward / micro, volume, rate)
    back = _beside("backward", 2 * forward / micro, volume, rate)
    bubble = (stages - 1) * (there.after + there.duration + back.after + back.duration)
    gradient = spread.gradient_bytes.value * MEGABIT_PER_BYTE
    shard = all_reduce(workload.parameters.value * gradient / group, replicas)
    tied = all_reduce(spread.embedding_parameters.value * gradient / tensor, min(stages, 2))
    return [
        *[there] * micro,
        replace(back, after=bubble + back.after),
        *[back] * (micro - 1),
        Burst("gradients", Fraction(0), shard, setting.rate),
        Burst("tied embeddings", Fraction(0), tied, setting.rate),
    ]


def _embedding_parallel(
    workload: Workload, spread: EmbeddingParallel, setting: Setting, forward: Fraction
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
        Burst("embeddings", Fraction(0), exchange, setting.rate),
        Burst("embedding and dense gradients", 3 * forward, exchange + dense, setting.rate),
    ]


def _activations(spread: TensorParallel | HybridParallel, samples: int) -> int:
    """Return the bytes of a layer's activations."""
    return samples * spread.tokens.value * spread.hidden.value * spread.activation_bytes.value


def _beside(name: str, compute: Fraction, volume: Fraction, rate: int) -> Burst:
    """Return the burst of a pass that lasts as long as the longer of computing and sending."""
    burst = Burst(name, Fraction(0), volume, rate)
    return replace(burst, after=max(Fraction(0), compute - burst.duration))


# ------------------------------------------------------------------ stated


def _moment(value: Any) -> Fraction:
    """Read a time, which unlike a length may be 0."""
    is_zero = isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
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
                    f"{float(end):g} ms; list bursts in order and apart",
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
        for number, phase in enumerate(self.phases, start=1):
            volume = phase.rate * phase.length_ms / 1000
            slowed = min(rate, phase.rate)
            bursts.append(Burst(f"phase {number}", phase.start_ms - end, volume, slowed))
            end = phase.start_ms + phase.length_ms
        rest = self.period_ms - end
        compute = rest + sum(burst.after for burst in bursts)
        return Iteration(compute, tuple(bursts), rest)


# ------------------------------------------------------------------ slots


@dataclass(frozen=True)
class Rounded:
    """An iteration on the grid of slots.

    Attributes
    ----------
    phases
        The bursts in slots and Mbit/s.
    busy, period
        Slots of the iteration itself (a model's ends with its last burst), and with the idle time
        that a hyperperiod asks for.
    exact
        The iteration as it was.
    """

    phases: tuple[Phase, ...]
    busy: int
    period: int
    slot_ms: int
    exact: Iteration

    @property
    def grid_error(self) -> Fraction:
        """Relative change of the iteration's length by rounding to slots."""
        return self.busy * self.slot_ms / self.exact.duration - 1

    @property
    def idle_error(self) -> Fraction:
        """Idle time added to reach a divisor of the hyperperiod, relative to the iteration."""
        return (self.period - self.busy) * self.slot_ms / self.exact.duration

    @property
    def period_error(self) -> Fraction:
        """Relative change of the iteration's length in all."""
        return self.grid_error + self.idle_error

    @property
    def volume_error(self) -> Fraction:
        """Relative change of the volume, from rates that are whole Mbit/s; never negative."""
        sent = Fraction(
            sum(phase.length * phase.rate for phase in self.phases) * self.slot_ms, 1000
        )
        return sent / self.exact.volume - 1


def _nearest(time: Fraction, slot_ms: int) -> int:
    return math.floor(time / slot_ms + Fraction(1, 2))


def _divisor(whole: int, least: int) -> int:
    """Return the smallest divisor of `whole` that is at least `least`."""
    if least > whole:
        raise ValueError(f"{least} slots are longer than the hyperperiod of {whole}")
    return next(number for number in range(least, whole + 1) if whole % number == 0)


def common_hyperperiod(periods: Collection[int], longest: int) -> int | None:
    """Return a hyperperiod of at most `longest` slots for some periods; None if there is none.

    That is their least common multiple, or if this is too long the shortest number that has a
    divisor close above each of them: longer by at most 5 %, or else by 10, 20, 40 or 100 %.
    """
    import numpy as np

    together = math.lcm(*periods)
    if together <= longest:
        return together
    first, last = max(periods), min(longest, max(_SEARCHED, 2 * max(periods)))
    if first > last:
        return None
    for share in _LONGER:
        suits = np.ones(last - first + 1, dtype=bool)
        for period in set(periods):
            near = np.zeros_like(suits)
            for divisor in range(period, min(last, math.floor(period * (1 + share))) + 1):
                near[-first % divisor :: divisor] = True
            suits &= near
        if suits.any():
            return first + int(suits.argmax())
    return None


def most_divisors(slots: int, longest: int) -> int:
    """Return the multiple of `slots` up to `longest` with most divisors, the least of several.

    So many are the periods that fit this hyperperiod.
    """
    multiples = range(slots, longest + 1, slots)
    counts = [0] * len(multiples)
    for divisor in range(1, longest + 1):
        step = divisor // math.gcd(divisor, slots)  # of so many multiples it divides one
        for index in range(step - 1, len(multiples), step):
            counts[index] += 1
    return multiples[counts.index(max(counts))]


def batches_around(batch: int, least: float, most: float) -> range:
    """Return the batches from `least` to `most` times `batch`, in steps of a hundredth of it."""
    return range(max(1, round(batch * least)), round(batch * most) + 1, max(1, batch // 100))


@lru_cache(maxsize=4096)
def suitable_batches(
    workload: Workload,
    setting: Setting,
    batches: range,
    slot_ms: int,
    hyperperiod: int | None,
    periods: Sequence[int] = (),
) -> tuple[int, ...]:
    """Return the batches that leave at most `_MOST_IDLE` of an iteration idle.

    If there is none, those that leave least whatever their period; none at all if every iteration
    is longer than the hyperperiod.

    Parameters
    ----------
    setting
        Workers, throughput and rate; its batch does not matter.
    slot_ms, hyperperiod
        As `to_slots` takes them.
    periods
        The periods that are wanted, in slots; empty for any. Must be hashable.
    """
    fitted: dict[int, Rounded] = {}
    for batch in batches:
        exact = iteration(workload, replace(setting, batch=batch))
        try:
            fitted[batch] = exact.to_slots(slot_ms, hyperperiod)
        except ValueError:
            continue  # longer than the hyperperiod
    close = tuple(
        batch
        for batch, rounded in fitted.items()
        if rounded.idle_error <= _MOST_IDLE and (not periods or rounded.period in periods)
    )
    least = min((rounded.idle_error for rounded in fitted.values()), default=0)
    return close or tuple(batch for batch, rounded in fitted.items() if rounded.idle_error == least)
