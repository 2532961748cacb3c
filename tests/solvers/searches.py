"""Searches for tests, and checks of their ends."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from metronome_opt.problem.instance import Instance
from metronome_opt.solvers import greedy
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import evaluate


def searching(
    instance: Instance,
    offsets: Mapping[str, int] | None = None,
    *,
    time_limit: float | None = None,
    seed: int = 0,
) -> SolverRun:
    """Return a search that starts from a schedule, the greedy one by default."""
    search = SolverRun(instance, time_limit=time_limit, seed=seed, threads=1)
    if offsets is None:
        greedy.run(search)
    else:
        search.offer([offsets[job.name] for job in instance.jobs], "start")
    return search


def check_proved(search: SolverRun, best: Fraction) -> None:
    """Check that the optimum is proved, and that values and bounds are monotone."""
    assert search.incumbent == search.bound == best
    named = search.offsets_by_job()
    assert named is not None
    assert evaluate(search.instance, named).contention == best
    values = [event.incumbent or Fraction(0) for event in search.trajectory]
    bounds = [event.bound or Fraction(0) for event in search.trajectory]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
