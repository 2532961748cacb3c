"""Every reduction keeps the optimum, and leads back to a schedule of the same contention."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Link, Phase
from metronome_opt.solvers.presolve.blocks import split
from metronome_opt.solvers.presolve.reductions import Restore, _grid_of, coarsen, simplify_links
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.landscape import choices_of, landscape, scale_of
from tests.strategies import instances
from tests.tiers import examples

SMALL = instances(max_jobs=4, max_links=3, max_period=6, weights=(0, 1, 2, 4))


def optimum(instance: Instance) -> tuple[Fraction, dict[str, int]]:
    """Return the least contention and a schedule that has it, by trying all."""
    values = landscape(instance)
    places = np.unravel_index(values.argmin(), values.shape)
    offsets = {
        job.name: int(choices_of(job)[place])
        for job, place in zip(instance.jobs, places, strict=True)
    }
    return Fraction(int(values.min()), scale_of(instance)), offsets


def stretched(instance: Instance, factor: int) -> Instance:
    """Return the instance in slots that are `factor` times shorter."""
    jobs = tuple(
        job.model_copy(
            update={
                "period": job.period * factor,
                "phases": tuple(
                    Phase(start=p.start * factor, length=p.length * factor, rate=p.rate)
                    for p in job.phases
                ),
                "fixed_offset": None if job.fixed_offset is None else job.fixed_offset * factor,
                "current_offset": None,
            }
        )
        for job in instance.jobs
    )
    return instance.replace(jobs=jobs)


def check_reduction(whole: Instance, smaller: Instance, restore: Restore = dict) -> None:
    value, offsets = optimum(smaller)
    assert value == optimum(whole)[0]
    assert evaluate(whole, restore(offsets)).contention == value


@given(instances(max_jobs=3, max_links=2, max_period=4, weights=(1, 2)), st.integers(1, 3))
@examples(60)
def test_grid_keeps_optimum(instance: Instance, factor: int) -> None:
    fine = stretched(instance, factor)
    assert _grid_of(fine) % factor == 0
    check_reduction(fine, *coarsen(fine))


@given(SMALL)
@examples(60)
def test_link_reduction_keeps_optimum(instance: Instance) -> None:
    check_reduction(instance, simplify_links(instance))


def test_equal_links_are_merged_and_unloaded_ones_dropped() -> None:
    jobs = (job(name, 4, (0, 2, 60), links={"a": 1, "b": 1, "c": 1}) for name in "xy")
    smaller = simplify_links(network(*jobs, a=100, b=100, c=200))
    assert smaller.links == (Link(name="a", capacity=200),)
    assert [dict(job.links) for job in smaller.jobs] == [{"a": 2}, {"a": 2}]


@given(SMALL)
@examples(80)
def test_blocks_solved_separately_give_optimum(instance: Instance) -> None:
    parts = split(instance)
    solved = [optimum(block) for block in parts.blocks]
    joined = parts.join([offsets for _, offsets in solved])
    value = optimum(instance)[0]
    assert sum((part for part, _ in solved), Fraction(0)) == value
    assert evaluate(instance, joined).contention == value


def links_of_blocks(instance: Instance) -> list[list[str]]:
    return [sorted(link.name for link in block.links) for block in split(instance).blocks]


@pytest.mark.parametrize(
    ("fixed", "blocks"),
    [
        ({}, [["ab"], ["bc"], ["cd"]]),
        ({"a": 0, "d": 1}, [["ab", "bc", "cd"]]),
        # A fixed job in the middle connects nothing: both sides are held, and apart.
        ({"b": 0}, [["ab"], ["bc"], ["cd"]]),
    ],
)
def test_chain_is_cut_between_jobs_that_are_not_held(
    fixed: dict[str, int], blocks: list[list[str]]
) -> None:
    uses = {"a": ["ab"], "b": ["ab", "bc"], "c": ["bc", "cd"], "d": ["cd"]}
    jobs = (
        job(name, 8, (0, 3, 60), links=dict.fromkeys(links, 1), fixed_offset=fixed.get(name))
        for name, links in uses.items()
    )
    assert links_of_blocks(network(*jobs, ab=100, bc=100, cd=100)) == blocks


def test_grid_ignores_start_of_burst() -> None:
    instance = network(*(job(name, 100, (7, 10, 60)) for name in "ab"))
    assert _grid_of(instance) == 10
    check_reduction(instance, *coarsen(instance))


def test_cycle_is_one_block() -> None:
    jobs = (
        job(name, 8, (0, 3, 60), links={one: 1, two: 1})
        for name, one, two in (("a", "x", "y"), ("b", "y", "z"), ("c", "z", "x"), ("d", "z", "w"))
    )
    instance = network(*jobs, x=100, y=100, z=100, w=100)
    assert links_of_blocks(instance) == [["x", "y", "z"], ["w"]]
