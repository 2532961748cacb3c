"""A lower bound of contention to show where a solver has proved none: what the links cost alone."""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.instance import Instance
from metronome_opt.presolve.extend import extend_bursts
from metronome_opt.schedule import Schedule
from metronome_opt.solvers.solve import NEED_FEW_KERNELS


def known_bound(instance: Instance, schedule: Schedule) -> tuple[Fraction, str] | None:
    """Return a lower bound of the contention at the periods of a schedule, and what it rests on.

    The schedule states none, and still does not: that would be what its solver has proved.

    Returns
    -------
    (Fraction, str) or None
        weight x Mbit/s, and words; None if the schedule states a bound, or is not of contention.
    """
    if schedule.first != "contention" or schedule.lower_bound is not None:
        return None
    from metronome_opt.multiobjective.periods import stretched
    from metronome_opt.solvers.proof import links_bound

    stretch = {job.name: schedule.stretch.get(job.name, 0) for job in instance.jobs}
    as_run = extend_bursts(stretched(instance, stretch), schedule.cushion_slots)
    # A schedule that needed no kernels is not to wait for them now.
    bound = links_bound(as_run, by_load=schedule.solver in NEED_FEW_KERNELS)
    if not bound:
        return bound, "trivial"
    free = any(job.max_stretch for job in instance.jobs)
    return bound, "each link alone" + (", at these periods" if free else "")
