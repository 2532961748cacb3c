"""A case as the simulator has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.testbed.cases import CUSHION_MS, Case
from benchmarks.testbed.modes import STRETCH, Mode, begins_at
from metronome_opt.engine.conditions import TCP, TcpShares
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.engine.jobs import EngineJob, WindowSchedule
from metronome_opt.problem.instance import Sharing
from metronome_opt.scenario.iteration import Iteration


@dataclass(frozen=True)
class Played:
    """Trace of a job in a simulation.

    Attributes
    ----------
    times_ms
        Of its iterations, from one beginning to the next, shape (iterations,).
    bursts_ms
        Beginning and end of each burst; empty unless asked for.
    """

    times_ms: Floats
    bursts_ms: tuple[tuple[float, float], ...] = ()


def play_case(
    case: Case,
    mode: Mode,
    offsets: Mapping[str, int] | None,
    sharing: Sharing,
    seed: int,
    *,
    tcp: TcpShares = TCP,
    bursts: bool = False,
    periods: Mapping[str, int] | None = None,
) -> dict[str, Played]:
    """Return what each job does in a simulation of a case, by name.

    Parameters
    ----------
    offsets
        Of the gated jobs, in ms; None if nobody is.
    sharing
        How links are shared.
    seed
        Also of random beginnings, which are those of the repeat of this number.
    tcp
        What shares are like where sharing is ``tcp``.
    bursts
        Whether to return bursts as well.
    periods
        Of the gated jobs, in ms; None for what the mode says.
    """
    periods = periods or case.periods(STRETCH.get(mode, 0.0))
    instance = case.instance()
    runners = [
        EngineJob(
            job.name, Iteration.of_job(job, instance.slot_ms), 1, stated.iterations, len(job.links)
        )
        for job, stated in zip(instance.jobs, case.jobs, strict=True)
    ]
    capacities = {link.name: float(link.capacity) for link in instance.links}
    watched = tuple(capacities) if bursts else ()
    engine = Engine(capacities, runners, sharing=sharing, seed=seed, watched=watched, tcp=tcp)
    held, offsets, begins = {}, offsets or {}, begins_at(case, seed)
    for index, (job, stated) in enumerate(zip(instance.jobs, case.jobs, strict=True)):
        begin = begins[job.name]
        engine.start_job(index, job.links, at=float(begin))
        if job.name in offsets:
            slot = WindowSchedule(
                period_ms=float(periods[job.name]),
                tolerance_ms=float(CUSHION_MS),
                bursts_ms=tuple(float(start) for start, _ in stated.bursts),
            )
            first = _first_slot(begin, offsets[job.name], slot)
            engine.set_windows(index, slot, first)
            held[index] = max(0.0, first - begin)  # it may be late by a cushion
    _run_to_the_end(engine, case)
    times = {job.name: engine.times(index) for index, job in enumerate(instance.jobs)}
    for index, wait in held.items():
        # A gated job begins at once, and its first burst waits; here it begins later.
        times[instance.jobs[index].name][0] += wait
    seen = _bursts(engine) if bursts else {}
    return {name: Played(times[name], seen.get(name, ())) for name in times}


def _bursts(engine: Engine) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return beginning and end of each burst, as seen on the first link of its job."""
    found = {}
    for job, changes in engine.trace().groupby("job"):
        mine = changes[changes["link"] == changes["link"].iloc[0]]
        begins, begin = [], None
        for time, rate in zip(mine["time_ms"], mine["rate_mbps"], strict=True):
            if rate and begin is None:
                begin = float(time)
            elif not rate and begin is not None:
                begins.append((begin, float(time)))
                begin = None
        found[str(job)] = tuple(begins)
    return found


def _first_slot(begin: int, offset: int, slot: WindowSchedule) -> float:
    """Return the planned beginning of the first iteration, for which nobody is late."""
    missed = math.ceil((begin - slot.tolerance_ms - offset) / slot.period_ms)
    return offset + missed * slot.period_ms


def _run_to_the_end(engine: Engine, case: Case) -> None:
    """Let every job leave with the iteration in which its time is over."""
    ends = sorted((job.end or 1000 * case.seconds, index) for index, job in enumerate(case.jobs))
    for end, index in ends:
        # Who ends an iteration at this very moment begins no other one.
        while engine.run(math.nextafter(end, 0.0)) is not None:
            pass
        engine.end(index)
    for _ in ends:
        engine.run(math.inf)
