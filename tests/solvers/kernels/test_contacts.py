"""Contacts: as by enumeration, and some optimal schedule hangs together by them."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import networkx as nx
import numpy as np
from hypothesis import given

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.kernels.compiled_instance import compile_instance
from metronome_opt.solvers.kernels.contacts import contacts_of
from metronome_opt.verify import evaluate
from tests.landscape import choices_of, held, landscape, rates_of, scale_of
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
