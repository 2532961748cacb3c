"""Monitors of the jobs in a simulation: measured from outside, their claims corrected."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from metronome_opt.control import (
    Burst,
    Claims,
    Decision,
    Monitor,
    Observation,
    Settings,
    Tolerance,
)
from metronome_opt.errors import InputError
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.fluid.world import Floats, Rows
from metronome_opt.simulate.state import SLOT_MS, Order, Running, SimState

_ENOUGH = 8  # iterations, before anything is said
_FORGET = 64  # iterations, after which what was seen before counts half
_SURE = 3.0  # standard errors of a mean: many jobs are looked at often


class _Watch:
    """The computing times and bursts of one job; nothing that has not happened yet."""

    def __init__(self, seen: Rows) -> None:
        self._counts = seen["computed"].astype(np.float64)
        self._sums, self._squares = seen["computing"], seen["squares"]
        self._volume, self._shortest = seen["volume"], seen["shortest"]
        self._began = seen["began"]

    def add(self, seen: Rows) -> None:
        """Take a further look in."""
        if self._counts.max() > _FORGET:
            self._counts, self._sums = self._counts / 2, self._sums / 2
            self._squares = self._squares / 2
        self._counts = self._counts + seen["computed"]
        self._sums = self._sums + seen["computing"]
        self._squares = self._squares + seen["squares"]
        self._shortest = np.minimum(self._shortest, seen["shortest"])
        self._began = seen["began"]

    @property
    def is_known(self) -> bool:
        """Whether enough was seen to go by."""
        sent = self._volume > 0
        return bool(self._counts.max() >= _ENOUGH and np.isfinite(self._shortest[sent]).all())

    @property
    def computing_ms(self) -> float:
        """Mean computing time of an iteration."""
        return float(self._means.sum())

    @property
    def spread_ms(self) -> float:
        """Standard deviation of the computing time of an iteration."""
        return float(np.sqrt(self._variances.sum()))

    @property
    def volume(self) -> float:
        """What a flow sends in an iteration, Mbit/s * ms."""
        return float(self._volume.sum())

    def began_ms(self) -> float | None:
        """Return when the first burst of an iteration began last; None if none was seen."""
        first = float(self._began[self._volume > 0][0])
        return first if math.isfinite(first) else None

    def bursts(self, phases: Sequence[Phase], slot_ms: int) -> tuple[Burst, ...]:
        """Return the bursts of an iteration that nobody holds up.

        A burst is as fast as it was seen at its fastest, or as claimed if it always met others.
        """
        ordered = sorted(phases, key=lambda phase: phase.start)
        variances = self._variances / np.maximum(self._counts, 1)
        begin, doubt, found = 0.0, 0.0, []
        sending = iter(ordered)
        for mean, variance, volume, shortest in zip(
            self._means, variances, self._volume, self._shortest, strict=True
        ):
            begin, doubt = begin + float(mean), doubt + float(variance)
            if volume > 0:
                phase = next(sending, ordered[-1])
                length = min(float(shortest), float(volume) / phase.rate)
                found.append(
                    Burst(
                        begin,
                        length,
                        float(volume) / length,
                        start_error_ms=_SURE * math.sqrt(doubt) + slot_ms / 2,
                    )
                )
                begin += length
        return tuple(found)

    def observation(
        self, phases: Sequence[Phase], slot_ms: int, *, period_ms: float, keeps_slot: bool
    ) -> Observation:
        """Return what was seen of a job that claims some bursts and a period.

        Of one that waits for a slot it is known when it was to begin, and a shorter iteration does
        not show.
        """
        bursts = self.bursts(phases, slot_ms)
        alone = self.computing_ms + sum(burst.length_ms for burst in bursts)
        began = self.began_ms() if keeps_slot else None
        first = min(phase.start for phase in phases) * slot_ms
        return Observation(
            period_ms=max(period_ms, alone) if keeps_slot else alone,
            origin_ms=None if began is None else began - first,
            bursts=bursts,
            period_error_ms=max(burst.start_error_ms for burst in bursts),
            origin_error_ms=_SURE * self.spread_ms,
        )

    @property
    def _means(self) -> Floats:
        return np.asarray(self._sums / np.maximum(self._counts, 1))

    @property
    def _variances(self) -> Floats:
        mean_square = self._squares / np.maximum(self._counts, 1)
        return np.asarray(np.maximum(mean_square - self._means**2, 0.0))


INTERVAL_S = 10.0
"""Between two checks: some ten to a hundred iterations, of which a mean is known well enough."""

_SETTINGS = Settings(tolerance=Tolerance(period=0.01, traffic=0.02, start=0.01), large=3.0)


class Monitoring:
    """Watches all jobs, a monitor for each group that keeps in step, and corrects their claims."""

    def __init__(self, state: SimState, seed: int) -> None:
        self._state = state
        self._seed = seed
        self._watches: dict[int, _Watch] = {}
        self._monitors: dict[tuple[int, ...], tuple[Monitor, Claims]] = {}
        self._checks = 0
        self._corrections = 0
        self._skipped = 0
        self._moves: Counter[int] = Counter()

    @property
    def notes(self) -> tuple[str, ...]:
        """What it has done, in a line."""
        moves = ", ".join(
            f"{count} of priority {priority}"
            for priority, count in sorted(self._moves.items(), reverse=True)
        )
        done = f"{self._checks} checks, {self._corrections} claims corrected"
        if self._skipped:
            done += f", {self._skipped} groups whose periods do not fit one another left alone"
        return (f"monitor: {done}, jobs re-phased: {moves or 'none'}",)

    def check(self) -> tuple[list[Order], list[int]]:
        """Look at all jobs.

        Returns
        -------
        orders
            Plans of the monitor, to be carried out.
        corrected
            Jobs that claim something else than before: policies have to plan anew.
        """
        running = self._state.running
        self._checks += 1
        self._watches = {
            index: self._look(index) for index in running if running[index].placement.links
        }
        orders: list[Order] = []
        corrected: dict[int, None] = {}
        monitors = {}
        for members in self._groups():
            key = (running[members[0]].slot is None, *members)
            found = self._monitors.get(key)
            monitor = found[0] if found else Monitor(_SETTINGS, seed=self._seed)
            try:
                claims = self._in_force(members, found[1] if found else None)
                decision = self._decide(monitor, claims, members)
            except InputError:  # periods of different plans, which no monitor can compare
                self._skipped += 1
                if found:
                    monitors[key] = found
                continue
            monitors[key] = (monitor, decision.claims or claims)
            changed = self._correct(claims, decision, members)
            self._widen(members)
            corrected |= dict.fromkeys(changed)
            if not changed:
                orders += self._orders(decision)
        self._monitors = {} if corrected else monitors
        self._corrections += len(corrected)
        self._moves.update(running[order.index].job.work.priority for order in orders)
        return orders, list(corrected)

    def _look(self, index: int) -> _Watch:
        seen = self._state.engine.look(index)
        watch = self._watches.get(index)
        if watch is None:
            return _Watch(seen)
        watch.add(seen)
        return watch

    def _groups(self) -> Iterator[tuple[int, ...]]:
        """Yield the jobs that keep in step with one another, and one by one those that do not."""
        groups: dict[int, list[int]] = {}
        for index, watch in self._watches.items():
            slot = self._state.running[index].slot
            if slot is not None:
                groups.setdefault(slot.group, []).append(index)
            elif watch.is_known:
                yield (index,)
        for members in groups.values():
            if all(self._watches[index].is_known for index in members):
                yield tuple(members)

    # ------------------------------------------------------------------ claims

    def _in_force(self, members: Sequence[int], before: Claims | None) -> Claims:
        """Return what is in force in a group, slots as when it was planned.

        Its epoch goes by the most important job: to be late all together is no drift.
        """
        placed = [self._state.running[index] for index in members]
        leader = max(placed, key=lambda each: (each.job.work.priority, -each.job.index))
        plan = self._state.engine.plan
        if before is None:
            epoch = plan(leader.job.index)
            links = dict.fromkeys(link for each in placed for link in each.placement.links)
            capacities = self._state.machines.capacities
            instance = Instance(
                name="running",
                slot_ms=SLOT_MS,
                links=tuple(Link(name=link, capacity=capacities[link]) for link in links),
                jobs=tuple(_job(each, plan(each.job.index) - epoch) for each in placed),
            )
            cushions = {str(each.job.index): _cushion(each) for each in placed}
            return Claims(instance, epoch, cushions=cushions)
        offset = before.offsets[str(leader.job.index)]
        return replace(before, epoch_ms=plan(leader.job.index) - offset * SLOT_MS)

    def _decide(self, monitor: Monitor, claims: Claims, members: Sequence[int]) -> Decision:
        observations = {
            str(index): self._watches[index].observation(
                claims.instance.job(str(index)).phases,
                SLOT_MS,
                period_ms=float(claims.period(str(index)) * SLOT_MS),
                keeps_slot=self._state.running[index].slot is not None,
            )
            for index in members
        }
        return monitor.check(claims, observations, self._state.now)

    # ------------------------------------------------------------------ what follows

    def _correct(self, claims: Claims, decision: Decision, members: Sequence[int]) -> list[int]:
        """Let jobs claim what they were seen to do, if the monitor believes it."""
        corrected = []
        for index in members:
            before = claims.instance.job(str(index))
            after = None if decision.claims is None else decision.claims.instance.job(str(index))
            if after is None or (before.phases, before.period) == (after.phases, after.period):
                continue
            placed = self._state.running[index]
            claimed = placed.job.claimed(placed.placement.rate)
            watch = self._watches[index]
            placed.job.correct(
                _ratio(watch.computing_ms, float(sum(claimed.compute))),
                _ratio(watch.volume, float(sum(claimed.volume))),
            )
            corrected.append(index)
        return corrected

    def _widen(self, members: Sequence[int]) -> None:
        """Take down how unsteady jobs are, and let them be off their slots by half of that.

        To hold others up for less would cost more than to meet them. Nobody is moved for it.
        """
        for index in members:
            spread, placed = self._watches[index].spread_ms, self._state.running[index]
            self._state.spreads[index] = spread
            if placed.slot is not None and placed.slot.cushion_ms < spread / 2:
                placed.slot = replace(placed.slot, cushion_ms=spread / 2)
                self._state.engine.allow(index, spread / 2)

    def _orders(self, decision: Decision) -> Iterator[Order]:
        """Yield the orders that carry out a plan: each job waits once, and keeps its slot then."""
        if decision.plan is None or decision.claims is None:
            return
        for step in decision.plan.steps:
            index = int(step.job)
            placed = self._state.running[index]
            if placed.slot is not None:
                start = decision.claims.next_due_ms(step.job, self._state.can_start(index))
                yield Order(index, placed.slot, start, placed.score, placed.elongation_ms)


def _job(placed: Running, offset_ms: float) -> Job:
    period = placed.slots if placed.slot is None else round(placed.slot.period_ms / SLOT_MS)
    return Job(
        name=str(placed.job.index),
        period=max(period, placed.claim.busy),
        weight=placed.job.work.priority,
        phases=placed.claim.phases,
        links=placed.placement.links,
        current_offset=round(offset_ms / SLOT_MS) % period,
    )


def _cushion(placed: Running) -> int:
    return 0 if placed.slot is None else round(placed.slot.cushion_ms / SLOT_MS)


def _ratio(measured: float, claimed: float) -> Fraction:
    if claimed <= 0.0:
        return Fraction(1)
    return Fraction(measured / claimed).limit_denominator(10**6)
