"""Problem (a): do these jobs fit at these periods? Offsets, or why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from metronome_opt.compatible.pace import at_periods, load
from metronome_opt.compatible.pairs import Pairs
from metronome_opt.instance import Instance
from metronome_opt.kernels import fitting
from metronome_opt.kernels.jobs import contention
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.presolve.blocks import restrict, split
from metronome_opt.presolve.links import simplify_links
from metronome_opt.presolve.orbits import orbits
from metronome_opt.solvers.deadline import Deadline

_NODES = 2_000  # placements between two looks at the clock
_LOOKS = 10  # of the search, if somebody else goes on


class Reason(StrEnum):
    """Why jobs do not fit."""

    PAIR = "bursts of the two meet at all offsets"
    LOAD = "their bursts are more than a link carries, whenever they come"
    HYPERPERIOD = "the common multiple of the periods is above the limit of the instance"
    SEARCH = "all offsets were searched"


@dataclass(frozen=True)
class Refutation:
    """Jobs that do not fit at their periods, and none of them may be left out of the reason.

    Attributes
    ----------
    periods
        The jobs, and the periods that they were to keep.
    """

    reason: Reason
    periods: Mapping[str, int]

    def __str__(self) -> str:
        return f"{', '.join(f'{name} at {p}' for name, p in self.periods.items())}: {self.reason}"


@dataclass(frozen=True)
class Decision:
    """The answer: offsets or a refutation; neither if the time was over."""

    offsets: Mapping[str, int] | None = None
    refutation: Refutation | None = None


Settle = Callable[[Instance, Deadline], Decision]
"""Decides whether the contention of an instance can be 0."""


class Decider:
    """Decides whether jobs of an instance fit, and keeps what it has found out.

    Parameters
    ----------
    cushion_slots
        By how many slots bursts are longer.
    settle
        Decides instances that the search does not decide soon.
    """

    def __init__(
        self, instance: Instance, cushion_slots: int = 0, settle: Settle | None = None
    ) -> None:
        self.instance = instance
        self._settle = settle
        self.cushion_slots = cushion_slots
        self.pairs = Pairs(instance, cushion_slots)
        self._capacity = {link.name: link.capacity for link in instance.links}
        self._known: dict[tuple[object, ...], Decision] = {}

    def decide(self, periods: Mapping[str, int], clock: Deadline) -> Decision:
        """Return offsets at which jobs fit at some periods, or jobs of them that do not."""
        if not periods:
            return Decision(offsets={})
        reason = self._refute(periods)
        if reason is not None:
            return Decision(refutation=reason)
        smaller = simplify_links(at_periods(self.instance, periods, self.cushion_slots))
        cut = split(smaller.instance)
        parts = []
        for block in cut.blocks:
            mine = {job.name: periods[job.name] for job in block.jobs}
            found = self._decide_block(block, mine, clock)
            if found.offsets is None:
                return found
            parts.append(found.offsets)
        return Decision(offsets=smaller.restore(cut.join(parts)))

    def core(self, refutation: Refutation, clock: Deadline) -> Refutation:
        """Return a refutation from which no job can be left out, as far as there is time."""
        return core(refutation, lambda periods: self.decide(periods, clock))

    # ------------------------------------------------------------------ without search

    def _refute(self, periods: Mapping[str, int]) -> Refutation | None:
        """Return a reason that can be seen without a search."""
        jobs = self.instance.jobs
        for index in self.pairs.impossible:
            name = jobs[index].name
            if name in periods:
                return Refutation(Reason.LOAD, {name: periods[name]})
        for i, j in self.pairs.forbidden:
            one, other = jobs[i].name, jobs[j].name
            if one in periods and other in periods:
                mine = {one: periods[one], other: periods[other]}
                if not self.pairs.fit(i, j, *mine.values()):
                    return Refutation(Reason.PAIR, mine)
        return self._refute_loads(periods) or refute_hyperperiod(self.instance, periods)

    def _refute_loads(self, periods: Mapping[str, int]) -> Refutation | None:
        for link, users in self.instance.jobs_on.items():
            loads = {
                job.name: job.links[link] * load(job, periods[job.name], self.cushion_slots)
                for job in (self.instance.jobs[index] for index in users)
                if job.name in periods
            }
            spare = sum(loads.values()) - self._capacity[link]
            if spare > 0:
                for name, mine in sorted(loads.items(), key=lambda item: item[1]):
                    if mine < spare:
                        spare -= loads.pop(name)
                return Refutation(Reason.LOAD, {name: periods[name] for name in loads})
        return None

    # ------------------------------------------------------------------ by search

    def _decide_block(
        self, block: Instance, periods: Mapping[str, int], clock: Deadline
    ) -> Decision:
        key = (*sorted(periods.items()), *(link.name for link in block.links))
        known = self._known.get(key)
        if known is None:
            known = self._look_at_links(block, periods, clock) or self._search(block, clock)
            if known.refutation is not None:
                named = {name: periods[name] for name in known.refutation.periods}
                known = Decision(refutation=Refutation(Reason.SEARCH, named))
            if known != Decision():
                self._known[key] = known
        return known

    def _search(self, block: Instance, clock: Deadline) -> Decision:
        if self._settle is None:
            return search_offsets(block, clock)
        found = search_offsets(block, clock, _LOOKS)
        return self._settle(block, clock) if found == Decision() else found

    def _look_at_links(
        self, block: Instance, periods: Mapping[str, int], clock: Deadline
    ) -> Decision | None:
        """Return the refutation of a single link, if one of them has it: it is the smaller one."""
        if len(block.links) == 1:
            return None
        for link in block.links:
            part = restrict(block, {link.name})
            mine = {job.name: periods[job.name] for job in part.jobs}
            found = self._decide_block(part, mine, clock)
            if found.refutation is not None:
                return found
        return None


def core(refutation: Refutation, decide: Callable[[Mapping[str, int]], Decision]) -> Refutation:
    """Return a refutation from which no job can be left out, as far as `decide` has time."""
    for name in list(refutation.periods):
        if refutation.reason is Reason.SEARCH and name in refutation.periods:
            fewer = {other: p for other, p in refutation.periods.items() if other != name}
            refutation = decide(fewer).refutation or refutation
    return refutation


def refute_hyperperiod(instance: Instance, periods: Mapping[str, int]) -> Refutation | None:
    """Return jobs of a link whose periods have no common multiple within the limit, if any."""
    for users in instance.jobs_on.values():
        names = [instance.jobs[user].name for user in users]
        kept = {name: periods[name] for name in names if name in periods}
        if math.lcm(*kept.values()) > instance.hyperperiod_limit:
            for name in list(kept):
                less = {other: period for other, period in kept.items() if other != name}
                if math.lcm(*less.values()) > instance.hyperperiod_limit:
                    kept = less
            return Refutation(Reason.HYPERPERIOD, kept)
    return None


def pose(instance: Instance, periods: Mapping[str, int], cushion_slots: int) -> Instance | Decision:
    """Return the instance whose contention is to be 0, or the answer if it has none."""
    if not periods:
        return Decision(offsets={})
    long = refute_hyperperiod(instance, periods)
    if long is not None:
        return Decision(refutation=long)
    return simplify_links(at_periods(instance, periods, cushion_slots)).instance


def search_offsets(instance: Instance, clock: Deadline, looks: int | None = None) -> Decision:
    """Search an instance for offsets without contention; all weights must be 1.

    Parameters
    ----------
    looks
        After how many looks at the clock to give up; None for no limit.
    """
    compiled = compile_instance(instance)
    component, domain = np.zeros((2, len(instance.jobs)), dtype=np.int64)
    place = {job.name: index for index, job in enumerate(instance.jobs)}
    for number, together in enumerate(orbits(instance).components):
        for job in together.jobs:
            component[place[job.name]] = number
            domain[place[job.name]] = math.gcd(job.period, together.held)
    descent = fitting.start_descent(compiled, component, domain)
    blocked = contention(compiled, descent.demand) > 0 or (descent.room[0] == 0).any()
    ended = fitting.REFUTED if blocked else fitting.EXHAUSTED
    while ended == fitting.EXHAUSTED and not clock.over and looks != 0:
        ended = fitting.descend(compiled.tables, descent, _NODES)
        looks = None if looks is None else looks - 1
    if ended == fitting.FOUND:
        return Decision(offsets={name: int(descent.offsets[i]) for name, i in place.items()})
    if ended == fitting.REFUTED:
        return Decision(
            refutation=Refutation(Reason.SEARCH, {job.name: job.period for job in instance.jobs})
        )
    return Decision()
