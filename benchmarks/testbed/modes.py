"""Modes of a run: who keeps windows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Literal, get_args

from benchmarks.testbed.cases import Case
from metronome_opt import allocate, solve
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError

UsualMode = Literal["free", "gated", "gated-2", "gated-4", "kept"]
Mode = Literal[UsualMode, "even", "solved"]

USUAL: tuple[Mode, ...] = get_args(UsualMode)

STRETCH: Mapping[Mode, float] = {"gated": 0.0, "gated-2": 0.02, "gated-4": 0.04}
"""Idle time that a mode adds to every period, as a share of it. All jobs are gated, at offsets of
least contention."""

_STRETCH_LIMITS: Mapping[Mode, str | None] = {"kept": "0%", "solved": None}
"""Stretch limits of the modes in which `allocate` says who waits."""

_LIMIT_S, _KEPT_S = 5.0, 20.0


def plan(case: Case, mode: Mode) -> Plan | None:
    """Return the windows of gated jobs, and offsets of no others; None if none in this mode.

    Raises
    ------
    InputError
        If the case lacks the period of its windows.
    """
    if mode == "free":
        return None
    if mode in _STRETCH_LIMITS:
        return _kept(case, _STRETCH_LIMITS[mode])
    if mode == "even":
        return _even(case)
    instance = case.instance(STRETCH[mode])
    found = solve(instance, objective="contention", time_limit=_LIMIT_S, seed=0, threads=2)
    return Plan(dict(found.offsets), case.periods(STRETCH[mode]))


def _even(case: Case) -> Plan:
    """Return windows of one period for all jobs, as far apart as they can be."""
    names, period = case.job_names, case.slots_ms
    if period is None:
        raise InputError(f"{case.name}: mode even needs slots_ms, the period of its windows")
    offsets = {name: index * period // len(names) for index, name in enumerate(names)}
    return Plan(offsets, dict.fromkeys(names, period))


def _kept(case: Case, stretch_limit: str | None) -> Plan:
    """Return the windows of those that are gated for least slowdown."""
    instance = case.instance()
    found = allocate(
        instance,
        time_limit=_KEPT_S,
        seed=0,
        threads=2,
        objective="slowdown",
        stretch_limit=stretch_limit,
    )
    told = Plan.of(instance, found.schedule)  # in slots of 1 ms
    return Plan({name: told.offsets[name] for name in told.periods}, told.periods)


def begins_at(case: Case, repeat: int) -> dict[str, int]:
    """Return when each job begins, in ms."""
    begins = {name: job.begin for name, job in zip(case.job_names, case.jobs, strict=True)}
    if case.random_begins:
        for name, job in zip(case.job_names, case.jobs, strict=True):
            begins[name] += random.Random(f"{case.seed(name, repeat)} begin").randrange(job.period)
    return begins
