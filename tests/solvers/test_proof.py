"""Proofs by branch and bound."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import link_groups
from metronome_opt.solvers import proof as module
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError, compile_instance
from metronome_opt.solvers.presolve.blocks import restrict
from metronome_opt.solvers.proof import Proof, link_bound, search_part
from metronome_opt.solvers.run import SolverRun, load_bound
from tests.builders import HARD, evaluation_of, job, network
from tests.landscape import optimum
from tests.solvers.searches import check_proved, searching
from tests.strategies import assigned, crowded, tight
from tests.tiers import examples

CASES = crowded(max_jobs=5, max_links=4, most_schedules=3000)


@given(assigned(CASES))
@examples(60)
def test_proof_finds_optimum(case: tuple[Instance, dict[str, int]]) -> None:
    instance, offsets = case
    search = searching(instance, offsets)
    Proof(search).expand()
    check_proved(search, optimum(instance))


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans())
@examples(120)
def test_proof_keeps_one_of_few_optima_of_interchangeable_jobs(
    seed: int, alike: int, fixed: bool, by_contacts: bool
) -> None:
    first, model, *others = tight(seed).jobs
    twins = [model.model_copy(update={"name": f"twin-{number}"}) for number in range(alike)]
    jobs = (*([first] if fixed else []), *twins, *others)[: 5 if fixed else 4]
    instance = tight(seed).replace(jobs=jobs)
    search = searching(instance, instance.unshifted)
    with pytest.MonkeyPatch.context() as patch:
        if by_contacts:
            patch.setattr(module, "_SHARPNESS", 0.1)
        Proof(search).expand()
    check_proved(search, optimum(instance))


@given(CASES)
@examples(30)
def test_link_bound_is_optimum_of_link(instance: Instance) -> None:
    search = searching(instance)
    for link in instance.links:
        if instance.jobs_on[link.name]:
            assert link_bound(search, link.name) == optimum(restrict(instance, [link.name]))


def test_total_contention_beyond_64_bits_is_refused() -> None:
    """Each link, and each job, fits by itself; all links together do not."""
    count = 20
    jobs = (
        job(
            f"j{index}",
            7,
            (0, 6, 97),
            weight=11 * 10**14,
            links={f"l{index}": 1, f"l{(index + 1) % count}": 1},
        )
        for index in range(count)
    )
    instance = network(*jobs, **{f"l{index}": 100 for index in range(count)})
    search = searching(instance)
    with pytest.raises(TooLargeError, match="by-hand: the contention of all its links"):
        Proof(search)


@given(crowded())
@examples(60)
def test_load_bound_is_lower_bound(instance: Instance) -> None:
    compiled = compile_instance(instance)
    for link in compiled.links:
        assert Fraction(0) <= load_bound(compiled, link) <= optimum(restrict(instance, [link.name]))


def loads(instance: Instance) -> Fraction:
    """Return what each link lacks if its demand is spread evenly, layer by layer of weights."""
    total = Fraction(0)
    for link in instance.links:
        users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
        weights = sorted({job.weight for job in users})
        for below, weight in pairwise([0, *weights]):
            demands = (
                Fraction(job.links[link.name] * sum(p.length * p.rate for p in job.phases))
                / job.period
                for job in users
                if job.weight >= weight
            )
            total += (weight - below) * max(Fraction(0), sum(demands) - link.capacity)
    return total


@given(crowded(), st.sampled_from(["auto", "branch-bound", "elimination"]))
@examples(60)
def test_provers_state_at_least_load_bound(instance: Instance, name: str) -> None:
    for time_limit in (0, 1e-6):
        result = solve(instance, name, time_limit=time_limit, threads=1)
        assert loads(instance) <= (result.bound or 0) <= evaluation_of(result).contention


def test_load_bound_holds_for_links_not_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A prover that was cut short stated a quarter of what can be seen at once."""
    search = searching(HARD, dict.fromkeys(HARD.unshifted, 0))
    asked = []

    def last(*arguments: Any) -> SolverRun:
        asked.append(arguments)
        search.end(StopReason.TIME_LIMIT)
        return search_part(*arguments)

    monkeypatch.setattr(link_groups, "search_part", last)
    link_groups.LinkGroups(search).step()
    assert len(asked) == 1
    assert search.bound is not None
    assert search.bound >= loads(HARD) > 0


def test_clock_is_checked_however_long_nodes_take(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def slowly(*arguments: object) -> None:
        nodes = arguments[-1]
        assert isinstance(nodes, int)
        asked.append(nodes)
        until = time.thread_time() + 0.02 * nodes
        while time.thread_time() < until:
            pass

    monkeypatch.setattr(module, "expand_tree", slowly)
    search = searching(HARD, time_limit=0.3)
    Proof(search).expand()
    assert search.stopped
    assert max(asked) < 10
