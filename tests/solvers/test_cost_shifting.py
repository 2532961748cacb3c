"""Cost shifting: bounds are true, rise from sweep to sweep, and close what links do not know."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job, Link, Phase
from metronome_opt.solvers import cost_shifting as module
from metronome_opt.solvers import elimination
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.cost_shifting import CostShifting
from metronome_opt.solvers.kernels.min_marginals import triangle_marginals
from metronome_opt.solvers.presolve.blocks import split
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun
from tests.landscape import optimum
from tests.solvers.searches import check_proved, searching
from tests.strategies import crowded
from tests.tiers import examples

CASES = crowded(max_jobs=5, max_links=4, most_schedules=3000)


def sweep(search: SolverRun, sweeps: int = 30) -> list[Fraction]:
    """Return the bounds after each sweep."""
    shifting = CostShifting(search)
    bounds = []
    for _ in range(sweeps):
        if search.proved or shifting.exhausted:
            break
        shifting.step()
        bounds.append(search.bound or Fraction(0))
    return bounds


@given(CASES)
@examples(60)
def test_bounds_are_true_and_never_fall(instance: Instance) -> None:
    for block in split(simplify_links(instance)).blocks:
        bounds = sweep(searching(block))
        assert bounds == sorted(bounds)
        assert all(bound <= optimum(block) for bound in bounds)


@given(CASES)
@examples(20)
def test_links_of_too_many_cells_leave_out_jobs(instance: Instance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MAX_CELLS", 16)
        for block in split(simplify_links(instance)).blocks:
            assert all(bound <= optimum(block) for bound in sweep(searching(block)))


@given(CASES)
@examples(20)
def test_threads_share_the_links_of_a_sweep(instance: Instance) -> None:
    for block in split(simplify_links(instance)).blocks:
        search = searching(block)
        shifting = CostShifting(search)
        with ThreadPoolExecutor(3) as pool:
            for task in [pool.submit(shifting.step) for _ in range(12)]:
                task.result()
        assert not shifting.is_busy
        assert (search.bound or 0) <= optimum(block)


@given(CASES, st.integers(1, 4), st.sampled_from((16, 2**30)))
@examples(40)
def test_elimination_of_shifted_costs_proves_the_optimum(
    instance: Instance, sweeps: int, max_cells: int
) -> None:
    for block in split(simplify_links(instance)).blocks:
        search = searching(block)
        shifting = CostShifting(search)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_MAX_CELLS", max_cells)
            for _ in range(sweeps):
                if shifting.stage < len(module._STAGES):
                    shifting.step()
        if not search.proved:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(elimination, "_MAX_CELLS_AT_ROOT", (30, 300))
                patch.setattr(elimination, "MAX_CELLS", 30)
                elimination.prove(search, shifting.network())
        check_proved(search, optimum(block))


def bursting(name: str, links: str, starts: tuple[int, ...] = (0,)) -> Job:
    """Return a job of period 8 with bursts of two slots and 60 Mbit/s."""
    phases = tuple(Phase(start=start, length=2, rate=60) for start in starts)
    return Job(name=name, period=8, phases=phases, links=dict.fromkeys(links, 1))


def instance_of(*jobs: Job) -> Instance:
    names = sorted({link for job in jobs for link in job.links})
    links = tuple(Link(name=name, capacity=100) for name in names)
    return Instance(name="tangle", slot_ms=1, links=links, jobs=jobs)


def test_two_links_that_share_a_pair_are_solved() -> None:
    """Beside c, links l and m each hold a and b without overlap, at other differences."""
    instance = instance_of(
        bursting("a", "lm"), bursting("b", "lm"), bursting("c", "l", (0, 4)), bursting("d", "m")
    )
    search = searching(instance)
    sweep(search)
    assert search.bound == optimum(instance)


def test_three_pairs_around_a_triangle() -> None:
    """Each pair would be apart by half a period of 4 slots; three halves are no whole.

    A slot of overlap costs 20 / 4; differences 1, 1 and 2 leave two of them.
    """
    jobs = tuple(
        Job(
            name=name,
            period=4,
            phases=(Phase(start=0, length=2, rate=60),),
            links=dict.fromkeys(links, 1),
        )
        for name, links in (("a", "lm"), ("b", "ln"), ("c", "mn"))
    )
    search = searching(instance_of(*jobs))
    sweep(search)
    assert search.bound == 10


def test_marginals_do_not_depend_on_slices_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that reads the clock after every offset shifts the costs of one that never does."""
    instance = instance_of(
        bursting("a", "lm"), bursting("b", "lm"), bursting("c", "lm", (0, 4)), bursting("d", "m")
    )
    shifted = []
    for size in (1, 100):

        def slices(_: Budget, steps: int, *, size: int = size) -> Iterator[int]:
            yield from (min(size, steps - done) for done in range(0, steps, size))

        monkeypatch.setattr(Budget, "slices", slices)
        shifting = CostShifting(searching(instance, {"a": 0, "b": 0, "c": 0, "d": 0}))
        shifting.step()
        costs = shifting.network().pair_costs
        shifted.append(
            [(pair, cost.tolist()) for pairs in costs.values() for pair, cost in pairs.items()]
        )
    assert shifted[0] == shifted[1]


def test_marginals_of_a_triangle() -> None:
    generator = np.random.default_rng(3)
    periods = (6, 4, 10)
    one, two, three = (generator.integers(0, 50, size) for size in (2, 2, 2))
    expected = np.full((3, 2), 1000)
    for first, second, third in product(*map(range, periods)):
        d = ((second - first) % 2, (third - first) % 2, (third - second) % 2)
        value = one[d[0]] + two[d[1]] + three[d[2]]
        for pair in range(3):
            expected[pair, d[pair]] = min(expected[pair, d[pair]], value)
    marginals = np.empty((3, 2), dtype=np.int64)
    minimum = triangle_marginals(one, two, three, np.array([2, 2]), marginals)
    assert marginals.tolist() == expected.tolist()
    assert minimum == expected.min()
