"""Batches whose iterations are about as long as a divisor of the hyperperiod."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from metronome_opt.errors import InputError
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.iteration import Iteration, period_of
from metronome_opt.scenario.traffic import training_step
from metronome_opt.scenario.workload import Workload

_MAX_IDLE = 0.05  # of an iteration, up to which its length is close to a divisor


class Setting(NamedTuple):
    """Conditions of training: GPUs, what each sustains in FLOP/s, and the placement."""

    gpus: int
    flops: Fraction
    transport: Transport

    def iteration(self, workload: Workload, batch: int) -> Iteration:
        """Return the iteration of a model."""
        return training_step(workload, self.gpus, batch, self.flops).at(self.transport)

    def period(
        self, workload: Workload, batch: int, slot_ms: int, hyperperiod: int | None
    ) -> tuple[int, Fraction]:
        """Return its period in slots, and the share of an iteration that is idle."""
        step = training_step(workload, self.gpus, batch, self.flops)
        slots = step.in_slots(self.transport, slot_ms)[1]
        period = period_of(slots, hyperperiod, slot_ms)
        return period, (period - slots) * slot_ms / step.at(self.transport).duration


def batches_around(batch: int, low: float, high: float) -> range:
    """Return the batches from `low` to `high` times `batch`, in steps of a hundredth of it."""
    return range(max(1, round(batch * low)), round(batch * high) + 1, max(1, batch // 100))


@lru_cache(maxsize=4096)
def suitable_batches(
    workload: Workload,
    setting: Setting,
    batches: range,
    slot_ms: int,
    hyperperiod: int | None,
    periods: Sequence[int] = (),
) -> tuple[int, ...]:
    """Return the batches that leave at most `_MAX_IDLE` of an iteration idle.

    If there is none, those of minimum idle time whatever their period; none at all if every
    iteration is longer than the hyperperiod. Where periods are wanted, in slots, no other one is
    suitable.
    """
    fitted: dict[int, tuple[int, Fraction]] = {}
    for batch in batches:
        try:
            fitted[batch] = setting.period(workload, batch, slot_ms, hyperperiod)
        except InputError:
            continue  # longer than the hyperperiod
    close = tuple(
        batch
        for batch, (period, idle) in fitted.items()
        if idle <= _MAX_IDLE and (not periods or period in periods)
    )
    least = min((idle for _, idle in fitted.values()), default=0)
    return close or tuple(batch for batch, (_, idle) in fitted.items() if idle == least)
