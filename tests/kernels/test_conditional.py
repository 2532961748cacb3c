"""Contacts, and what the open jobs of a link add to it at least: as by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance, Job
from metronome_opt.kernels.compiling import kernel
from metronome_opt.kernels.conditional import (
    Contacts,
    Users,
    contacts_of,
    min_addition,
    users_of,
)
from metronome_opt.kernels.jobs import put_job, put_use, score_job, score_use
from metronome_opt.kernels.tables import Compiled, DemandState, Ints, compile_instance
from metronome_opt.presolve import restrict
from metronome_opt.verify import evaluate
from tests import builders
from tests.landscape import choices_of, held, landscape, optimum, rates_of, scale_of
from tests.strategies import assigned, crowded
from tests.tiers import examples


def boundaries(job: Job) -> tuple[set[int], set[int]]:
    """Return the slots at which the rate is above, and below, that of the slot before."""
    rates = rates_of(job)
    up = {slot for slot in range(job.period) if rates[slot] > rates[slot - 1]}
    down = {slot for slot in range(job.period) if rates[slot] < rates[slot - 1]}
    return up, down


def abutting(first: Job, second: Job) -> set[int]:
    """Return the shifts of the second against the first at which an end meets a beginning."""
    (up, down), (my_up, my_down) = boundaries(first), boundaries(second)
    shifts = range(math.gcd(first.period, second.period))
    return {
        shift
        for shift in shifts
        if any(
            (theirs - mine - shift) % len(shifts) == 0
            for theirs, mine in [*product(up, my_down), *product(down, my_up)]
        )
    }


def possible(instance: Instance) -> dict[tuple[int, int], set[int]]:
    """Return the contacts of all pairs of jobs that meet on a link that can be overloaded."""
    found = {}
    for link in instance.links:
        users = [job for job in instance.jobs if link.name in job.links]
        if sum(job.links[link.name] * job.peak for job in users) > link.capacity:
            for i, j in combinations(instance.jobs_on[link.name], 2):
                found[i, j] = abutting(instance.jobs[i], instance.jobs[j])
    return found


def parts(instance: Instance, edges: list[tuple[int, int]]) -> set[frozenset[int]]:
    """Return what the edges connect; jobs that are fixed are one."""
    graph = nx.empty_graph(len(instance.jobs))
    graph.add_edges_from(edges)
    fixed = [i for i, job in enumerate(instance.jobs) if job.fixed_offset is not None]
    nx.add_path(graph, fixed)
    return set(map(frozenset, nx.connected_components(graph)))


def hanging_together(instance: Instance) -> np.ndarray:
    """Return of which schedules the contacts connect all that contacts can connect."""
    pairs = possible(instance)
    whole = parts(instance, [pair for pair, shifts in pairs.items() if shifts])
    choices = [choices_of(job) for job in instance.jobs]
    good = []
    for offsets in product(*choices):
        touching = [
            (i, j)
            for (i, j), shifts in pairs.items()
            if (offsets[j] - offsets[i])
            % math.gcd(instance.jobs[i].period, instance.jobs[j].period)
            in shifts
        ]
        good.append(parts(instance, touching) == whole)
    return np.array(good).reshape([len(choice) for choice in choices])


@given(assigned(crowded()))
def test_landscape_matches_evaluate(case: tuple[Instance, dict[str, int]]) -> None:
    instance, offsets = case
    value = landscape(instance)[held(instance, offsets)]
    assert Fraction(int(value), scale_of(instance)) == evaluate(instance, offsets).contention


@given(crowded(most_schedules=500))
@examples(60)
def test_some_optimal_schedule_is_connected(instance: Instance) -> None:
    values = landscape(instance)
    assert values[hanging_together(instance)].min() == values.min()


@given(crowded(max_jobs=6, most_schedules=10**5))
def test_contacts_match_rates(instance: Instance) -> None:
    contacts = contacts_of(compile_instance(instance))
    expected = possible(instance)
    found = {}
    for j, job in enumerate(instance.jobs):
        for entry in range(contacts.ptr[j], contacts.ptr[j + 1]):
            i = int(contacts.other[entry])
            assert contacts.modulus[entry] == math.gcd(job.period, instance.jobs[i].period)
            first, last = contacts.difference_ptr[entry], contacts.difference_ptr[entry + 1]
            found[i, j] = contacts.difference[first:last].tolist()
    for (i, j), shifts in expected.items():
        modulus = math.gcd(instance.jobs[i].period, instance.jobs[j].period)
        assert found.pop((i, j), []) == sorted(shifts)
        assert found.pop((j, i), []) == sorted(-shift % modulus for shift in shifts)
    assert not found
    graph = nx.empty_graph(len(instance.jobs))
    graph.add_edges_from(pair for pair, shifts in expected.items() if shifts)
    for members in nx.connected_components(graph):
        number = contacts.component[list(members)]
        assert len(set(number.tolist())) == 1
        assert np.count_nonzero(contacts.component == number[0]) == len(members)


CASES = crowded(max_jobs=5, most_schedules=2000, fixed=False)


def placement(compiled: Compiled, offsets: dict[str, int]) -> tuple[DemandState, Ints]:
    """Return the state with some jobs and the offset per job, -1 for the others."""
    state = compiled.empty()
    chosen = [offsets.get(job.name, -1) for job in compiled.instance.jobs]
    for index, offset in enumerate(chosen):
        if offset >= 0:
            put_job(state, index, offset, 1)
    return state, np.array(chosen, dtype=np.int64)


@kernel
def added(state: DemandState, contacts: Contacts, users: Users, offset: Ints, link: int) -> int:
    return min_addition(state, contacts, users, offset, link)


def answer(compiled: Compiled, users: Users, offsets: dict[str, int], link: int) -> Fraction:
    state, chosen = placement(compiled, offsets)
    before = state.demand.copy(), chosen.copy()
    scaled = added(state, contacts_of(compiled), users, chosen, link)
    assert np.array_equal(state.demand, before[0])
    assert np.array_equal(chosen, before[1])
    return compiled.fraction(scaled, 0)


def expected(compiled: Compiled, offsets: dict[str, int], link: int) -> Fraction:
    part = restrict(compiled.instance, frozenset([compiled.links[link].name]))
    names = {job.name for job in part.jobs}
    placed = tuple(job for job in part.jobs if job.name in offsets)
    alone = part.replace(jobs=placed) if placed else None
    inside = {name: offset for name, offset in offsets.items() if name in names}
    return optimum(part, inside) - (optimum(alone, inside) if alone else 0)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Compiled, list[tuple[int, dict[str, int]]]]:
    """Draw an instance and questions: a link, and who stands where; some job is on the link."""
    instance, offsets = draw(assigned(CASES))
    compiled = compile_instance(instance, common_scale=True)
    nameable = users_of(compiled, contacts_of(compiled)).nameable
    links = [link for link in range(len(compiled.links)) if nameable[link]]
    asked = []
    for _ in range(draw(st.integers(1, 8)) if links else 0):
        link = draw(st.sampled_from(links))
        users = [instance.jobs[job].name for job in compiled.links[link].jobs]
        first, last = draw(st.sampled_from(users)), draw(st.sampled_from(users))
        if first != last:  # at least one stands, at least one does not
            others = st.lists(st.sampled_from([n for n in offsets if n != last]), unique=True)
            names = {first, *draw(others)}
            asked.append(
                (link, {n: draw(st.integers(0, instance.job(n).period - 1)) for n in sorted(names)})
            )
    again = draw(st.lists(st.sampled_from(asked), max_size=4)) if asked else []
    return compiled, [*asked, *again]


@pytest.mark.slow
@given(questions())
@examples(80)
def test_memory_is_shared_by_queries(
    case: tuple[Compiled, list[tuple[int, dict[str, int]]]],
) -> None:
    compiled, asked = case
    users = users_of(compiled, contacts_of(compiled))
    none = np.full(1, -1, dtype=np.int64)
    forgetful = users._replace(key=none, value=none.copy())  # every question meets the one before
    for link, offsets in asked:
        truth = expected(compiled, offsets, link)
        assert answer(compiled, users, offsets, link) == truth
        assert answer(compiled, forgetful, offsets, link) == truth


def test_long_query_is_abandoned() -> None:
    """Where hyperperiods are long nobody looked at the clock for minutes."""
    few, many = ([(4000 * n + n * step, 1, 10) for n in range(20)] for step in (0, 1))
    for length, bursts, least in ((10**5, few, 4), (10**5, many, 0), (1000, [(0, 1, 10)], 4)):
        instance = builders.network(
            builders.job("a", length, *bursts),
            # Each by itself adds nothing; 30 + 30 of 50 slots share 10, 20 or more unserved.
            *(builders.job(name, 50, (0, 30, 60)) for name in "bc"),
        )
        compiled = compile_instance(instance, common_scale=True)
        users = users_of(compiled, contacts_of(compiled))
        assert answer(compiled, users, {"a": 0}, 0) // 1 == least


@given(assigned(CASES))
@examples(60)
def test_uses_of_job_add_up(case: tuple[Instance, dict[str, int]]) -> None:
    instance, offsets = case
    compiled = compile_instance(instance, common_scale=True)
    names = list(offsets)
    *others, _ = names
    state, _ = placement(compiled, {name: offsets[name] for name in others})
    job = len(names) - 1
    whole, part, total = (np.zeros(instance.jobs[job].period, dtype=np.int64) for _ in range(3))
    score_job(state, job, whole)
    put_together = state._replace(demand=state.demand.copy())
    record = compiled.tables.jobs[job]
    for use in range(record["first_use"], record["end_use"]):
        assert score_use(state, job, use, part) == part.min()
        total += part
        put_use(put_together, job, use, offsets[names[job]], 1)
    assert np.array_equal(whole, total)
    put_job(state, job, offsets[names[job]], 1)
    assert np.array_equal(state.demand, put_together.demand)


@pytest.mark.parametrize(
    ("lengths", "period", "nameable"),
    [
        ((4, 2, 2), 4, 0),  # the first never pauses, so it abuts on nothing
        ((2, 2), 4, 1),
        ((2,) * 5, 2000, 1),
        ((2,) * 6, 2000, 0),  # 2001 ** 6 is above 2 ** 62
    ],
)
def test_nameable_links_have_unique_numbers(
    lengths: tuple[int, ...], period: int, nameable: int
) -> None:
    jobs = [builders.job(f"j{i}", period, (0, m, 60)) for i, m in enumerate(lengths)]
    compiled = compile_instance(builders.network(*jobs), common_scale=True)
    assert users_of(compiled, contacts_of(compiled)).nameable.tolist() == [nameable]
