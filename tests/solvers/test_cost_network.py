"""Cost networks against the judge: tables, bounds, and what pruning and elimination keep."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers import elimination
from metronome_opt.solvers.cost_network import tables
from metronome_opt.solvers.cost_network.eliminate import decide, eliminate
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.cost_network.tables import build, condition
from tests import builders
from tests.landscape import landscape, optimum, scale_of
from tests.solvers.searches import searching
from tests.strategies import assigned, crowded
from tests.tiers import examples

Drawn = tuple[Instance, dict[str, int]]
SCHEDULES = assigned(crowded())


def stated(network: CostNetwork) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return what the tables add up to at every schedule within the domains, in units."""
    total = np.full(network.sizes, network.floor, dtype=np.int64)
    for cost in network.costs:
        assert cost.excess is not None
        shape = [size if job in cost.scope else 1 for job, size in enumerate(network.sizes)]
        total += cost.excess.reshape(shape)
    return total


def judged(network: CostNetwork) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the true units of the same schedules."""
    instance = network.compiled.instance
    rows = [
        domain if job.fixed_offset is None else [0]  # a fixed job has one row
        for job, domain in zip(instance.jobs, network.domains, strict=True)
    ]
    scaled = landscape(instance)[np.ix_(*rows)]
    factor = 1 / (network.scale * scale_of(instance))
    units = scaled * factor.numerator
    assert not (units % factor.denominator).any()  # the scale divides every contention
    return units // factor.denominator


@given(SCHEDULES)
@examples(60)
def test_tables_add_up_to_contention(drawn: Drawn) -> None:
    search = searching(*drawn)
    if search.proved:
        return
    network = build(search)
    known_units, true = stated(network), judged(network)
    # What is not better than the incumbent need only be known not to be.
    assert (np.minimum(known_units, network.limit + 1) == np.minimum(true, network.limit + 1)).all()
    assert min(int(true.min()), network.limit + 1) * network.scale == optimum(drawn[0])


@given(SCHEDULES, st.data())
@examples(30)
def test_deciding_job_keeps_other_costs(drawn: Drawn, data: st.DataObject) -> None:
    search = searching(*drawn)
    network = build(search)
    free = [job for job, size in enumerate(network.sizes) if size > 1]
    if search.proved or not free:
        return
    job = data.draw(st.sampled_from(free))
    entry = data.draw(st.integers(0, network.sizes[job] - 1))
    part = network.given(job, entry)
    assert (stated(part) == stated(network).take([entry], axis=job)).all()
    assert part.floor >= network.floor


@given(SCHEDULES, st.sampled_from((1, 10, 2**16)), st.sampled_from((1, 5, 100, 10**6)))
@examples(100)
def test_elimination_keeps_optimum(drawn: Drawn, small: int, max_cells: int) -> None:
    best = optimum(drawn[0])
    search = searching(*drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "SMALL", small)
        network, gone = eliminate(search, build(search), max_cells, max_cells)
    assert network.bound <= best
    assert search.bound is None or search.bound <= best
    if network.headroom < 0:
        assert search.incumbent == best
    elif network.solved:
        left = [int(domain[0]) for domain in network.domains]
        assert search.offer(decide(gone, left), "decided") == network.bound == best


@given(SCHEDULES, st.sampled_from((1, 5, 20, 2**20)))
@examples(100)
def test_branching_replaces_tables_too_large(drawn: Drawn, max_cells: int) -> None:
    best = optimum(drawn[0])
    search = searching(*drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "SMALL", 10)
        patch.setattr(elimination, "MAX_CELLS", max_cells)
        patch.setattr(elimination, "_MAX_CELLS_AT_ROOT", (max_cells, 2 * max_cells))
        elimination.prove(search)
    assert search.proved
    assert search.incumbent == best
    assert all(event.bound is None or event.bound <= best for event in search.trajectory)


@given(SCHEDULES, st.data())
@examples(60)
def test_conditioned_costs_are_lower_bounds(drawn: Drawn, data: st.DataObject) -> None:
    search = searching(*drawn)
    if search.proved:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "SMALL", 0)  # no link has a table but by being asked for
        network = build(search)
    for job, size in enumerate(network.sizes):
        if size > 1 and data.draw(st.booleans()):
            network = network.given(job, data.draw(st.integers(0, size - 1)))
    known = condition(network)
    assert known.floor >= network.floor
    known_units = np.full(known.sizes, known.floor, dtype=np.int64)
    for cost in known.costs:
        shape = [size if job in cost.scope else 1 for job, size in enumerate(known.sizes)]
        known_units += cost.minimum(cost.scope).reshape(shape) if cost.is_known else 0
    true = judged(network)
    assert (np.minimum(known_units, network.limit + 1) <= true).all()
    if all(size == 1 for size in known.sizes) and known.headroom >= 0:
        assert known.floor == int(true.min())  # all decided: nothing is left open


def test_cells_beyond_64_bits_are_refused_in_one_line() -> None:
    """Bursts of 3 in 4 slots share 2 at least, 20 unserved: 10 on average, 10 * 2**64 units."""
    instance = builders.network(*(builders.job(name, 4, (0, 3, 60)) for name in "ab"))
    search = searching(instance)
    domains, scale = tables.domains_of(instance), Fraction(1, 2**64)
    with pytest.raises(InputError, match=r"'link': its cost may reach .* 64-bit integers"):
        tables.contention_cells(search, search.compiled, 0, domains, scale)
