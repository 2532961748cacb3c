"""Evaluation agrees with hand-worked values, and refuses invalid schedules."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.verify import evaluate, evaluation
from tests.builders import job, network

F = Fraction


def test_link_without_jobs_and_job_without_links() -> None:
    problem = network(job("a", 7, (0, 7, 500), links={}))
    judged = evaluate(problem, {"a": 6})
    assert judged.contention == 0
    assert judged.objectives["latency"] == 0  # no traffic, none of it late
    assert (judged.links[0].hyperperiod, judged.links[0].jobs) == (1, 0)
    assert judged.score_mean is None
    assert judged.score_min is None


def test_stretch_extends_period_and_costs_its_share() -> None:
    a = job("a", 3, (0, 2, 60), weight=2, ready=3, max_stretch=2)
    problem = network(a, job("b", 4, (0, 2, 60)))
    apart = evaluate(problem, {"a": 2, "b": 0}, {"a": 1})
    assert apart.links[0].hyperperiod == 4
    assert apart.contention == 0
    assert apart.objectives["stretch"] == 2 * F(1, 3)
    assert apart.objectives["wait"] == 2 * 3  # (2 - 3) mod 4, b starts when ready
    assert apart.elongation == {"a": 1, "b": 0}
    # Together: 20 too much in 2 of 4 slots, weights 2 and 1; traffic is that of periods 3 and 4.
    together = evaluate(problem, {"a": 0, "b": 0}, {"a": 1})
    assert together.contention == 10
    assert together.objectives["latency"] == 10 / (60 * F(2, 3) + 60 * F(2, 4))


def test_stretched_job_may_start_in_idle_slots() -> None:
    problem = network(job("a", 3, (0, 1, 60), max_stretch=2))
    assert evaluate(problem, {"a": 4}, {"a": 2}).objectives["wait"] == 4
    with pytest.raises(InputError, match=r"offsets\.a: stated 4, but it must be in \[0, 4\)"):
        evaluate(problem, {"a": 4}, {"a": 1})


@pytest.mark.parametrize(
    ("offset", "wait"),
    [(3, 0), (0, 1), (1, 2), (2, 3)],  # ready 7 is slot 3 of a period of 4
)
def test_wait_runs_from_ready_to_next_start(offset: int, wait: int) -> None:
    problem = network(job("a", 4, (0, 1, 60), ready=7, weight=5))
    assert evaluate(problem, {"a": offset}).objectives["wait"] == 5 * wait


def test_moves_sum_weights_of_moved_jobs() -> None:
    problem = network(
        job("moved", 4, (0, 1, 10), weight=4, current_offset=1),
        job("kept", 4, (0, 1, 10), weight=2, current_offset=1),
        job("new", 4, (0, 1, 10), weight=1),
    )
    offsets = {"moved": 2, "kept": 1, "new": 3}
    assert evaluate(problem, offsets).objectives["moves"] == 4


def test_scores_of_shared_links_only() -> None:
    problem = network(
        job("a", 4, (0, 2, 60), links={"link": 1, "other": 1}),
        job("b", 4, (0, 2, 60), links={"link": 1, "other": 1, "alone": 4}),
        other=120,
        alone=100,
    )
    judged = evaluate(problem, {"a": 0, "b": 0})
    # "link": 20 over in half of the time, 1 - 10/100; "other" is never over. "alone" carries
    # 240 of 100 in half of the time, but b shares it with nobody.
    assert [link.score for link in judged.links] == [F(9, 10), 1, F(3, 10)]
    assert judged.score_mean == F(19, 20)
    assert judged.score_min == F(9, 10)


def test_elongation_is_unserved_volume_over_mean_rate() -> None:
    problem = network(job("a", 4, (0, 2, 60), weight=1), job("b", 4, (0, 2, 120), weight=4))
    # In each of 2 slots the light job goes without 60 and the heavy one without 20.
    assert evaluate(problem, {"a": 0, "b": 0}).elongation == {
        "a": F(2 * 60, 60),
        "b": F(2 * 20, 120),
    }


def test_equal_weights_share_unserved_by_demand() -> None:
    # Once in 6 slots, 90 of a and 2 * 30 of b meet on 100: 50 go unserved, 30 of a, 20 of b.
    # a has 3 iterations in 6 slots, b has 2.
    problem = network(job("a", 2, (0, 1, 90)), job("b", 3, (0, 1, 30), links={"link": 2}))
    assert evaluate(problem, {"a": 0, "b": 0}).elongation == {
        "a": F(30, 3) / 90,
        "b": F(20, 2) / (2 * 30),
    }


def test_unserved_adds_up_over_links() -> None:
    # As in the elongation, 30 of a and 20 of b once in 6 slots; on "other" b alone is 10 short
    # once in 3 slots.
    b = job("b", 3, (0, 1, 30), links={"link": 2, "other": 1})
    problem = network(job("a", 2, (0, 1, 90)), b, job("c", 5, (0, 1, 9), links={}), other=20)
    judged = evaluate(problem, {"a": 0, "b": 0, "c": 0})
    assert judged.unserved == {"a": F(30, 6), "b": F(20, 6) + F(10, 3), "c": 0}


# ------------------------------------------------------------------ what cannot be judged


def test_invalid_assignments_are_refused() -> None:
    problem = network(job("a", 4, (0, 1, 60), max_stretch=2))
    with pytest.raises(InputError, match=r"^cushion_slots: must be at least 0, got -1"):
        evaluate(problem, {"a": 0}, cushion_slots=-1)
    with pytest.raises(InputError, match=r"^offsets\.a: stated 4, but it must be in \[0, 4\)"):
        evaluate(problem, {"a": 4})
    with pytest.raises(InputError, match=r"^stretch\.a: stated -1"):
        evaluate(problem, {"a": 0}, {"a": -1})


@pytest.mark.parametrize(
    ("limit", "most"),
    [(None, 1), (F(0), 1), (F(1, 5), 1), (F(2, 5), 2), (F(599, 1000), 2), (F(3, 5), 3)],
)
def test_stretch_limit_allows_more_than_job(limit: Fraction | None, most: int) -> None:
    problem = network(job("a", 5, (0, 2, 60), max_stretch=1), job("b", 8, (0, 2, 60)))
    offsets = {"a": 0, "b": 2}
    judged = evaluate(problem, offsets, {"a": most}, stretch_limit=limit)
    assert judged.objectives["stretch"] == F(most, 5)
    with pytest.raises(InputError, match=rf"stretch.a: stated {most + 1}.* in \[0, {most}\]"):
        evaluate(problem, offsets, {"a": most + 1}, stretch_limit=limit)
    # Stretched by 3, a meets b no more: 0, 1 and 2, 3 of every 8 slots.
    assert (judged.contention == 0) == (most == 3)


def test_stretch_limit_keeps_hyperperiod_limit() -> None:
    problem = network(job("a", 5, (0, 2, 60), links={}))
    with pytest.raises(InputError, match=r"stretch.a: .* in \[0, 999995\]"):
        evaluate(problem, {"a": 0}, {"a": 10**12}, stretch_limit=F(10**18))


def test_stretch_beyond_hyperperiod_limit_is_refused() -> None:
    jobs = (job(name, 900, (0, 1, 60), max_stretch=99) for name in "abc")
    problem = network(*jobs)
    offsets = {"a": 0, "b": 0, "c": 0}
    assert evaluate(problem, offsets, {"b": 1}).links[0].hyperperiod == 900 * 901
    with pytest.raises(InputError, match=f"{900 * 901 * 907} slots"):  # 901 = 17 * 53
        evaluate(problem, offsets, {"b": 1, "c": 7})


def test_links_of_equal_jobs_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluation of a job on 16 nodes and their uplinks once exceeded its time limit."""
    evaluated = []
    real = evaluation.pieces

    def counted(runs: list[evaluation.ScheduledJob], hyperperiod: int) -> Iterator[Any]:
        evaluated.append([run.job.name for run in runs])
        return real(runs, hyperperiod)

    monkeypatch.setattr(evaluation, "pieces", counted)
    capacities = {"l": 100, "m": 110, "n": 70, "o": 50}
    flows = dict.fromkeys("lmn", 1)
    jobs = (
        job("a", 6, (0, 4, 60), links={**flows, "o": 1}),
        job("b", 6, (0, 3, 60), links={**flows, "m": 2}),
    )
    result = evaluate(network(*jobs, **capacities), {"a": 0, "b": 2})
    # They meet in 2 of 6 slots; b has twice 60 on m for 3 of 6, and a 60 of 50 on o for 4 of 6.
    late = {"l": 2 * 20, "m": 2 * 70 + 10, "n": 2 * 50, "o": 4 * 10}
    assert {link.name: 6 * link.unserved for link in result.links if link.jobs} == late
    assert [evaluated.count(names) for names in (["a", "b"], ["a"])] == [1, 1]


@pytest.mark.parametrize(("distance", "cushion"), [(4, 2), (1, None)])
def test_time_is_not_quadratic_in_jobs_of_link(distance: int, cushion: int | None) -> None:
    """2,082 jobs of one link once took 17 s."""
    bursts = ((4000 if n % 2 else 20_000, (distance * n, 2, 60)) for n in range(1000))
    jobs = (job(f"job-{n}", period, burst) for n, (period, burst) in enumerate(bursts))
    problem = network(*jobs, capacity=60)
    began = time.process_time()
    assert evaluate(problem, problem.unshifted).objectives["cushion"] == cushion
    assert time.process_time() - began < 3
