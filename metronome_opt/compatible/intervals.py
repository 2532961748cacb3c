"""Deciding by CP-SAT: bursts are intervals on the circle of each link's hyperperiod.

Copy k of a burst that begins s slots after its job's offset begins at ``offset + k T + s``. The
circle is cut open at 0: copies -1 to ``H / T - 1`` are all that reach into ``[0, H)``, whatever
the offset. Where no two jobs of a link may burst at once no intervals overlap; elsewhere their
rates add up to at most its capacity.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from metronome_opt.compatible.decide import Decision, Reason, Refutation, pose
from metronome_opt.compatible.waiting import run_cpsat
from metronome_opt.errors import InputError
from metronome_opt.instance import Instance, Link
from metronome_opt.presolve.orbits import orbits
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.deadline import Deadline

MOST_INTERVALS = 2_000_000


def decide(
    instance: Instance,
    periods: Mapping[str, int],
    clock: Deadline,
    *,
    cushion_slots: int = 0,
    seed: int = 0,
    workers: int = 1,
) -> Decision:
    """Decide by a model of intervals whether jobs fit at some periods.

    Raises
    ------
    InputError
        If the model is too large.
    """
    posed = pose(instance, periods, cushion_slots)
    return posed if isinstance(posed, Decision) else settle(posed, clock, seed, workers)


def settle(instance: Instance, clock: Deadline, seed: int = 0, workers: int = 1) -> Decision:
    """Decide whether the contention of an instance can be 0.

    Raises
    ------
    InputError
        If the model is too large.
    """
    count = count_intervals(instance)
    if count > MOST_INTERVALS:
        raise InputError(
            f"a model of this instance has {count} intervals, more than {MOST_INTERVALS}; "
            "use solver search"
        )
    model = import_cp_model().CpModel()
    offsets = _offsets(model, instance)
    for link in instance.links:
        if clock.over:
            return Decision()
        _state(model, instance, link, offsets)
    solver, status = run_cpsat(model, clock, seed, workers)
    if status in ("OPTIMAL", "FEASIBLE"):
        return Decision(offsets={name: solver.value(offset) for name, offset in offsets.items()})
    if status == "INFEASIBLE":
        refuted = {job.name: job.period for job in instance.jobs}
        return Decision(refutation=Refutation(Reason.SEARCH, refuted))
    return Decision()


def count_intervals(instance: Instance) -> int:
    """Return how many intervals the model of an instance has."""
    return sum(
        len(instance.jobs[index].phases) * (length // instance.jobs[index].period + 1)
        for link, length in instance.hyperperiods.items()
        for index in instance.jobs_on[link]
    )


def _offsets(model: Any, instance: Instance) -> dict[str, Any]:
    domains = orbits(instance).domains
    return {
        job.name: model.new_constant(job.fixed_offset)
        if job.fixed_offset is not None
        else model.new_int_var(0, domains[job.name] - 1, "")
        for job in instance.jobs
    }


def _state(model: Any, instance: Instance, link: Link, offsets: Mapping[str, Any]) -> None:
    """State that a link is never asked for more than it carries."""
    users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
    hyperperiod = instance.hyperperiods[link.name]
    intervals: list[Any] = []
    demands: list[int] = []
    for job in users:
        for phase, k in itertools.product(job.phases, range(-1, hyperperiod // job.period)):
            begin = offsets[job.name] + (k * job.period + phase.start)
            intervals.append(model.new_fixed_size_interval_var(begin, phase.length, ""))
            demands.append(phase.rate * job.links[link.name])
    least = sorted(job.links[link.name] * min(p.rate for p in job.phases) for job in users)
    if sum(least[:2]) > link.capacity >= max(demands):
        model.add_no_overlap(intervals)
    else:
        model.add_cumulative(intervals, demands, link.capacity)
