"""Blocks: schedules, bounds and notes of the parts add up to those of the whole."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given

from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers.blocks import Blocks
from metronome_opt.solvers.link_groups import LinkGroups
from metronome_opt.solvers.presolve.blocks import split
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import hard_instance
from tests.landscape import optimum
from tests.strategies import crowded
from tests.tiers import examples

SPREAD = crowded(min_jobs=4, max_jobs=7, max_links=6, most_schedules=20_000)


@given(SPREAD)
@examples(20)
def test_schedules_of_blocks_join(instance: Instance) -> None:
    whole = SolverRun(instance, time_limit=None, seed=0, threads=1)
    blocks = Blocks(whole)
    minimum = [
        evaluate(block, {job.name: instance.unshifted[job.name] for job in block.jobs}).contention
        for block in split(simplify_links(instance)).blocks
    ]
    for number, run in enumerate(blocks.runs):
        part = run.search
        blocks.join()  # a part without a schedule is as it was in the whole
        assert whole.incumbent == sum(minimum, Fraction(0))
        blocks.start(run)
        assert part.incumbent is not None
        minimum[number] = min(minimum[number], part.incumbent)
    blocks.join()
    assert whole.incumbent == sum(minimum, Fraction(0))
    named = whole.offsets_by_job()
    assert named is not None
    assert evaluate(instance, named).contention == whole.incumbent
    assert all(named[job.name] == job.fixed_offset for job in instance.jobs if job.fixed_offset)


@given(SPREAD)
@examples(15)
def test_bounds_of_blocks_add_up(instance: Instance) -> None:
    best = optimum(instance)
    whole = SolverRun(instance, time_limit=None, seed=0, threads=1)
    blocks = Blocks(whole)
    for run in blocks.runs:
        blocks.start(run)
    blocks.join()
    for run in blocks.open:
        LinkGroups(run.search).step()
        blocks.join()
        assert (whole.bound or 0) <= best
        bounds = [each.search.bound or 0 for each in blocks.runs]
        assert sum(bounds, Fraction(0)) == (whole.bound or 0)
    assert whole.incumbent == best
    assert not blocks.open


@given(SPREAD)
@examples(15)
def test_workers_prove_same_optimum(instance: Instance) -> None:
    best = optimum(instance)
    for solver, threads in (("auto", 1), ("auto", 2), ("auto", 3), ("branch-bound", 1)):
        result = solve(instance, solver, time_limit=None, threads=threads)
        assert result.value == result.bound == best
        assert result.stop_reason is StopReason.PROVED
        assert verify_schedule(instance, result.schedule) == ()


@pytest.mark.slow
def test_open_blocks_are_noted() -> None:
    for solver in ("auto", "branch-bound"):
        result = solve(hard_instance(), solver, time_limit=0.7, threads=1)
        assert any("not proved: 1" in note for note in result.notes)
