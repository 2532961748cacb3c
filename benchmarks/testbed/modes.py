"""Modes of a run: who is gated, and how the network shares links."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Literal, get_args

from benchmarks.testbed.cases import Case
from benchmarks.testbed.shaping import Service
from metronome_opt import allocate, solve
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError

UsualMode = Literal["free", "gated", "gated-2", "gated-4", "kept"]
Mode = Literal[
    UsualMode, "even", "kept-2", "paced", "solved", "start", "weighted", "strict", "gated-first"
]

USUAL: tuple[Mode, ...] = get_args(UsualMode)
UNGATED: tuple[Mode, ...] = ("free", "start", "weighted", "strict")
"""Nobody waits for windows."""

STRETCH: Mapping[Mode, float] = {"gated": 0.0, "gated-2": 0.02, "gated-4": 0.04}
"""Idle time that a mode adds to every period, as a share of it. All jobs are gated, at offsets of
least contention."""

_ASKED: Mapping[Mode, tuple[str | None, str | None]] = {
    "kept": ("0%", None),
    "kept-2": ("2%", None),
    "paced": ("20%", "tcp"),
    "solved": (None, None),
    "start": ("0%", None),
    "gated-first": ("0%", "gated"),
}
"""Stretch limit and network for `metronome_opt.allocation.slots.solve`, which says which wait."""

_SERVICE: Mapping[Mode, Service] = {
    "weighted": "weighted",
    "strict": "strict",
    "gated-first": "strict",
}
_KEPT_S = 20.0


def plan(case: Case, mode: Mode, time_limit: float = 5.0) -> Plan | None:
    """Return the windows of gated jobs, and offsets of no others; None if none in this mode.

    Raises
    ------
    InputError
        If the network is to serve jobs by weight whose packets do not say what they weigh, or the
        case lacks the period of its windows.
    """
    if case.program == "ddp" and service(mode) != "fair":
        raise InputError(f"{case.name}: jobs of ddp have no weights on the network, as {mode} asks")
    if mode in _ASKED:
        return _kept(case, *_ASKED[mode])
    if mode in UNGATED:
        return None
    if mode == "even":
        return _even(case)
    instance = case.instance(STRETCH[mode])
    found = solve(instance, objective="contention", time_limit=time_limit, seed=0, threads=2)
    return Plan(dict(found.offsets), case.periods(STRETCH[mode]))


def _even(case: Case) -> Plan:
    """Return windows of one period for all jobs, as far apart as they can be."""
    names, period = case.job_names, case.slots_ms
    if period is None:
        raise InputError(f"{case.name}: mode even needs slots_ms, the period of its windows")
    offsets = {name: index * period // len(names) for index, name in enumerate(names)}
    return Plan(offsets, dict.fromkeys(names, period))


@cache
def _kept(case: Case, stretch_limit: str | None, network: str | None) -> Plan:
    """Return the windows of those that are gated for least slowdown."""
    instance = case.instance()
    found = allocate(
        instance,
        time_limit=_KEPT_S,
        seed=0,
        threads=2,
        objective="slowdown",
        stretch_limit=stretch_limit,
        network=network,
    )
    told = Plan.of(instance, found.schedule)  # in slots of 1 ms
    return Plan({name: told.offsets[name] for name in told.periods}, told.periods)


def begins_at(case: Case, mode: Mode, planned: Plan | None, repeat: int) -> dict[str, int]:
    """Return when each job begins, in ms; in mode ``start`` not before its first offset."""
    begins = {name: job.begin for name, job in zip(case.job_names, case.jobs, strict=True)}
    if case.random_begins:
        for name, job in zip(case.job_names, case.jobs, strict=True):
            begins[name] += random.Random(f"{case.seed(name, repeat)} begin").randrange(job.period)
    if mode == "start" and planned is not None:
        for name, offset in planned.offsets.items():
            begins[name] += (offset - begins[name]) % planned.periods[name]
    return begins


def slots_of(mode: Mode, planned: Plan | None) -> Plan:
    """Return the windows of jobs once they run."""
    return planned if planned is not None and mode not in UNGATED else Plan({})


def service(mode: Mode) -> Service:
    """Return how the network shares links."""
    return _SERVICE.get(mode, "fair")


def weights(case: Case, mode: Mode, planned: Plan | None) -> dict[str, int]:
    """Return what each job weighs on the network; in mode ``gated-first`` more if it is gated."""
    if mode == "gated-first" and planned is not None:
        return {name: 2 if name in planned.offsets else 1 for name in case.job_names}
    return {name: job.weight for name, job in zip(case.job_names, case.jobs, strict=True)}
