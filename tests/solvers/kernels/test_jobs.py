"""The kernels say what the judge says, for every job at every offset."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    DemandState,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import (
    best_offset,
    contention,
    put_job,
    put_use,
    score_job,
    score_two,
    score_use,
    state_of,
)
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.strategies import assigned, instances
from tests.tiers import examples

Assigned = tuple[Instance, dict[str, int]]
VARIED = instances(max_jobs=4, max_links=3, max_period=8, weights=(0, 1, 2, 4), fixed=False)


def contention_at(instance: Instance, offsets: dict[str, int]) -> Fraction:
    return evaluate(instance, offsets).contention


def all_costs(compiled: CompiledInstance, state: DemandState, job: int) -> np.ndarray:
    cost = np.empty(compiled.instance.jobs[job].period, np.int64)
    score_job(state, job, cost)
    return cost


@given(assigned(VARIED))
def test_contention_matches_evaluate(case: Assigned) -> None:
    instance, offsets = case
    compiled = compile_instance(instance)
    state = state_of(compiled, list(offsets.values()))
    assert contention(compiled, state) == contention_at(instance, offsets)


@given(assigned(VARIED))
@examples(60)
def test_marginal_costs_match_evaluate(case: Assigned) -> None:
    instance, offsets = case
    compiled = compile_instance(instance)
    state = state_of(compiled, list(offsets.values()))
    for index, each in enumerate(instance.jobs):
        put_job(state, index, offsets[each.name], -1)
        without = contention(compiled, state)
        cost = all_costs(compiled, state, index)
        for offset in range(each.period):
            with_job = contention_at(instance, {**offsets, each.name: offset})
            assert compiled.fraction(int(cost[offset]), index) == with_job - without
        put_job(state, index, offsets[each.name], 1)


@pytest.mark.parametrize("start", [0, 5, 11])
def test_best_offset_has_maximum_cushion(start: int) -> None:
    # b repeats three times while a repeats twice: free runs differ from period to period.
    instance = network(job("a", 18, (start, 4, 60)), job("b", 12, (1, 2, 60)))
    compiled = compile_instance(instance)
    state = compiled.empty()
    put_job(state, 0, 3, 1)
    offset, least = best_offset(state, 1)
    cushions = {
        o: report.objectives["cushion"]
        for o in range(12)
        if not (report := evaluate(instance, {"a": 3, "b": o})).contention
    }
    assert least == 0
    assert cushions[offset] == max(cushion for cushion in cushions.values() if cushion is not None)


def test_costs_beyond_64_bits_are_refused() -> None:
    instance = network(job("a", 4, (0, 2, 10**18)), job("b", 4, (0, 2, 10**18 + 1)))
    with pytest.raises(InputError, match=r"jobs\[0\] \(a\).*64-bit"):
        compile_instance(instance)


@given(VARIED.filter(lambda instance: len(instance.jobs) > 1))
@examples(40)
def test_pair_cost_is_added_cost(instance: Instance) -> None:
    first, second = instance.jobs[:2]
    alone = instance.replace(jobs=(first, second))
    compiled = compile_instance(alone)
    offsets = np.arange(first.period)
    domain = np.arange(second.period)
    added = np.empty((first.period, second.period), np.int64)
    state = compiled.empty()
    score_two(state, 0, 1, offsets, domain, added)
    assert not state.demand.any()
    without = contention_at(alone.replace(jobs=(first,)), {first.name: 0})
    for o in offsets:
        for p in domain:
            both = contention_at(alone, {first.name: int(o), second.name: int(p)})
            assert compiled.fraction(int(added[o, p]), 1) == both - without


@given(assigned(VARIED))
@examples(60)
def test_uses_of_job_add_up(case: Assigned) -> None:
    instance, offsets = case
    compiled = compile_instance(instance)
    state = state_of(compiled, list(offsets.values()))
    job, offset = len(offsets) - 1, list(offsets.values())[-1]
    put_job(state, job, offset, -1)
    one_by_one = state._replace(demand=state.demand.copy())
    part, total = (np.zeros(instance.jobs[job].period, np.int64) for _ in range(2))
    record = compiled.tables.jobs[job]
    for use in range(record["first_use"], record["end_use"]):
        assert score_use(state, job, use, part) == part.min()
        total += part
        put_use(one_by_one, job, use, offset, 1)
    assert np.array_equal(all_costs(compiled, state, job), total)
    put_job(state, job, offset, 1)
    assert np.array_equal(state.demand, one_by_one.demand)
