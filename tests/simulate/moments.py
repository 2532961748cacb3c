"""State of a simulation at some moment, as policies get it."""

from __future__ import annotations

from collections.abc import Mapping

from metronome_opt.scenario import Scenario
from metronome_opt.simulate.cluster import Machines
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Runner, Slot
from metronome_opt.simulate.state import Running, SimState, training_jobs


def at(
    given: Scenario,
    now: float,
    starts: Mapping[int, float],
    slots: Mapping[int, Slot | None] | None = None,
) -> SimState:
    """Return the state of a scenario whose pinned jobs have started then, at a later moment."""
    machines = Machines(given.cluster)
    jobs = training_jobs(given, 0.0, 0)
    runners = [
        Runner(job.name, job.ideal, job.work.priority, None, 2 * job.work.workers) for job in jobs
    ]
    engine = Engine(machines.capacities, runners)
    state = SimState(machines, engine)
    for job in jobs:
        placed = Running(job, machines.placement(job.work.nodes or (), job.work))
        placed.slot = (slots or {}).get(job.index)
        state.add(placed)
        if job.index in starts:
            pattern = job.pattern(placed.placement.rate)
            links = placed.placement.links
            engine.enter(job.index, links, at=starts[job.index], pattern=pattern, slot=placed.slot)
    engine.run(now)
    state.now = now
    return state
